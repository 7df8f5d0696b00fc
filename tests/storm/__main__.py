"""`python -m tests.storm --seed N --minutes M`: docs/reliability.md says what it shows."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from storm.run import main  # noqa: E402 - found where the line above says

sys.exit(main())
