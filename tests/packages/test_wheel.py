"""The wheel that contains everything, on systems without any of it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import CACHE, ROOT
from debian_root import DebianRoot

SIZE_MAX = 40 << 20
OLDEST_GLIBC = (2, 28)
PROGRAMS = ("msitd", "msitctl", "msitd-inspect")
# Parts of every Linux system with glibc.
SYSTEM_LIBRARIES = re.compile(r"(libc|libm|libpthread|libdl|librt|libgcc_s|ld-linux)\b")
# Symbols that a library of the wheel adds to a process.
EXPORTS = re.compile(r"PyInit_|msit_|acl|_ZZNSt8__detail")
# Debian 11 has glibc 2.31 and a Python that is too old for the package.
OLD = "bullseye"
COMPARED = """
import array, sys
import msitd
for run, last in (("golden", 3.0), ("target", 4.0)):
    with msitd.Client(run=run, rank=0, world_size=1, endpoint=sys.argv[1]) as client:
        client.record(array.array("f", [1.0, 2.0, last]), op="op")
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel for all versions of Python that were found here."""
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


@contextmanager
def unpack_root(suite: str) -> Iterator[DebianRoot]:
    """A clean Debian of the suite."""
    folder = Path(tempfile.mkdtemp(prefix="msitd-"))
    try:
        yield DebianRoot.unpack(suite, CACHE, folder / "r")
    finally:
        shutil.rmtree(folder)


@contextmanager
def running_daemon(root: DebianRoot, program: str) -> Iterator[None]:
    """A daemon in the root with its sockets in /run/w. Must end without an error."""
    root.path("/run/w").mkdir()
    flags = ["--data-dir", "/tmp/store", "--socket-dir", "/run/w", "--listen", "none"]
    process = subprocess.Popen(root.command(program, *flags), stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not root.path("/run/w/endpoint").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        yield
        process.terminate()
        assert process.wait(40) == 0
    finally:
        process.kill()
        process.wait()


def check_comparisons(root: DebianRoot, msitctl: str) -> None:
    """Compares the recorded runs."""
    compare = (msitctl, "--endpoint", "/run/w", "compare", "run", "golden")
    assert "verdict           FAIL" in root.run(*compare, "target", expect=1)
    assert "PASS" in root.run(*compare, "golden")


def elf_files(folder: Path) -> list[Path]:
    """Returns all programs and libraries in a folder."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"
    ]


def printed_by(*command: str | Path) -> str:
    """Returns the output of a program that must succeed."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_wheel_is_small_and_says_for_whom_it_is(wheel: Path) -> None:
    assert wheel.stat().st_size <= SIZE_MAX
    tag = "_".join(map(str, OLDEST_GLIBC))
    assert re.fullmatch(
        rf"msitd-[0-9.]+-cp31[01]-abi3-manylinux_{tag}_{os.uname().machine}.whl",
        wheel.name,
    )


def test_no_file_needs_a_newer_glibc_or_another_library(unpacked: Path) -> None:
    files = elf_files(unpacked)
    assert {path.name for path in files} >= {*PROGRAMS, "libmsit.so.1", "_msit.abi3.so"}
    for path in files:
        needed = re.findall(r"NEEDED\s+(\S+)", printed_by("objdump", "-p", path))
        others = [name for name in needed if not SYSTEM_LIBRARIES.match(name)]
        assert others in ([], ["libmsit.so.1"]), path.name
        symbols = printed_by("objdump", "-T", path)
        versions = re.findall(r"\(?GLIBC_([\d.]+)\)?", symbols)
        newest = max(tuple(map(int, version.split("."))) for version in versions)
        assert newest <= OLDEST_GLIBC, path.name
        assert "GLIBCXX" not in symbols, path.name


def test_libraries_export_nothing_of_those_they_contain(unpacked: Path) -> None:
    libraries = [path for path in elf_files(unpacked) if ".so" in path.name]
    for path in libraries:
        listed = printed_by("nm", "--dynamic", "--defined-only", path)
        names = [line.split()[-1] for line in listed.splitlines()]
        assert all(EXPORTS.match(name) or name == "MSIT_1" for name in names), path.name


def test_stable_module_is_for_all_later_versions_of_python(unpacked: Path) -> None:
    modules = sorted(path.name for path in (unpacked / "msitd").glob("_msit.*.so"))
    assert "_msit.abi3.so" in modules
    assert f"_msit.cpython-3{sys.version_info.minor}-" in "".join(modules)


def test_programs_run_for_an_ordinary_user(wheel: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="msitd-"))
    folder.chmod(0o755)
    try:
        subprocess.run(["/usr/bin/python3", "-m", "venv", folder / "v"], check=True)
        install = [folder / "v/bin/pip", "install", "--quiet", "--no-index", wheel]
        subprocess.run(install, check=True)
        user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        user += ["env", "-i", "HOME=/nonexistent"]
        for program in PROGRAMS:
            said = printed_by(*user, folder / "v/bin" / program, "--version")
            assert said.split()[0] == program
        assert "msit" in printed_by(*user, folder / "v/bin/msit", "--help")
        python = [*user, folder / "v/bin/python"]
        said = printed_by(*python, "-m", "msitd", "msitctl", "--version")
        version = "import msitd; print(msitd.__version__)"
        assert said.split() == ["msitctl", printed_by(*python, "-c", version).strip()]
        assert "msit" in printed_by(*python, "-m", "msitd", "msit", "--help")
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_wheel_needs_nothing_but_python(suite: str, wheel: Path) -> None:
    with unpack_root(suite) as root:
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
        with running_daemon(root, "/venv/bin/msitd"):
            root.run("/venv/bin/python", "-c", COMPARED, "/run/w")
            check_comparisons(root, "/venv/bin/msitctl")
        inspect = ("/venv/bin/msitd-inspect", "verify", "--data-dir", "/tmp/store")
        assert "problems=0" in root.run(*inspect)


def test_programs_and_libraries_work_with_an_older_glibc(
    unpacked: Path, wheel: Path, tmp_path: Path
) -> None:
    python = tmp_path / "v/bin/python"
    subprocess.run(["/usr/bin/python3", "-m", "venv", tmp_path / "v"], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--no-index", wheel]
    subprocess.run(install, check=True)
    with unpack_root(OLD) as root:
        shutil.copytree(unpacked / "msitd", root.path("/w"))
        programs = [root.path("/w/bin") / program for program in PROGRAMS]
        for program in programs:
            program.chmod(0o755)
        # Binds all functions of each file.
        for path in elf_files(root.path("/w")):
            relative = f"/{path.relative_to(root.folder)}"
            said = root.run("sh", "-c", f"ldd -r {relative} 2>&1 || true")
            missing = re.findall(r"undefined symbol: (\S+)", said)
            assert all(name.startswith(("Py", "_Py")) for name in missing), said
            assert "not found" not in said
        with running_daemon(root, "/w/bin/msitd"):
            # Records from this machine, whose Python is new enough.
            sockets = str(root.path("/run/w"))
            subprocess.run([python, "-c", COMPARED, sockets], check=True, timeout=60)
            check_comparisons(root, "/w/bin/msitctl")
        inspect = ("/w/bin/msitd-inspect", "verify", "--data-dir", "/tmp/store")
        assert "problems=0" in root.run(*inspect)
