"""msitd.testing and the plug-in for pytest, with a real daemon."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN_DIR = os.environ.get("MSITD_BIN_DIR", str(ROOT / "build/release/bin"))

pytestmark = pytest.mark.skipif(
    not os.path.exists(f"{BIN_DIR}/msitd"), reason="no daemon is built"
)

_TEST = """
    import msitd
    import torch

    def test_forward(msitd_golden):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
        with msitd_golden() as client:
            msitd.register_hook(model, client)
            model(torch.ones(2, 4) * SCALE)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def _write(project: Path, text: str, scale: float = 1.0) -> None:
    body = textwrap.dedent(text).replace("SCALE", repr(scale))
    (project / "test_model.py").write_text(body)


def _run(project: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *flags],
        cwd=project,
        env={**os.environ, "PATH": f"{BIN_DIR}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_changed_model_fails(project: Path) -> None:
    _write(project, _TEST)
    missing = _run(project)
    assert missing.returncode == 1
    assert "pytest --msitd-update-golden" in missing.stdout
    assert not (project / "tests").exists()

    updated = _run(project, "--msitd-update-golden")
    assert updated.returncode == 0, updated.stdout
    (folder,) = (project / "tests" / "golden_runs").iterdir()
    assert folder.name.startswith("test_model.py.test_forward")
    assert sum(each.stat().st_size for each in folder.iterdir()) < 16 << 10

    equal = _run(project)
    assert equal.returncode == 0, equal.stdout

    _write(project, _TEST, scale=1.5)
    changed = _run(project)
    assert changed.returncode == 1
    assert "differs from" in changed.stdout
    assert "AssertionError" in changed.stdout
    # A failed test changes no golden run.
    _write(project, _TEST)
    assert _run(project).returncode == 0


_SMALL = """
    import numpy

    def test_one(msitd_golden):
        with msitd_golden() as client:
            client.record(numpy.ones(3) * SCALE, op="x")
"""


def test_update_replaces_a_golden_run(project: Path) -> None:
    _write(project, _SMALL)
    assert _run(project, "--msitd-update-golden").returncode == 0
    _write(project, _SMALL, scale=1.5)
    assert _run(project).returncode == 1
    assert _run(project, "--msitd-update-golden").returncode == 0
    assert _run(project).returncode == 0
    assert len(list((project / "tests" / "golden_runs").iterdir())) == 1


def test_the_folder_may_be_elsewhere_and_moved(project: Path) -> None:
    _write(project, _SMALL)
    assert _run(project, "--msitd-golden=one", "--msitd-update-golden").returncode == 0
    (project / "one").rename(project / "two x%")
    assert _run(project, "--msitd-golden=two x%").returncode == 0
    refused = _run(project, "--msitd-golden=a,b")
    assert "has a comma" in refused.stdout


_SEVERAL = """
    import numpy
    import pytest

    @pytest.mark.parametrize("size", [1, 2])
    def test_sizes(msitd_golden, size):
        with msitd_golden() as client:
            client.record(numpy.ones(size), op="x")
        with msitd_golden("by name") as client:
            client.record(numpy.zeros(3), op="x")
        with msitd_golden("by/name") as client:
            client.record(numpy.ones(3), op="x")

    def test_nothing(msitd_golden):
        with msitd_golden("by name"):
            pass

    def test_raises(msitd_golden):
        with msitd_golden("by name") as client:
            client.record(numpy.ones(3), op="x")
            raise RuntimeError("of the test")
"""


def test_names_are_apart(project: Path) -> None:
    _write(project, _SEVERAL)
    flags = ("-k", "sizes", "--msitd-update-golden")
    assert _run(project, *flags).returncode == 0
    assert len(list((project / "tests" / "golden_runs").iterdir())) == 4
    again = _run(project)
    assert "2 failed, 2 passed" in again.stdout
    assert "nothing was recorded" in again.stdout
    assert "RuntimeError: of the test" in again.stdout


def test_a_block_that_fails_replaces_nothing(project: Path) -> None:
    _write(project, _SEVERAL)
    assert _run(project, "-k", "sizes", "--msitd-update-golden").returncode == 0
    updated = _run(project, "--msitd-update-golden", "-k", "nothing or raises")
    assert "2 failed" in updated.stdout
    assert "2 passed" in _run(project, "-k", "sizes").stdout


def test_the_plugin_imports_little(project: Path) -> None:
    _write(
        project,
        """
        import sys

        def test_modules():
            assert not {"grpc", "torch", "numpy", "msitd.query"} & set(sys.modules)
        """,
    )
    done = _run(project)
    assert done.returncode == 0, done.stdout
