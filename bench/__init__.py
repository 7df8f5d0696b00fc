"""`make bench`: what Safelight costs, as ratios against ceilings measured in the same run."""

import sys
from pathlib import Path

sys.path.append(
    str(Path(__file__).parents[1] / "tests")
)  # whose files put hostile pictures together
