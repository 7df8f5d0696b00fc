"""`make shots`: tests/browser/shots.py says what it does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from browser.shots import main

main(sys.argv[1:])
