"""`python -m tests.storm --seed N --minutes M`: docs/reliability.md says what it shows."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from storm.run import main

sys.exit(main())
