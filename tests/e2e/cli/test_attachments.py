"""Attachments of runs with msitctl and msitd.query, and after crashes."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from msitd import query
from msitd.v1 import attachment_service_pb2 as attachment_pb
from msitd.v1 import attachment_service_pb2_grpc as attachment_grpc

from daemon import BIN_DIR, Daemon

MIB = 1 << 20
GONE_TIMEOUT_S = 30


@pytest.fixture
def with_run(daemon: Daemon) -> Daemon:
    daemon.ctl("run", "create", "r")
    daemon.ctl("run", "seal", "r")
    return daemon


def test_msitctl_attaches_lists_reads_and_detaches(
    with_run: Daemon, tmp_path: Path
) -> None:
    data = os.urandom(3 * MIB + 17)
    file = tmp_path / "tree.json"
    file.write_bytes(data)
    attached = with_run.ctl_json("run", "attach", "r", str(file))
    assert attached["name"] == "tree.json"
    assert attached["media_type"] == "application/json"
    assert int(attached["size_bytes"]) == len(data)

    again = with_run.ctl("run", "attach", "r", str(file), expect=64 + 6)
    assert "ATTACHMENT_EXISTS" in again.stderr
    flags = ["--name", "graph", "--media-type", "text/x-graph"]
    with_run.ctl("run", "attach", "r", str(file), *flags)
    with_run.ctl("run", "attach", "r", str(file), *flags, "--replace")

    listed = with_run.ctl("run", "attachments", "r").stdout.splitlines()
    assert [line.split()[:3] for line in listed] == [
        ["name", "media_type", "size"],
        ["graph", "text/x-graph", "3"],
        ["tree.json", "application/json", "3"],
    ]
    names = with_run.ctl("run", "attachments", "r", "-o", "name").stdout
    assert names == "graph\ntree.json\n"

    assert with_run.ctl_json("run", "attachment", "r", "tree.json") == attached
    out = tmp_path / "out"
    with_run.ctl("run", "attachment", "r", "graph", "--out", str(out))
    assert out.read_bytes() == data
    piped = with_run.ctl("run", "attachment", "r", "graph", "--out", "-", binary=True)
    assert piped.stdout == data

    assert (
        "deleted attachment graph" in with_run.ctl("run", "detach", "r", "graph").stderr
    )
    gone = with_run.ctl("run", "detach", "r", "graph", expect=64 + 5)
    assert "ATTACHMENT_NOT_FOUND" in gone.stderr
    out.unlink()
    with_run.ctl("run", "attachment", "r", "graph", "--out", str(out), expect=64 + 5)
    assert not out.exists()
    with_run.ctl("run", "attachments", "no", expect=64 + 5)


def test_msitctl_takes_stdin_and_refuses_what_is_too_large(
    with_run: Daemon, tmp_path: Path
) -> None:
    result = subprocess.run(
        [BIN_DIR / "msitctl", "run", "attach", "r", "-", "--name", "n", "-o", "name"],
        env={**os.environ, "MSITCTL_ENDPOINT": with_run.endpoint},
        input=b"from a pipe",
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert result.stdout == b"n\n"
    read = with_run.ctl("run", "attachment", "r", "n", "--out", "-", binary=True)
    assert read.stdout == b"from a pipe"
    nameless = with_run.ctl("run", "attach", "r", "-", expect=2)
    assert "--name" in nameless.stderr

    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(64 * MIB + 1)
    refused = with_run.ctl("run", "attach", "r", str(large), expect=3)
    assert "67108864" in refused.stderr
    with_run.ctl("run", "attach", "r", str(tmp_path / "none"), expect=3)
    with large.open("r+b") as file:
        file.truncate(64 * MIB)
    with_run.ctl("run", "attach", "r", str(large))
    assert with_run.ctl("run", "attachments", "r", "-o", "name").stdout == "large\nn\n"


def test_the_python_client_does_the_same(with_run: Daemon) -> None:
    data = os.urandom(2 * MIB + 1)
    with query.connect(with_run.endpoint) as asked:
        made = asked.runs.attach("r", "a", data, media_type="text/plain")
        assert (made.run, made.name, made.size_bytes) == ("r", "a", len(data))
        assert asked.runs.attach("r", "empty", b"").size_bytes == 0
        assert asked.runs.read_attachment("r", "a") == data
        assert asked.runs.read_attachment("r", "empty") == b""
        assert [a.name for a in asked.runs.attachments("r")] == ["a", "empty"]
        assert asked.runs.attachment("r", "a") == made
        with pytest.raises(query.QueryError) as caught:
            asked.runs.attach("r", "a", b"other")
        assert caught.value.reason == "ATTACHMENT_EXISTS"
        asked.runs.attach("r", "a", b"other", replace=True)
        assert asked.runs.read_attachment("r", "a") == b"other"
        asked.runs.detach("r", "a")
        with pytest.raises(query.QueryError) as caught:
            asked.runs.read_attachment("r", "a")
        assert caught.value.reason == "ATTACHMENT_NOT_FOUND"


class Upload:
    """A write that has sent its bytes and does not commit them."""

    def __init__(self, daemon: Daemon, name: str, pieces: int) -> None:
        self.sent = threading.Event()
        self.done = threading.Event()
        stub = attachment_grpc.AttachmentServiceStub(daemon.channel())
        self.call = stub.WriteAttachment.future(self._messages(name, pieces))

    def _messages(self, name: str, pieces: int) -> Iterator[Any]:
        opening = attachment_pb.WriteAttachmentRequest()
        opening.open.run = "r"
        opening.open.name = name
        opening.open.media_type = "text/plain"
        yield opening
        for _ in range(pieces):
            yield attachment_pb.WriteAttachmentRequest(data=os.urandom(MIB))
        self.sent.set()
        self.done.wait()


def index_bytes(daemon: Daemon) -> int:
    sizes = (f.stat().st_size for f in (daemon.data_dir / "index").glob("*.sst"))
    return sum(sizes)


def test_a_kill_in_the_middle_of_a_write_leaves_nothing(with_run: Daemon) -> None:
    with query.connect(with_run.endpoint) as asked:
        asked.runs.attach("r", "kept", b"bytes")
    upload = Upload(with_run, "torn", 40)
    assert upload.sent.wait(60)
    assert not upload.call.done()
    with_run.kill()
    upload.done.set()
    assert isinstance(upload.call.exception(), grpc.RpcError)

    with_run.start()
    with query.connect(with_run.endpoint) as asked:
        assert [a.name for a in asked.runs.attachments("r")] == ["kept"]
        assert asked.runs.read_attachment("r", "kept") == b"bytes"
    # Attachments that the log brought back are removed in the background.
    deadline = time.monotonic() + GONE_TIMEOUT_S
    while index_bytes(with_run) > 10 * MIB:
        assert time.monotonic() < deadline, index_bytes(with_run)
        time.sleep(0.05)
    with query.connect(with_run.endpoint) as asked:
        asked.runs.attach("r", "torn", b"again")
        assert asked.runs.read_attachment("r", "torn") == b"again"
    assert with_run.stop() == 0


def test_a_write_does_not_keep_the_daemon_from_stopping(with_run: Daemon) -> None:
    upload = Upload(with_run, "torn", 1)
    assert upload.sent.wait(60)
    assert with_run.stop() == 0
    upload.done.set()
    assert isinstance(upload.call.exception(), grpc.RpcError)
