"""The version of the package, and `python -m msitd`."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import msitd
import pytest


def run_module(
    *arguments: str, path: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `python -m msitd`."""
    environment = dict(os.environ)
    if path is not None:
        environment["PATH"] = path
    return subprocess.run(
        [sys.executable, "-m", "msitd", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_version_is_that_of_the_installed_package() -> None:
    assert msitd.__version__ == version("msitd")
    assert run_module("--version").stdout == f"msitd {version('msitd')}\n"


def test_other_missing_attributes_are_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'versions'"):
        _ = msitd.versions  # type: ignore[attr-defined]


def test_module_runs_a_program_and_passes_arguments(tmp_path: Path) -> None:
    if Path(msitd.__file__).with_name("bin").exists():
        pytest.skip("this package contains programs of its own")
    program = tmp_path / "msitctl"
    program.write_text('#!/bin/sh\necho "$# $2"\nexit 3\n')
    program.chmod(0o755)
    done = run_module("msitctl", "run", "a b", path=f"{tmp_path}:/usr/bin:/bin")
    assert (done.returncode, done.stdout) == (3, "2 a b\n")


@pytest.mark.parametrize("arguments", [(), ("python",), ("-c", "1")])
def test_module_runs_nothing_else(arguments: tuple[str, ...]) -> None:
    done = run_module(*arguments)
    assert done.returncode == 1
    assert "name a program: msitctl, msit, msprobe, msitd, msitd-inspect" in done.stderr


def test_missing_program_is_reported() -> None:
    if Path(msitd.__file__).with_name("bin").exists():
        pytest.skip("this package contains programs of its own")
    done = run_module("msitctl", path="/nonexistent")
    assert done.returncode == 1
    assert "no msitctl in PATH" in done.stderr


def test_help_names_the_programs() -> None:
    assert "PROGRAM is msitctl" in run_module("--help").stdout
