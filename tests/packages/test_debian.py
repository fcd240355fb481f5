"""The life cycle of the packages in a clean Debian 12, with apt."""

import csv
import io
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msitd
import numpy as np
from debian_root import DebianRoot

WANTED_BY = "/etc/systemd/system/multi-user.target.wants/msitd.service"
CONFIG = "/etc/msitd/msitd.toml"


@contextmanager
def running(root: DebianRoot) -> Iterator[str]:
    """Runs the installed daemon as its unit does, and yields its socket folder."""
    for folder, mode in (("/var/lib/msitd", "0700"), ("/run/msitd", "0750")):
        root.run("install", "-d", "-o", "msitd", "-g", "msitd", "-m", mode, folder)
    command = ["/usr/bin/msitd", f"--config={CONFIG}", "--listen", "none"]
    process = subprocess.Popen(
        root.command(*command, user="msitd"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        endpoint = root.path("/run/msitd/endpoint")
        deadline = time.monotonic() + 30
        while not endpoint.exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        yield str(root.path("/run/msitd"))
        process.terminate()
        assert process.wait(40) == 0
    finally:
        process.kill()
        process.wait()


def record(root: DebianRoot, run: str) -> None:
    with (
        running(root) as endpoint,
        msitd.Client(run=run, rank=0, world_size=1, endpoint=endpoint) as client,
    ):
        client.record(np.arange(1000, dtype=np.float32), op="op")


def sum_of(root: DebianRoot, run: str) -> str:
    """Returns the sum of the recorded tensors, as queried by the installed command."""
    with running(root):
        table = root.run("msitctl", "tensor", "stats", "--run", run, "-o", "csv")
        (row,) = csv.DictReader(io.StringIO(table))
        return row["summary.sum"]


def status_of(root: DebianRoot, package: str) -> str:
    query = ("dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", package)
    return root.run(*query)


def test_life_of_the_packages(
    bookworm: DebianRoot, debs: dict[str, Path], next_debs: dict[str, Path]
) -> None:
    root = bookworm
    root.apt("update")
    root.install(*debs.values())

    # Installed: a user, an enabled unit, programs that find everything they
    # need.
    assert "msitd:" in root.path("/etc/passwd").read_text()
    assert root.path(WANTED_BY).is_symlink()
    for program in ("msitd", "msitctl", "msitd-inspect", "msit", "msprobe"):
        root.run(program, "--help")
    unit = root.path("/usr/lib/systemd/system/msitd.service").read_text()
    assert "ExecStart=/usr/bin/msitd --config=/etc/msitd/msitd.toml" in unit
    record(root, "before")
    before = sum_of(root, "before")
    assert float(before) == 499500

    # Upgraded: the administrator's configuration and choices are kept, and so
    # are runs.
    config = root.path(CONFIG)
    config.write_text(config.read_text().replace("nice = 5", "nice = 7"))
    root.path(WANTED_BY).unlink()
    root.install(*next_debs.values())
    assert status_of(root, "msitd") == "installed 0.2.0~next"
    assert "nice = 7" in config.read_text()
    assert not root.path(WANTED_BY).exists()
    assert sum_of(root, "before") == before
    record(root, "after")

    # Downgraded, as after a failed upgrade.
    old = [f"/debs/{deb.name}" for deb in debs.values()]
    for deb in debs.values():
        root.path(f"/debs/{deb.name}").write_bytes(deb.read_bytes())
    root.apt("install", "--allow-downgrades", *old)
    assert sum_of(root, "after") == before

    # Removed: programs are deleted; configuration, user and runs are kept.
    root.apt("remove", "msitd", "msitctl")
    assert not root.path("/usr/bin/msitd").exists()
    assert not root.path("/usr/bin/msit").exists()
    assert config.exists()
    assert root.path("/var/lib/msitd/segments").is_dir()

    # Purged: the configuration is deleted, too, and everything that helpers
    # keep of the unit.
    said = root.apt("purge", "msitd")
    assert "the runs in /var/lib/msitd are kept" in said
    assert not config.parent.exists()
    left = root.run("find", "/etc/systemd", "/var/lib/systemd", "-name", "*msitd*")
    assert left == ""
    assert root.path("/var/lib/msitd/segments").is_dir()

    # Installed again: enabled again, with the earlier runs.
    root.install(*debs.values())
    assert root.path(WANTED_BY).is_symlink()
    assert sum_of(root, "before") == before


def test_library_alone_brings_no_daemon(
    bookworm: DebianRoot, debs: dict[str, Path]
) -> None:
    root = bookworm
    root.apt("update")
    root.install(debs["libmsit1"], debs["libmsit-dev"])
    assert not root.path("/usr/bin/msitd").exists()
    # A program that links it runs without any configured library path.
    cached = root.run("ldconfig", "-p")
    assert "libmsit.so.1 " in cached
    # It is removed without a trace.
    root.apt("purge", "libmsit1")
    assert "libmsit" not in root.run("ldconfig", "-p")
    assert not list(root.path("/usr/lib").rglob("*msit*"))
