"""The fixtures of tests/e2e, for engines that are installed only for nightly tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "e2e"))

from fixtures import daemon, new_daemon  # noqa: F401
