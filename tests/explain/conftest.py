"""The modules of this folder are found by their names."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent)]
