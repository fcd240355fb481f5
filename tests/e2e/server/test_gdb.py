"""The commands that deploy/gdb adds to gdb."""

import re
import shutil
import subprocess

import pytest

from daemon import ROOT, Daemon

pytestmark = pytest.mark.skipif(shutil.which("gdb") is None, reason="no gdb")


def test_threads_are_listed_with_what_they_execute(daemon: Daemon) -> None:
    done = subprocess.run(
        ["gdb", "-batch", "-nx", "-p", str(daemon.process.pid)]
        + ["-x", str(ROOT / "deploy/gdb/msitd.py"), "-ex", "msitd-threads"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "ptrace: Operation not permitted" in done.stderr:
        pytest.skip("the kernel allows no debugger")
    for thread, function in {
        "commit": "waits in msitd::ingest::ChunkPath::",
        "digest": "waits in msitd::ingest::ChunkPath::DigestLoop",
        "accept": "msitd::server::ConnectionAcceptor::Serve",
        "event_engine": "not in msitd",
    }.items():
        line = rf"^ *\d+ {thread} +{function}"
        assert re.search(line, done.stdout, re.MULTILINE), done.stdout + done.stderr
