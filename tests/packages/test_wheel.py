"""The wheel that contains everything, on systems without any of it."""

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import CACHE
from debian_root import DebianRoot
from wheel_files import PROGRAMS, elf_files, printed_by

# Debian 11 has glibc 2.31 and a Python that is too old for the package.
OLD = "bullseye"
COMPARED = """
import array, sys
import msitd
for run, last in (("golden", 3.0), ("target", 4.0)):
    with msitd.Client(run=run, rank=0, world_size=1, endpoint=sys.argv[1]) as client:
        client.record(array.array("f", [1.0, 2.0, last]), op="op")
"""


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
