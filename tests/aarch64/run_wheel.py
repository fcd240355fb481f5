"""Runs the programs and the Python package of the wheel for aarch64 under qemu-user.

Each Python records two runs, which are compared: once with the daemon of the wheel, and
once with that of this machine, because the contents of the shared memory have the same
meaning on both architectures.
"""

import argparse
import os
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("msitd", "msitctl", "msitd-inspect")
RECORD = """
import array
import platform
import sys
import msitd
import msitd._formats
assert platform.machine() == "aarch64"
endpoint, prefix = sys.argv[1:]
for run, last in (("golden", 3.0), ("target", 4.0)):
    name = prefix + run
    with msitd.Client(run=name, rank=0, world_size=1, endpoint=endpoint) as client:
        for token in range(100):
            value = last if token == 42 else 3.0
            client.record(array.array("f", [1.0, 2.0, value] * 1000), op="op")
            client.next_token()
    print(f"Python {platform.python_version()} recorded {name} with",
          msitd._msit.__file__.rpartition("/")[2])
"""
DAEMON_START_S = 60


def emulated(root: Path, *variables: str) -> list[str | Path]:
    """Returns the start of a command that runs a program with the libraries of a root."""
    command: list[str | Path] = ["qemu-aarch64-static", "-L", root]
    for variable in variables:
        command += ["-E", variable]
    return command


def printed_by(*command: str | Path, expect: int = 0) -> str:
    """Returns the output of a program, and prints it."""
    env = {**os.environ, "LD_LIBRARY_PATH": ""}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=300, check=False, env=env
    )
    print(done.stdout, end="")
    assert done.returncode == expect, (command, done.returncode)
    return done.stdout


@contextmanager
def running_daemon(*msitd: str | Path) -> Iterator[Path]:
    """Runs a daemon and yields the folder of its sockets. It must end without an error."""
    with tempfile.TemporaryDirectory(prefix="msitd-") as folder:
        sockets = Path(folder) / "s"
        flags = ["--data-dir", Path(folder) / "d", "--socket-dir", sockets]
        daemon = subprocess.Popen(
            [*msitd, *flags, "--listen", "none"], stderr=subprocess.DEVNULL
        )
        try:
            deadline = time.monotonic() + DAEMON_START_S
            while not (sockets / "endpoint").exists():
                assert daemon.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)
            yield sockets
            daemon.terminate()
            assert daemon.wait(60) == 0
        finally:
            daemon.kill()
            daemon.wait()


def record(root: Path, package: Path, sockets: Path, prefix: str) -> None:
    """Records two runs with the Python of a root."""
    python = min((root / "usr/bin").glob("python3.[0-9]*[0-9]"))
    variables = (f"PYTHONHOME={root}/usr", f"PYTHONPATH={package}")
    printed_by(*emulated(root, *variables), python, "-c", RECORD, sockets, prefix)


def compare(*msitctl: str | Path, sockets: Path, prefix: str) -> None:
    """Compares the recorded runs."""
    command = [*msitctl, "--endpoint", sockets, "compare", "run", "--rows", "none"]
    golden = f"{prefix}golden"
    said = printed_by(*command, golden, f"{prefix}target", expect=1)
    assert "100: 99 pass, 1 fail" in said and "token 42" in said
    assert "PASS" in printed_by(*command, golden, golden)


def main() -> None:
    """Runs all checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument(
        "--bin", type=Path, required=True, help="programs of this machine"
    )
    parser.add_argument(
        "--oldest", type=Path, required=True, help="root with an old glibc"
    )
    parser.add_argument(
        "--python", type=Path, action="append", help="root with a Python"
    )
    args = parser.parse_args()
    oldest, roots = args.oldest.resolve(), [root.resolve() for root in args.python]
    with tempfile.TemporaryDirectory(prefix="msitd-") as folder:
        package = Path(folder)
        zipfile.ZipFile(args.wheel).extractall(package)
        for program in PROGRAMS:
            (package / "msitd/bin" / program).chmod(0o755)
            # Binds all functions at the start.
            start = emulated(oldest, "LD_BIND_NOW=1")
            said = printed_by(*start, package / "msitd/bin" / program, "--version")
            assert said.split()[0] == program
        for programs in ([*emulated(oldest)], package / "msitd/bin"), ([], args.bin):
            start, bin_folder = programs
            with running_daemon(*start, bin_folder / "msitd") as sockets:
                for root in roots:
                    record(root, package, sockets, f"{root.name}-")
                    compare(
                        *(*start, bin_folder / "msitctl"),
                        sockets=sockets,
                        prefix=f"{root.name}-",
                    )
    print("aarch64: the wheel records and compares")


if __name__ == "__main__":
    main()
