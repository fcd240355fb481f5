"""The models are those of tests/judge, and the daemons those of tests/e2e."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parents[1]
sys.path[:0] = [str(HERE), str(TESTS / "judge"), str(TESTS / "e2e")]
