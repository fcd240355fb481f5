"""SIGHUP gives and withdraws roles, for callers that are connected as well."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from chunk_bytes import Chunk, Record
from google.protobuf.empty_pb2 import Empty
from msitd.v1 import run_service_pb2 as run_pb
from msitd.v1 import run_service_pb2_grpc as run_grpc
from wire import IngestStream, refusal, write

from daemon import BIN_DIR, Daemon

WAIT_S = 30
# Users that are neither root nor the user of the daemon, and a group of one of them.
USER, GROUP, OTHER_GROUP = 43117, 43118, 43119

RECORD = """
import sys
import msitd
import numpy as np

client = msitd.Client(run="mine", endpoint=sys.argv[1], open_timeout=20)
for line in sys.stdin:
    client.record(np.arange(8, dtype=np.float32), op=line.strip())
    try:
        client.flush(timeout=10)
        print("stored", flush=True)
    except msitd.MsitError as error:
        print("refused", error, flush=True)
"""


def lines_with(daemon: Daemon, word: str) -> list[str]:
    return [line for line in daemon.log().splitlines() if word in line]


class Config:
    """The configuration of a daemon that runs."""

    def __init__(self, daemon: Daemon, path: Path, text: str = "") -> None:
        self.daemon = daemon
        self.path = path
        path.write_text(text)

    def reload(self, text: str, word: str = " reloaded ") -> str:
        """Writes `text`, sends SIGHUP and returns the line of the log with `word`."""
        assert self.daemon.process is not None
        count = len(lines_with(self.daemon, word))
        self.path.write_text(text)
        self.daemon.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + WAIT_S
        while len(found := lines_with(self.daemon, word)) == count:
            assert time.monotonic() < deadline, self.daemon.log()
            time.sleep(0.02)
        return found[-1]


@pytest.fixture
def config(new_daemon: Callable[[], Daemon], tmp_path: Path) -> Config:
    """A daemon whose roles are in a file, with callers over loopback TCP."""
    daemon = new_daemon()
    out = Config(daemon, tmp_path / "msitd.toml", "loopback_role = 'writer'\n")
    # The flags of the fixture would win over the file.
    with open(daemon.folder / "msitd.log", "ab") as log:
        daemon.process = subprocess.Popen(
            [
                *(BIN_DIR / "msitd", "--data-dir", daemon.data_dir),
                *("--socket-dir", daemon.socket_dir, "--config", out.path),
                *("--listen", "127.0.0.1:0"),
            ],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    deadline = time.monotonic() + WAIT_S
    while " ready" not in daemon.log():
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.02)
    return out


def chunk(run: str, sequence: int = 0) -> bytes:
    return Chunk(
        run, [Record(f"op.{sequence}", bytes(64), [16])], sequence=sequence
    ).pack()


def test_an_open_connection_has_the_new_role(config: Config) -> None:
    channel = config.daemon.channel()
    runs = run_grpc.RunServiceStub(channel)
    write(channel, "r", [chunk("r")])
    assert runs.ListRuns(run_pb.ListRunsRequest()).runs
    assert "loopback_role" in config.reload("loopback_role = 'reader'\n")
    assert runs.ListRuns(run_pb.ListRunsRequest()).runs
    with pytest.raises(grpc.RpcError) as error:
        runs.DeleteRun(run_pb.DeleteRunRequest(run="r"))
    assert refusal(error.value).reason == "ROLE_REFUSED"
    config.reload("loopback_role = 'none'\n")
    with pytest.raises(grpc.RpcError) as error:
        runs.ListRuns(run_pb.ListRunsRequest())
    assert error.value.code() == grpc.StatusCode.PERMISSION_DENIED
    # The default is reader; the owner needs writer to delete.
    config.reload("loopback_role = 'writer'\n")
    assert runs.DeleteRun(run_pb.DeleteRunRequest(run="r")) in (Empty(), run_pb.Run())


def test_a_stream_of_chunks_ends_with_the_role(config: Config) -> None:
    stream = IngestStream(config.daemon.channel(), "s")
    stream.opened()
    stream.send_chunk(chunk("s"))
    stream.wait_committed(1)
    config.reload("loopback_role = 'reader'\n")
    stream.send_chunk(chunk("s", 1))
    refused = stream.refused()
    assert refused.code == grpc.StatusCode.PERMISSION_DENIED
    assert refused.reason == "ROLE_REFUSED"
    assert stream.committed == 1
    # Acknowledged records stay.
    names = config.daemon.ctl("tensor", "list", "s", "-o", "name").stdout.split()
    assert len(names) == 1


def test_a_stream_continues_over_a_reload_that_keeps_its_role(config: Config) -> None:
    stream = IngestStream(config.daemon.channel(), "s")
    stream.opened()
    for i in range(5):
        config.reload(f"loopback_role = 'writer'\nretain_tokens = {100 + i}\n")
        stream.send_chunk(chunk("s", i))
        stream.wait_committed(i + 1)
    stream.finish()


def test_a_role_that_needs_a_missing_group_changes_nothing(config: Config) -> None:
    text = "writer_groups = ['no-such-group-here']\nretain_tokens = 9\n"
    line = config.reload(text + "loopback_role = 'none'\n", "reload failed")
    assert "writer_groups: there is no group 'no-such-group-here'" in line
    assert not lines_with(config.daemon, " reloaded ")
    write(config.daemon.channel(), "r", [chunk("r")])


def test_names_of_certificates_wait_for_the_ca_of_clients(
    config: Config, tmp_path: Path
) -> None:
    files = "".join(f"{key} = '{tmp_path}/x'\n" for key in ("tls_cert", "tls_key"))
    text = files + f"tls_client_ca = '{tmp_path}/x'\nreader_certificates = ['*']\n"
    line = config.reload(text, "reload failed")
    assert "reader_certificates: requires tls_client_ca" in line
    deadline = time.monotonic() + WAIT_S
    while not (kept := lines_with(config.daemon, "require a restart")):
        assert time.monotonic() < deadline
    assert "tls_cert,tls_key,tls_client_ca" in kept[-1]


def test_the_audit_file_and_the_rate_of_calls_change(
    config: Config, tmp_path: Path
) -> None:
    role = "loopback_role = 'writer'\n"
    audit = tmp_path / "audit.log"
    config.reload(role + f"audit_file = '{audit}'\n")
    channel = config.daemon.channel()
    write(channel, "r", [chunk("r")])
    runs = run_grpc.RunServiceStub(channel)
    runs.DeleteRun(run_pb.DeleteRunRequest(run="r"))
    # Turning the log off writes its last lines.
    config.reload(role + "caller_calls_per_s = 1\n")
    methods = [json.loads(line)["method"] for line in audit.read_text().splitlines()]
    assert methods == ["IngestService.WriteChunks", "RunService.DeleteRun"]
    with pytest.raises(grpc.RpcError) as error:
        for _ in range(20):
            runs.ListRuns(run_pb.ListRunsRequest())
    assert refusal(error.value).reason == "REQUESTS_EXHAUSTED"
    config.reload(role)
    for _ in range(20):
        runs.ListRuns(run_pb.ListRunsRequest())
    missing = tmp_path / "no" / "folder" / "audit.log"
    line = config.reload(role + f"audit_file = '{missing}'\n", "reload failed")
    assert "audit_file" in line


class Recorder:
    """A process of another user that records one op after another."""

    def __init__(self, daemon: Daemon, groups: list[int]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RECORD, str(daemon.socket_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=USER,
            group=USER,
            extra_groups=groups,
        )

    def record(self, op: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(op + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def ctl_as(daemon: Daemon, group: int, *words: str) -> int:
    return subprocess.run(
        [BIN_DIR / "msitctl", "--endpoint", daemon.socket_dir, *words],
        user=USER,
        group=USER,
        extra_groups=[group],
        capture_output=True,
        timeout=60,
        check=False,
    ).returncode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_users_of_this_machine_gain_and_lose_roles(config: Config) -> None:
    daemon = config.daemon
    daemon.socket_dir.chmod(0o755)
    for name in ("msitd.sock", "ingest.sock"):
        (daemon.socket_dir / name).chmod(0o666)
    assert ctl_as(daemon, GROUP, "run", "list") != 0
    config.reload(f"writer_groups = ['{GROUP}']\n")
    assert ctl_as(daemon, GROUP, "run", "list") == 0
    recorder = Recorder(daemon, [GROUP])
    try:
        assert recorder.record("first") == "stored\n"
        # Another group gets the role. The process is not a member of it.
        config.reload(f"writer_groups = ['{OTHER_GROUP}']\n")
        assert recorder.record("second").startswith("refused")
        assert ctl_as(daemon, GROUP, "run", "list") != 0
        assert ctl_as(daemon, OTHER_GROUP, "run", "list") == 0
    finally:
        recorder.close()
    assert lines_with(daemon, "ROLE_REFUSED") or lines_with(daemon, "PEER_REFUSED")
