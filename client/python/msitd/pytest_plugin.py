"""The plug-in for pytest: the fixture `msitd_golden`.

pytest imports it in each session, so it imports little.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from msitd._core.client import Client

_DEFAULT_FOLDER = os.path.join("tests", "golden_runs")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of the plug-in."""
    group = parser.getgroup("msitd")
    group.addoption(
        "--msitd-golden",
        metavar="DIR",
        help="folder with the golden runs of msitd_golden; default: the setting "
        f"msitd_golden, or {_DEFAULT_FOLDER} below the root directory",
    )
    group.addoption(
        "--msitd-update-golden",
        action="store_true",
        help="record the golden runs of the selected tests instead of comparing",
    )
    parser.addini(
        "msitd_golden",
        "folder with the golden runs of msitd_golden, relative to the root directory",
        default=_DEFAULT_FOLDER,
    )


@pytest.fixture(scope="session")
def _msitd_golden_runs(pytestconfig: pytest.Config) -> Iterator[Any]:
    # It needs grpcio.
    from msitd.testing.golden_runs import GoldenRuns

    folder = pytestconfig.getoption("--msitd-golden") or os.path.join(
        pytestconfig.rootpath, pytestconfig.getini("msitd_golden")
    )
    updates = bool(pytestconfig.getoption("--msitd-update-golden"))
    with GoldenRuns(folder, updates=updates) as runs:
        yield runs


@pytest.fixture
def msitd_golden(
    request: pytest.FixtureRequest, _msitd_golden_runs: Any
) -> Callable[..., contextlib.AbstractContextManager[Client]]:
    """Records a run in a `with` block, and compares it with the golden run.

        def test_forward(msitd_golden):
            with msitd_golden() as client:
                msitd.register_hook(model, client)
                model(inputs)

    The golden run is named after the test, or by the first argument. Other arguments
    are those of `msitd.testing.GoldenRuns.recorded`, such as `policy`.
    """
    runs = _msitd_golden_runs

    def recorded(
        name: str | None = None, **arguments: Any
    ) -> contextlib.AbstractContextManager[Client]:
        found: contextlib.AbstractContextManager[Client] = runs.recorded(
            name or request.node.nodeid.replace("::", "."), **arguments
        )
        return found

    return recorded
