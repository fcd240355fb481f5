"""Fixtures: packages, and a Debian to install them in."""

import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from debian_root import DebianRoot

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "build/packages"


def pytest_configure() -> None:
    """Reports missing requirements at once."""
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.exit("tests/packages needs root and debootstrap", returncode=1)


def package(out: Path, *flags: str) -> dict[str, Path]:
    """Builds packages, and returns them by name."""
    command = [ROOT / "deploy/package", "--only", "debs", "--out", out, *flags]
    subprocess.run(command, check=True, timeout=1800, stdout=subprocess.DEVNULL)
    return {path.name.partition("_")[0]: path for path in out.glob("*.deb")}


@pytest.fixture(scope="session")
def debs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The packages that are shipped."""
    return package(tmp_path_factory.mktemp("debs"))


@pytest.fixture(scope="session")
def next_debs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same packages with a higher version."""
    return package(tmp_path_factory.mktemp("next"), "--version", "0.2.0~next")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MSITD_WHEEL, or the wheel for all versions of Python that were found here."""
    given = os.environ.get("MSITD_WHEEL")
    if given:
        return Path(given)
    out = tmp_path_factory.mktemp("wheels")
    command = [ROOT / "deploy/package", "--only", "wheels", "--out", out]
    newer = os.environ.get("MSITD_PYTHON_312")
    if newer:
        command += ["--python", "/usr/bin/python3", "--python", newer]
    subprocess.run(command, check=True, timeout=3000, stdout=subprocess.DEVNULL)
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the wheel."""
    folder = tmp_path_factory.mktemp("unpacked")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


@pytest.fixture
def bookworm() -> Iterator[DebianRoot]:
    """A clean Debian 12. Its path is short enough for Unix sockets in it."""
    folder = Path(tempfile.mkdtemp(prefix="msitd-"))
    yield DebianRoot.unpack("bookworm", CACHE, folder / "r")
    shutil.rmtree(folder)
