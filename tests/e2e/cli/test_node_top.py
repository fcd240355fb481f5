"""The output of `node top` and `node diag` for a busy daemon."""

import os
import pty
import re
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

from chunk_bytes import Chunk, Record
from wire import IngestStream, write

from daemon import BIN_DIR, Daemon

INTERRUPTED_EXIT = 130
SECRET = b"a secret of the model"


def open_stream(daemon: Daemon, run: str, rank: int = 0) -> IngestStream:
    """Opens a stream that has written a chunk and stays open."""
    stream = IngestStream(daemon.channel(), run, rank, world_size=2)
    stream.opened()
    record = Record("layer.0.secret_op", SECRET.ljust(4096, b"."), [1024])
    stream.send_chunk(Chunk(run, [record], rank=rank).pack())
    stream.wait_committed(1)
    return stream


def test_top_shows_each_stream_and_its_rate(daemon: Daemon) -> None:
    streams = [open_stream(daemon, "r", rank) for rank in (0, 1)]
    text = daemon.ctl("node", "top", "--once", "--interval", "200ms").stdout
    assert "\x1b" not in text
    assert "storage OK, 1 runs, 0 pinned" in text
    assert re.search(r"^run +rank +rate +records/s ", text, re.MULTILINE)
    for rank in (0, 1):
        assert re.search(rf"^r +{rank} +0 B/s +0 ", text, re.MULTILINE), text
    process = subprocess.Popen(
        [BIN_DIR / "msitctl", "node", "top", "--interval", "500ms"],
        env={**os.environ, "MSITCTL_ENDPOINT": daemon.endpoint},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    # At most 10 MiB per second, until the busiest stream is listed first.
    rate = None
    sequence = 1
    while rate is None:
        for _ in range(5):
            record = Record(f"op.{sequence}", bytes(1 << 20), [1 << 18])
            chunk = Chunk("r", [record], rank=1, sequence=sequence)
            streams[1].send_chunk(chunk.pack())
            sequence += 1
            streams[1].wait_committed(sequence)
            time.sleep(0.1)
        lines = [process.stdout.readline()]
        while not lines[-1].startswith("r "):
            lines.append(process.stdout.readline())
        rate = re.match(r"r +1 +([\d.]+) ([KM])iB/s +(\d+) ", lines[-1])
        assert sequence < 200, lines
    assert float(rate[1]) * (1 if rate[2] == "M" else 1 / 1024) <= 10
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == INTERRUPTED_EXIT
    process.stdout.close()
    for stream in streams:
        stream.finish()
    text = daemon.ctl("node", "top", "--once", "--interval", "50ms").stdout
    assert "0 streams" in text


def test_top_prints_streams_for_programs(daemon: Daemon) -> None:
    stream = open_stream(daemon, "r")
    found = daemon.ctl_json("node", "top")["streams"]
    assert [(s["run"], s["committed_size_bytes"]) for s in found] == [("r", "4096")]
    assert daemon.ctl("-o", "name", "node", "top").stdout == "r\n"
    stream.finish()
    assert daemon.ctl_json("node", "top").get("streams", []) == []


def test_top_draws_in_place_on_a_terminal(daemon: Daemon) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [BIN_DIR / "msitctl", "node", "top", "--interval", "100ms"],
        env={**os.environ, "MSITCTL_ENDPOINT": daemon.endpoint, "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    shown = b""
    while shown.count(b"\x1b[H") < 3:
        shown += os.read(master, 65536)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == INTERRUPTED_EXIT
    os.close(master)
    assert b"\x1b[J" in shown


def test_bad_intervals_are_refused(daemon: Daemon) -> None:
    for interval in ("0", "-1s", "soon"):
        daemon.ctl("node", "top", "--once", "--interval", interval, expect=2)


def files_of(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        out = {}
        for member in archive.getmembers():
            assert member.isfile()
            assert "/" in member.name and ".." not in member.name
            content = archive.extractfile(member)
            assert content is not None
            out[member.name.split("/", 1)[1]] = content.read()
        return out


def test_diag_holds_what_helps_and_no_payload(daemon: Daemon, tmp_path: Path) -> None:
    stream = open_stream(daemon, "r")
    daemon.ctl("run", "create", "labelled", "--label", "owner=a private word")
    out = tmp_path / "node.tar"
    said = daemon.ctl("node", "diag", "--out", str(out)).stderr
    found = files_of(out)
    assert set(found) == {
        "README.txt",
        "status.json",
        "capabilities.json",
        "streams.json",
        "runs.json",
        "config.toml",
        "metrics.txt",
        "log.txt",
        "store.txt",
        "process.txt",
    }
    contents = found["README.txt"].decode()
    assert contents in said
    for name in set(found) - {"README.txt"}:
        assert name in contents
    everything = b"".join(found.values())
    for private in (SECRET, b"secret_op", b"a private word"):
        assert private not in everything
    assert b"data_dir" in found["config.toml"]
    assert b"msitd_ingest_records_total 1\n" in found["metrics.txt"]
    assert b"server: ready" in found["log.txt"]
    assert b"00000001.seg" in found["store.txt"]
    assert b'"user_agent"' in found["streams.json"]
    # GNU tar reads the archive, too.
    listed = subprocess.run(
        ["tar", "-tvf", out], capture_output=True, text=True, check=True
    ).stdout
    assert listed.count("\n") == len(found)
    named = tmp_path / "named.tar"
    daemon.ctl("node", "diag", "--out", str(named), "--tensor-names")
    assert b"secret_op" in files_of(named)["tensors.txt"]
    assert SECRET not in b"".join(files_of(named).values())
    stream.finish()


def test_diag_leaves_nothing_behind_where_it_cannot_work(
    daemon: Daemon, tmp_path: Path
) -> None:
    daemon.ctl("node", "diag", "--out", str(tmp_path / "no" / "x.tar"), expect=3)
    daemon.kill()
    daemon_endpoint = "127.0.0.1:1"
    result = subprocess.run(
        [BIN_DIR / "msitctl", "--endpoint", daemon_endpoint, "node", "diag"],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 64 + 14
    assert list(tmp_path.glob("*.tar*")) == []


def test_json_lines_of_the_log_can_be_read(new_daemon: Callable[[], Daemon]) -> None:
    import json

    daemon = new_daemon()
    daemon.start("--log-format", "json")
    write(daemon.channel(), "r", [Chunk("r", [Record("op", b"1234", [1])]).pack()])
    assert daemon.stop() == 0
    lines = [json.loads(line) for line in daemon.log().splitlines()]
    assert {"time", "level", "module", "event"} <= set(lines[0])
    opened = next(line for line in lines if line["event"] == "open stream")
    assert opened["fields"]["run"] == "r"
