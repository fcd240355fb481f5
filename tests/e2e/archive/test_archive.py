"""Archives in a directory: runs that outlive their store."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from archived_runs import record, rows_of
from chunk_bytes import Chunk, Record
from wire import pb, write

from daemon import Daemon

LOCAL, NOT_FOUND = 2, 5


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The directory for archives."""
    folder = tmp_path / "archives"
    folder.mkdir()
    return folder


@pytest.fixture
def archiver(new_daemon: Callable[[], Daemon], place: Path) -> Daemon:
    """A daemon with two different runs, which may use `place`."""
    daemon = new_daemon()
    daemon.start("--archives", f"file://{place}")
    record(daemon, "g", 1)
    record(daemon, "t", 2)
    return daemon


def test_rows_from_archives_are_those_of_the_store(
    archiver: Daemon, place: Path
) -> None:
    expected = rows_of(archiver, "g", "t")
    assert any(row["verdict"] == "FAIL" for row in expected[0])
    assert len(expected[0]) == 3 * 4 * 13
    url = f"file://{place}"
    for run in ("g", "t"):
        said = archiver.ctl("run", "archive", run, url).stdout
        assert f"archived {run} at {url}/{run}: 156 records" in said
    assert rows_of(archiver, f"{url}/g", f"{url}/t") == expected
    assert rows_of(archiver, f"{url}/g", "t") == expected
    assert rows_of(archiver, "g", f"{url}/t") == expected
    header = archiver.ctl(
        "compare", "run", f"{url}/g", "t", "--rows", "none", expect=1
    ).stdout
    assert f"golden g at {url}, target t" in header
    # Also without the runs, and from another daemon.
    archiver.ctl("run", "delete", "g", "--yes")
    archiver.ctl("run", "delete", "t", "--yes")
    assert rows_of(archiver, f"{url}/g", f"{url}/t") == expected


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_parts_of_a_run_in_several_archives_are_one(
    new_daemon: Callable[[], Daemon], place: Path, seed: int
) -> None:
    whole = new_daemon()
    whole.start("--archives", f"file://{place}")
    record(whole, "g", 1)
    record(whole, "t", seed)
    expected = rows_of(whole, "g", "t")
    urls = []
    for node, held in enumerate((range(2), range(2, 3))):
        daemon = new_daemon()
        daemon.start("--archives", f"file://{place}")
        record(daemon, "t", seed, held=held)
        urls.append(f"file://{place}/node-{node}")
        daemon.ctl("run", "archive", "t", urls[-1])
    rows, _ = rows_of(whole, "g", f"{','.join(urls)}/t")
    assert rows == expected[0]


def test_a_restored_run_gives_the_same_rows(archiver: Daemon, place: Path) -> None:
    expected = rows_of(archiver, "g", "t")
    url = f"file://{place}"
    archiver.ctl("run", "archive", "t", url)
    said = archiver.ctl("run", "restore", f"{url}/t", "--as", "back").stdout
    assert said == f"restored back from {url}/t: 156 records, 1 comparison\n"
    run = archiver.ctl_json("run", "get", "back")
    assert run["state"] == "SEALED"
    assert (
        run["counters"]["tensor_count"]
        == archiver.ctl_json("run", "get", "t")["counters"]["tensor_count"]
    )
    found = json.dumps(rows_of(archiver, "g", "back")).replace("runs/back/", "runs/t/")
    assert json.loads(found.replace('"back"', '"t"')) == json.loads(
        json.dumps(expected)
    )
    again = archiver.ctl("run", "restore", f"{url}/t", "--as", "back", expect=None)
    assert again.returncode != 0
    assert "RUN_EXISTS" in again.stderr


def test_archived_runs_are_listed(archiver: Daemon, place: Path) -> None:
    url = f"file://{place}"
    assert archiver.ctl_json("run", "list", "--archive", url)["runs"] == []
    archiver.ctl("run", "archive", "g", url)
    archiver.ctl("run", "archive", "t", url)
    (place / "t" / "manifest").write_bytes(b"msitd archive\n\x09")
    (place / "half").mkdir()
    runs = archiver.ctl_json("run", "list", "--archive", url)["runs"]
    assert [run["name"] for run in runs] == ["g", "t"]
    assert runs[0]["world_size"] == 3
    assert runs[0]["tensor_count"] == "156" or runs[0]["tensor_count"] == 156
    assert "later msitd" in runs[1]["problem"]


def test_bytes_are_given_up_once_the_archive_has_them(
    archiver: Daemon, place: Path
) -> None:
    url = f"file://{place}"
    expected = rows_of(archiver, "g", "t")
    said = archiver.ctl("run", "archive", "t", url, "--give-up").stdout
    assert "its bytes are removed from this store" in said
    deadline = time.monotonic() + 30
    while "expired_size_bytes" not in json.dumps(archiver.ctl_json("run", "get", "t")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert rows_of(archiver, "g", f"{url}/t") == expected


def test_what_fails_gives_nothing_up(archiver: Daemon, place: Path) -> None:
    url = f"file://{place}"
    (place / "t").write_text("no directory")
    refused = archiver.ctl("run", "archive", "t", url, "--give-up", expect=None)
    assert refused.returncode != 0
    run = archiver.ctl_json("run", "get", "t")
    assert run["retention"]["size_bytes_max"] == "0"


def test_only_archives_of_the_configuration_are_used(
    archiver: Daemon, place: Path
) -> None:
    inside = place / "deep" / "er"
    archiver.ctl("run", "archive", "g", f"file://{inside}")
    archiver.ctl("compare", "run", f"file://{inside}/g", "g", "--rows", "none")
    os.symlink("/tmp", place / "link")
    for url, word in (
        (f"file://{place.parent}", "`archives`"),
        ("file:///etc", "`archives`"),
        ("s3://bucket/x", "`archives`"),
        (f"file://{place}/../archives", "absolute path"),
        (f"file://{place}/link", "symbolic link"),
        ("s3://AKID:hunter2@bucket/x", "credentials_file"),
        ("https://user:hunter2@host/x", "credentials_file"),
        ("ftp://hunter2/x", "begins with"),
    ):
        for words in (
            ("run", "archive", "g", url),
            ("run", "list", "--archive", url),
            ("compare", "run", f"{url}/g", "g"),
            ("run", "restore", f"{url}/g", "--as", "x"),
        ):
            refused = archiver.ctl(*words, expect=None)
            assert refused.returncode != 0, words
            assert word in refused.stderr, (words, refused.stderr)
            assert "hunter2" not in refused.stderr.replace(url, ""), refused.stderr
    assert "hunter2" not in archiver.log()


def test_damage_is_named(archiver: Daemon, place: Path) -> None:
    url = f"file://{place}"
    archiver.ctl("run", "archive", "t", url)
    for path in sorted((place / "t").iterdir()):
        good = path.read_bytes()
        for bad in (good[:-1], good[: len(good) // 2], b"", None):
            if bad is None:
                path.unlink()
            else:
                path.write_bytes(bad)
            result = archiver.ctl("compare", "run", "g", f"{url}/t", expect=None)
            if path.name.startswith("directory-"):
                # It is rebuilt from the indexes.
                assert result.returncode == 1, (path.name, result.stderr)
                continue
            said = result.stdout + result.stderr
            assert result.returncode not in (0,), (path.name, bad is None)
            assert path.name in said or "RUN_NOT_FOUND" in said, (path.name, said)
        path.write_bytes(good)


def test_an_archive_goes_on_after_the_daemon_was_killed(
    new_daemon: Callable[[], Daemon], place: Path
) -> None:
    daemon = new_daemon()
    daemon.start("--archives", f"file://{place}")
    rank = os.urandom(4 << 20)
    for sequence in range(40):
        data = sequence.to_bytes(4, "little") + rank[4:]
        chunk = Chunk(
            "big",
            [Record("op", data, [len(data) // 4], token=sequence, sequence=sequence)],
            sequence=sequence,
            stream_id=77 << 32 | sequence + 1,
        )
        chunk.sequence = 0
        write(
            daemon.channel(),
            "big",
            [chunk.pack()],
            world_size=1,
            stream_id=77 << 32 | sequence + 1,
            if_exists=pb.IF_EXISTS_APPEND,
        )
    daemon.ctl("run", "seal", "big")
    daemon.ctl("run", "archive", "big", f"file://{place}", "--detach")
    deadline = time.monotonic() + 30
    while not list(place.glob("big/pack-*")):
        assert time.monotonic() < deadline
        time.sleep(0.002)
    daemon.kill()
    assert not (place / "big" / "manifest").exists()
    # No partial archive is left.
    kept = {path.name for path in (place / "big").iterdir()}
    daemon.start("--archives", f"file://{place}")
    daemon.ctl("run", "archive", "big", f"file://{place}")
    names = {path.name for path in (place / "big").iterdir()}
    assert kept <= names
    daemon.ctl("compare", "run", "big", f"file://{place}/big", "--rows", "none")


def test_sealed_runs_are_archived_by_themselves(
    new_daemon: Callable[[], Daemon], place: Path
) -> None:
    daemon = new_daemon()
    url = f"file://{place}"
    daemon.start("--archives", url, "--archive-url", url)
    record(daemon, "t", 2)
    deadline = time.monotonic() + 30
    while not (place / "t" / "manifest").exists():
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.05)
    daemon.ctl("compare", "run", "t", f"{url}/t", "--rows", "none")
    # A daemon that restarts finds the archive.
    changed = (place / "t" / "manifest").stat().st_mtime_ns
    daemon.stop()
    daemon.start("--archives", url, "--archive-url", url)
    time.sleep(4)
    assert (place / "t" / "manifest").stat().st_mtime_ns == changed
    assert "failed" not in daemon.log()


def test_how_a_run_is_archived_is_told(
    new_daemon: Callable[[], Daemon], place: Path
) -> None:
    daemon = new_daemon()
    url = f"file://{place}"
    daemon.start("--archives", url, "--archive-url", f"{url}/auto")
    (place / "auto").write_text("no directory")
    record(daemon, "t", 2)

    def archive_of(run: str) -> dict:
        return daemon.ctl_json("run", "get", run).get("archive") or {}

    deadline = time.monotonic() + 30
    while archive_of("t").get("state") != "FAILED":
        assert archive_of("t").get("state") in ("PENDING", "RUNNING", "FAILED")
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.05)
    assert archive_of("t")["url"] == f"{url}/auto"
    assert archive_of("t")["problem"]
    counts = daemon.ctl_json("node", "status")["archives"]
    assert int(counts["failed_count"]) == 1
    assert counts["error"] == f"run t: {archive_of('t')['problem']}"
    assert "failed" in daemon.ctl("run", "list").stdout
    daemon.ctl("run", "archive", "t", url)
    assert archive_of("t") == {
        "url": url,
        "state": "ARCHIVED",
        "problem": "",
        "unreadable_tensor_count": "0",
    }
    counts = daemon.ctl_json("node", "status")["archives"]
    assert int(counts["failed_count"]) == 0
    assert int(counts["archived_count"]) == 1
    assert int(counts["sent_size_bytes"]) > 0
    assert counts["error"] == ""
    # Another run whose name is in the archive.
    daemon.ctl("run", "delete", "t", "--yes")
    (place / "auto").unlink()
    (place / "t").rename(place / "auto-t")
    (place / "auto").mkdir()
    (place / "auto-t").rename(place / "auto" / "t")
    record(daemon, "t", 3)
    deadline = time.monotonic() + 30
    while archive_of("t").get("state") != "FAILED":
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.05)
    assert "another run" in archive_of("t")["problem"]


def test_a_wrong_configuration_is_refused(
    new_daemon: Callable[[], Daemon], place: Path, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text("access_key = AKID\nsecret_key = hunter2\n")
    key.chmod(0o644)
    for flags, word in (
        (["--archives", "here"], "archives[0]"),
        (["--archives", "s3://AKID:hunter2@bucket"], "archives[0]"),
        (["--archives", "s3://bucket"], "archive_s3_endpoint"),
        (
            ["--archives", "s3://bucket", "--archive-s3-endpoint", "http://10.0.0.1"],
            "https",
        ),
        (
            [
                "--archives",
                "s3://bucket",
                "--archive-s3-endpoint",
                "https://host",
                "--archive-credentials-file",
                str(key),
            ],
            "chmod 600",
        ),
        (["--archive-url", f"file://{place}"], "`archives`"),
    ):
        daemon = new_daemon()
        process = daemon.spawn(*flags)
        assert process.wait(30) != 0
        assert word in daemon.log(), daemon.log()
        assert "hunter2" not in daemon.log()
