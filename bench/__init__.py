"""`make bench`: what Safelight costs, as ratios against ceilings measured in the same run."""
