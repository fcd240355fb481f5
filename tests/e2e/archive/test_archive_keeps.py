"""Archives keep their data, whatever the server does, and report missing data."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from archived_runs import record, rows_of
from chunk_bytes import Chunk, Record
from msitd import query
from object_server import BUCKET, BadServer
from wire import write

from daemon import Daemon

URL = f"s3://{BUCKET}/x"


@pytest.fixture
def bad() -> Iterator[BadServer]:
    """A server that fails as the test sets."""
    server = BadServer()
    yield server
    server.stop()


def start(daemon: Daemon, bad: BadServer, *flags: str) -> None:
    """Starts a daemon that may use the bucket of the server."""
    flags = ("--archives", f"s3://{BUCKET}", *flags)
    daemon.start(*flags, "--archive-s3-endpoint", bad.endpoint)


def await_expiry(daemon: Daemon, run: str) -> None:
    """Waits until bytes of the run were deleted."""
    deadline = time.monotonic() + 30
    while "expired_size_bytes" not in json.dumps(daemon.ctl_json("run", "get", run)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def rot(daemon: Daemon, data: bytes) -> None:
    """Flips one of these bits in a segment of the store."""
    found = 0
    for path in daemon.data_dir.rglob("*"):
        if not path.is_file():
            continue
        at = path.read_bytes().find(data)
        if at >= 0:
            with open(path, "r+b") as file:
                file.seek(at)
                file.write(bytes([data[0] ^ 1]))
                file.flush()
                os.fsync(file.fileno())
            found += 1
    assert found == 1


def record_random(daemon: Daemon, run: str, count: int = 4) -> list[bytes]:
    """Records tensors of random bytes and seals the run; returns the bytes."""
    datas = [os.urandom(4096) for _ in range(count)]
    records = [
        Record(f"op{i}", data, [1024], sequence=i) for i, data in enumerate(datas)
    ]
    write(daemon.channel(), run, [Chunk(run, records).pack()], world_size=1)
    daemon.ctl("run", "seal", run)
    return datas


@pytest.mark.parametrize("ignores_absence", [False, True])
def test_another_run_does_not_replace_an_archived_one(
    new_daemon: Callable[[], Daemon], bad: BadServer, ignores_absence: bool
) -> None:
    bad.faults.ignores_absence = ignores_absence
    first, second = new_daemon(), new_daemon()
    start(first, bad)
    start(second, bad)
    record(first, "g", 1)
    record(first, "t", 2)
    record(second, "t", 3)
    expected = rows_of(first, "g", "t")
    first.ctl("run", "archive", "t", URL)
    before = dict(bad.faults.objects)
    refused = second.ctl("run", "archive", "t", URL, expect=None)
    assert refused.returncode != 0
    assert "RUN_EXISTS" in refused.stderr
    assert bad.faults.objects == before
    # Other clients may replace objects of such a server, so it is not the only
    # copy.
    given = first.ctl("run", "archive", "t", URL, "--give-up", expect=None)
    assert (given.returncode == 0) != ignores_absence
    if ignores_absence:
        assert "If-None-Match" in given.stderr
        assert first.ctl_json("run", "get", "t")["retention"]["size_bytes_max"] == "0"
    else:
        await_expiry(first, "t")
    # Archiving again destroys nothing, and adds new attachments.
    first.ctl("run", "archive", "t", URL)
    assert rows_of(first, "g", f"{URL}/t") == expected
    assert not [path for path in bad.faults.objects if "/probe-" in path]


def test_archiving_again_adds_attachments(
    new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    place = tmp_path / "archives"
    place.mkdir()
    url = f"file://{place}"
    daemon = new_daemon()
    daemon.start("--archives", url)
    record(daemon, "g", 1)
    record(daemon, "t", 2)
    expected = rows_of(daemon, "g", "t")
    daemon.ctl("run", "archive", "t", url, "--give-up")
    await_expiry(daemon, "t")
    note = tmp_path / "note"
    note.write_text("hello")
    daemon.ctl("run", "attach", "t", str(note))
    said = daemon.ctl("run", "archive", "t", url).stdout
    assert "archived t at" in said
    assert rows_of(daemon, "g", f"{url}/t") == expected
    daemon.ctl("run", "restore", f"{url}/t", "--as", "back")
    assert "note" in daemon.ctl("run", "attachments", "back").stdout


def test_a_rotten_tensor_costs_only_itself(
    new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    place = tmp_path / "archives"
    place.mkdir()
    url = f"file://{place}"
    daemon = new_daemon()
    daemon.start("--archives", url, "--archive-url", f"{url}/auto")
    datas = record_random(daemon, "r")
    # Within the tolerance, so that the bytes must be read.
    others = [bytes([data[0] ^ 7]) + data[1:] for data in datas]
    records = [
        Record(f"op{i}", data, [1024], sequence=i) for i, data in enumerate(others)
    ]
    write(daemon.channel(), "t", [Chunk("t", records).pack()], world_size=1)
    daemon.ctl("run", "seal", "t")
    rot(daemon, datas[2])
    done = daemon.ctl("run", "archive", "r", url, expect=4)
    assert "unreadable: 1 tensor" in done.stdout
    assert "op2" in done.stdout
    runs = daemon.ctl_json("run", "list", "--archive", url)["runs"]
    assert int(runs[0]["unreadable_tensor_count"]) == 1
    given = daemon.ctl("run", "archive", "r", url, "--give-up", expect=None)
    assert given.returncode == 73
    assert "not given up" in given.stderr
    # A comparison that reads the archive cannot check that tensor, and does not
    # pass.
    rows, comparison = rows_of(daemon, f"{url}/r", "t")
    assert [row["verdict"] for row in rows].count("PASS") == 3, rows
    assert [row.get("not_compared", False) for row in rows].count(True) == 1
    assert int(comparison["fail_count"]) == 0
    # The daemon's own archive is created once, and is incomplete.
    deadline = time.monotonic() + 30
    while True:
        counts = daemon.ctl_json("node", "status")["archives"]
        if int(counts["archived_count"]) == 2:
            break
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.1)
    assert int(counts["incomplete_count"]) == 1
    restored = daemon.ctl("run", "restore", f"{url}/r", "--as", "back", expect=4)
    assert "op2" in restored.stdout


def test_a_run_with_slashes_in_its_name_is_found(
    new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    place = tmp_path / "archives"
    place.mkdir()
    url = f"file://{place}"
    daemon = new_daemon()
    daemon.start("--archives", url)
    record(daemon, "team/a/t", 2)
    said = daemon.ctl("run", "archive", "team/a/t", url).stdout
    name = said.split(" at ")[1].split(": ")[0]
    assert name == f"{url}/team/a/t"
    daemon.ctl("compare", "run", name, "team/a/t", "--rows", "none")
    daemon.ctl("run", "restore", name, "--as", "back")
    missing = daemon.ctl("run", "restore", f"{url}/team/none", expect=None)
    assert "RUN_NOT_FOUND" in missing.stderr


def test_unreadable_bytes_are_taken_from_an_equal_tensor(
    new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    place = tmp_path / "archives"
    place.mkdir()
    url = f"file://{place}"
    daemon = new_daemon()
    daemon.start("--archives", url)
    data = os.urandom(4096)
    records = [
        Record(op, data, [1024], sequence=i) for i, op in enumerate(("first", "second"))
    ]
    write(daemon.channel(), "r", [Chunk("r", records).pack()], world_size=1)
    daemon.ctl("run", "seal", "r")
    daemon.spoil(data[:64])
    assert "unreadable:" not in daemon.ctl("run", "archive", "r", url).stdout
    daemon.ctl("run", "restore", f"{url}/r", "--as", "restored")
    with query.connect(daemon.endpoint) as connection:
        restored = connection.tensors.list("restored")
        assert [connection.tensors.read(each).tobytes() for each in restored] == [
            data,
            data,
        ]


def test_one_unreadable_folder_does_not_hide_the_others(
    new_daemon: Callable[[], Daemon], tmp_path: Path, bad: BadServer
) -> None:
    place = tmp_path / "archives"
    place.mkdir()
    url = f"file://{place}"
    daemon = new_daemon()
    start(daemon, bad, "--archives", url)
    record(daemon, "t", 2)
    daemon.ctl("run", "archive", "t", url)
    (place / "a").mkdir()
    (place / "a" / "manifest").symlink_to("/etc/passwd")
    (place / "b").mkdir()
    (place / "b" / "manifest").mkdir()
    runs = daemon.ctl_json("run", "list", "--archive", url)["runs"]
    assert [(run["name"], bool(run["problem"])) for run in runs] == [
        ("a", True),
        ("b", True),
        ("t", False),
    ]
    # A truncated list does not count as an empty archive.
    daemon.ctl("run", "archive", "t", URL)
    for broken in (
        lambda body: body[: len(body) // 2],
        lambda body: b"<html>try again</html>",
        lambda body: body.replace(b"</CommonPrefixes>", b""),
    ):
        bad.faults.rewrite_list = broken
        refused = daemon.ctl("run", "list", "--archive", URL, expect=None)
        assert refused.returncode == 79, refused.stdout


def test_pruning_removes_what_nothing_names(
    new_daemon: Callable[[], Daemon], bad: BadServer
) -> None:
    daemon = new_daemon()
    start(daemon, bad)
    record(daemon, "g", 1)
    record(daemon, "t", 2)
    expected = rows_of(daemon, "g", "t")
    daemon.ctl("run", "archive", "t", URL)
    before = dict(bad.faults.objects)
    rest = f"pack-000007-{'0' * 32}"
    for folder in ("t", "gone"):
        bad.faults.objects[f"/{BUCKET}/x/{folder}/{rest}"] = b"12345678"
    bad.faults.objects[f"/{BUCKET}/x/t/mine"] = b"mine"
    said = daemon.ctl("run", "archive", "t", URL, "--prune").stdout
    assert said == f"pruned {URL}/t: 1 object, 8 B removed\n"
    said = daemon.ctl("run", "archive", URL, "--prune").stdout
    assert said == f"pruned {URL}: 1 object, 8 B removed\n"
    assert bad.faults.objects.pop(f"/{BUCKET}/x/t/mine") == b"mine"
    assert bad.faults.objects == before
    assert rows_of(daemon, "g", f"{URL}/t") == expected
    # A recent object may belong to a run that is being archived.
    bad.faults.objects[f"/{BUCKET}/x/gone/{rest}"] = b"12345678"
    bad.faults.modified = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    assert ": 0 objects" in daemon.ctl("run", "archive", URL, "--prune").stdout
    said = daemon.ctl("run", "archive", URL, "--prune", "--older-than", "1ms").stdout
    assert ": 1 object, " in said


def test_pending_runs_count_from_the_start(
    new_daemon: Callable[[], Daemon], bad: BadServer
) -> None:
    daemon = new_daemon()
    start(daemon, bad)
    for run in ("a", "b", "c"):
        record(daemon, run, 1, ranks=1)
    daemon.stop()
    bad.faults.delay_s = 2
    start(daemon, bad, "--archive-url", URL)
    counts = daemon.ctl_json("node", "status")["archives"]
    assert int(counts["pending_count"]) + int(counts["running_count"]) == 3, counts
