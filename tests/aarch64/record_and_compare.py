"""Records two runs with a Python for aarch64, under qemu-user, and compares them.

The daemon and the command are those of this machine: the contents of the shared
memory have the same meaning on both architectures.
"""

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

RECORD = """
import array
import platform
import sys
import msitd
import msitd._formats
assert platform.machine() == "aarch64"
for run, last in (("golden", 3.0), ("target", 4.0)):
    with msitd.Client(run=run, rank=0, world_size=1, endpoint=sys.argv[1]) as client:
        for token in range(100):
            value = last if token == 42 else 3.0
            client.record(array.array("f", [1.0, 2.0, value] * 1000), op="op")
            client.next_token()
    print(run, "is recorded")
"""
DAEMON_START_S = 30


def record(sysroot: Path, package: Path, endpoint: Path) -> None:
    """Runs the script with the Python of the root."""
    subprocess.run(
        [
            *("qemu-aarch64-static", "-L", sysroot),
            *("-E", f"PYTHONHOME={sysroot}/usr", "-E", f"PYTHONPATH={package}"),
            *(sysroot / "usr/bin/python3.11", "-c", RECORD, endpoint),
        ],
        check=True,
        timeout=300,
        env={**os.environ, "LD_LIBRARY_PATH": ""},
    )


def compare(programs: Path, endpoint: Path, target: str) -> str:
    """Returns the output of comparing the golden run with another one."""
    done = subprocess.run(
        [programs / "msitctl", "--endpoint", endpoint, "compare", "run"]
        + ["golden", target, "--rows", "none"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    print(done.stdout, end="")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sysroot", type=Path, required=True)
    parser.add_argument("--package", type=Path, required=True)
    parser.add_argument("--bin", type=Path, required=True)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="msitd-") as folder:
        sockets = Path(folder) / "s"
        daemon = subprocess.Popen(
            [flags.bin / "msitd", "--data-dir", Path(folder) / "d"]
            + ["--socket-dir", sockets, "--listen", "none"],
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + DAEMON_START_S
            while not (sockets / "endpoint").exists():
                assert daemon.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)
            record(flags.sysroot.resolve(), flags.package.resolve(), sockets)
            said = compare(flags.bin, sockets, "target")
            assert "100: 99 pass, 1 fail" in said and "token 42" in said, said
            assert "PASS" in compare(flags.bin, sockets, "golden")
        finally:
            daemon.terminate()
            daemon.wait(40)
    print("aarch64: a Python of aarch64 records what is compared")


if __name__ == "__main__":
    main()
