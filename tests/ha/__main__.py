"""`python -m tests.ha --minutes 10 --faults 20 --seed 1`: docs/ha/README.md says what it shows."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ha.run import main

sys.exit(main())
