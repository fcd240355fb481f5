"""The wheel that contains everything, in a Debian without any of it."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import CACHE, ROOT
from debian_root import DebianRoot

SIZE_MAX = 40 << 20
STABLE_ABI_MIN = 12
PROGRAMS = ("msitd", "msitctl", "msitd-inspect")
COMPARED = """
import array
import msitd
for run, last in (("golden", 3.0), ("target", 4.0)):
    with msitd.Client(run=run, rank=0, world_size=1, endpoint="/run/w") as client:
        client.record(array.array("f", [1.0, 2.0, last]), op="op")
"""


def newer_python() -> str | None:
    """Returns a Python with headers that builds a wheel for the stable ABI."""
    named = os.environ.get("MSITD_PYTHON_312")
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [shutil.which("python3.12"), shutil.which("python3.13")]
    found += [
        str(path) for path in sorted(pyenv.glob("versions/3.1[23].*/bin/python3"))
    ]
    for python in [named, *found]:
        asks = f"import sys; sys.exit(sys.version_info < (3, {STABLE_ABI_MIN}))"
        if python and not subprocess.run([python, "-c", asks], check=False).returncode:
            return python
    return None


# A Debian, the tags of a wheel that works there, and the Python that builds it.
# No Python of Debian 12 can build for Debian 13, but any Python from 3.12 on
# can.
DEBIANS = {
    "bookworm": ("cp311-cp311", "/usr/bin/python3"),
    "trixie": ("cp312-abi3", newer_python()),
}


@pytest.fixture(scope="session", params=DEBIANS)
def suite(request: pytest.FixtureRequest) -> str:
    """The Debian of a test."""
    return str(request.param)


@pytest.fixture(scope="session")
def wheel(suite: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel for the Python of that Debian."""
    tags, python = DEBIANS[suite]
    if python is None:
        pytest.skip(f"no Python for {tags} with headers; name it in MSITD_PYTHON_312")
    out = tmp_path_factory.mktemp("wheels")
    command = [ROOT / "deploy/package", "--only", "wheels", "--out", out]
    command += ["--python", python]
    subprocess.run(command, check=True, timeout=3000, stdout=subprocess.DEVNULL)
    (path,) = out.glob(f"*-{tags}-*.whl")
    return path


@pytest.fixture
def root(suite: str) -> Iterator[DebianRoot]:
    """A clean Debian of the suite."""
    folder = Path(tempfile.mkdtemp(prefix="msitd-"))
    yield DebianRoot.unpack(suite, CACHE, folder / "r")
    shutil.rmtree(folder)


def test_wheel_is_small_and_says_for_whom_it_is(wheel: Path) -> None:
    assert wheel.stat().st_size <= SIZE_MAX
    assert re.fullmatch(
        rf"msitd-[0-9.]+-cp3\d+-(cp3\d+|abi3)-manylinux_2_36_{os.uname().machine}.whl",
        wheel.name,
    )


def test_wheel_needs_nothing_but_python(root: DebianRoot, wheel: Path) -> None:
    root.apt("update")
    # Only Python, and the module that installs a wheel.
    root.apt("install", "python3", "python3-venv")
    root.path("/w").mkdir()
    shutil.copy(wheel, root.path("/w"))
    root.run("python3", "-m", "venv", "/venv")
    root.run("/venv/bin/pip", "install", "--no-index", f"/w/{wheel.name}")
    assert not list(root.path("/usr/lib").rglob("libgrpc*"))
    for program in PROGRAMS:
        said = root.run(f"/venv/bin/{program}", "--version")
        assert said.split()[0] == program

    root.path("/run/w").mkdir()
    flags = ["--data-dir", "/tmp/store", "--socket-dir", "/run/w", "--listen", "none"]
    process = subprocess.Popen(
        root.command("/venv/bin/msitd", *flags), stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 30
        while not root.path("/run/w/endpoint").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        root.run("/venv/bin/python", "-c", COMPARED)
        ask = ("/venv/bin/msitctl", "--endpoint", "/run/w", "compare", "run")
        said = root.run(*ask, "golden", "target", expect=1)
        assert "verdict           FAIL" in said
        assert "PASS" in root.run(*ask, "golden", "golden")
        process.terminate()
        assert process.wait(40) == 0
    finally:
        process.kill()
        process.wait()
    said = root.run("/venv/bin/msitd-inspect", "verify", "--data-dir", "/tmp/store")
    assert "problems=0" in said
