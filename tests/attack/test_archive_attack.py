"""Archives in trouble: a full disk, a missing archive, many tiny tensors,
typing errors.
"""

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from archived_runs import record, rows_of
from chunk_bytes import Chunk, Record, float32
from msitd.v1.ingest_service_pb2 import IF_EXISTS_APPEND
from small_disk import MIB, SmallDisk
from wire import write

from daemon import Daemon


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The directory of archives."""
    folder = tmp_path / "archives"
    folder.mkdir()
    return folder


def record_large(daemon: Daemon, run: str, count: int) -> None:
    """Records tensors of 1 MiB, all different, and seals the run."""
    for number in range(count):
        data = number.to_bytes(4, "little") * (MIB // 4)
        chunk = Chunk(run, [Record("op", data, [MIB // 4], token=number)])
        chunk.stream_id = 77 << 32 | number + 1
        write(
            daemon.channel(),
            run,
            [chunk.pack()],
            world_size=1,
            stream_id=chunk.stream_id,
            if_exists=IF_EXISTS_APPEND,
        )
    daemon.ctl("run", "seal", run)


def test_a_disk_that_gets_full_while_a_run_is_restored(
    new_daemon: Callable[[], Daemon], place: Path, tmp_path: Path
) -> None:
    maker = new_daemon()
    url = f"file://{place}"
    maker.start("--archives", url)
    record_large(maker, "big", 64)
    maker.ctl("run", "archive", "big", url)
    disk = SmallDisk(tmp_path, "tmpfs", 160 * MIB)
    try:
        daemon = new_daemon()
        daemon.data_dir = disk.path / "data"
        daemon.start("--archives", url)
        disk.fill(leave=40 * MIB)
        refused = daemon.ctl("run", "restore", f"{url}/big", expect=None)
        assert refused.returncode != 0
        assert "DISK_FULL" in refused.stderr, refused.stderr
        # No partial archive is left, or it is marked as such.
        runs = daemon.ctl_json("run", "list")["runs"]
        assert all(run["state"] == "RESTORING" for run in runs), runs
        disk.empty()
        deadline = time.monotonic() + 30
        while daemon.ctl("run", "restore", f"{url}/big", expect=None).returncode != 0:
            assert time.monotonic() < deadline, daemon.log()
            time.sleep(0.5)
        daemon.ctl("compare", "run", "big", f"{url}/big", "--rows", "none")
        assert daemon.stop() == 0
    finally:
        disk.unmount()


def test_an_archive_that_goes_while_it_is_read(
    new_daemon: Callable[[], Daemon], place: Path
) -> None:
    daemon = new_daemon()
    url = f"file://{place}"
    daemon.start("--archives", url)
    record(daemon, "g", 1)
    record(daemon, "t", 2)
    daemon.ctl("run", "archive", "t", url)
    kept = place.parent / "kept"
    shutil.copytree(place / "t", kept)
    for pattern in ("pack-*", "index-*", "directory-*"):
        for path in (place / "t").glob(pattern):
            path.unlink()
        compared = daemon.ctl("compare", "run", "g", f"{url}/t", expect=None)
        words = ("run", "restore", f"{url}/t", "--as", "x")
        restored = daemon.ctl(*words, expect=None)
        assert pattern[:-1] in restored.stderr + restored.stdout
        if pattern == "directory-*":
            # The directory is rebuilt from the indexes.
            assert compared.returncode == 1
            assert restored.returncode == 0
            daemon.ctl("run", "delete", "x", "--yes")
        else:
            assert compared.returncode not in (0, 1)
            assert pattern[:-1] in compared.stderr
            assert restored.returncode not in (0, 1)
        if restored.returncode == 4:
            # Facts about tensors other than their bytes.
            assert "unreadable: 156 tensors" in restored.stdout
            daemon.ctl("run", "delete", "x", "--yes")
        assert [r["name"] for r in daemon.ctl_json("run", "list")["runs"]] == ["g", "t"]
        shutil.rmtree(place / "t")
        shutil.copytree(kept, place / "t")
    # The archive's folder disappears while the run is restored from it.
    record_large(daemon, "big", 48)
    daemon.ctl("run", "archive", "big", url)
    daemon.ctl("run", "restore", f"{url}/big", "--as", "back", "--detach")
    shutil.rmtree(place / "big")
    deadline = time.monotonic() + 60
    while (job := daemon.ctl_json("run", "archiving")["jobs"][0])["state"] in (
        "PENDING",
        "RUNNING",
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    names = [run["name"] for run in daemon.ctl_json("run", "list")["runs"]]
    assert ("back" in names) == (job["state"] == "DONE")


def test_one_name_for_two_runs(new_daemon: Callable[[], Daemon], place: Path) -> None:
    daemon = new_daemon()
    url = f"file://{place}"
    daemon.start("--archives", url)
    record(daemon, "g", 1)
    record(daemon, "t", 2)
    expected = rows_of(daemon, "g", "t")[0]
    daemon.ctl("run", "archive", "t", url)
    daemon.ctl("run", "delete", "t", "--yes")
    record(daemon, "t", 3)
    refused = daemon.ctl("run", "archive", "t", url, expect=None)
    assert "RUN_EXISTS" in refused.stderr
    assert "RUN_EXISTS" in daemon.ctl("run", "restore", f"{url}/t", expect=None).stderr
    # Two processes restore the same name at once: one of them succeeds.
    words = ("run", "restore", f"{url}/t", "--as", "both")
    with ThreadPoolExecutor(4) as pool:
        tries = [pool.submit(daemon.ctl, *words, expect=None) for _ in range(4)]
        codes = [one.result().returncode for one in tries]
    assert 0 in codes
    found = rows_of(daemon, "g", "both")[0]
    assert [row["verdict"] for row in found] == [row["verdict"] for row in expected]


def test_ten_thousand_tiny_tensors(
    new_daemon: Callable[[], Daemon], place: Path
) -> None:
    daemon = new_daemon()
    url = f"file://{place}"
    daemon.start("--archives", url)
    for token in range(10):
        records = [
            Record(f"op.{i}", float32(i + token), [1], token=token, sequence=i)
            for i in range(1000)
        ]
        chunk = Chunk("many", records, stream_id=77 << 32 | token + 1).pack()
        write(
            daemon.channel(),
            "many",
            [chunk],
            world_size=1,
            stream_id=77 << 32 | token + 1,
            if_exists=IF_EXISTS_APPEND,
        )
    daemon.ctl("run", "seal", "many")
    begin = time.monotonic()
    daemon.ctl("run", "archive", "many", url)
    daemon.ctl("run", "restore", f"{url}/many", "--as", "back")
    daemon.ctl("compare", "run", f"{url}/many", "back", "--rows", "none")
    assert time.monotonic() - begin < 30
    assert len(list((place / "many").iterdir())) == 4


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("s3:/bucket", "begins with"),
        ("s3://", ""),
        ("s3:///", ""),
        ("s3://bucket//x", ""),
        ("file://srv/runs", ""),
        ("file:/srv/runs", ""),
        ("/srv/runs", ""),
        ("srv", ""),
        ("", ""),
        ("s3://user:hunter2@bucket/x", "credentials_file"),
        ("https://user:hunter2@host/bucket", "credentials_file"),
        ("s3://bucket/x?secret=hunter2", ""),
        ("s3://bucket/x#hunter2", ""),
        ("s3 ://bucket", ""),
        ("S3://bucket/x", ""),
    ],
)
def test_what_people_type(
    new_daemon: Callable[[], Daemon], place: Path, typed: str, said: str
) -> None:
    daemon = new_daemon()
    daemon.start("--archives", f"file://{place}", "--log-level", "debug")
    record(daemon, "t", 2)
    for words in (
        ("run", "archive", "t", typed),
        ("run", "list", "--archive", typed),
        ("run", "restore", f"{typed}/t", "--as", "x"),
        ("compare", "run", f"{typed}/t", "t"),
    ):
        refused = daemon.ctl(*words, expect=None)
        if words[1] == "list" and not typed:
            continue  # Without an archive, it lists the runs of the daemon.
        assert refused.returncode not in (0, 1), words
        assert refused.stderr.count("\n") <= 3, refused.stderr
        if "://" in typed:
            assert said in refused.stderr, (words, refused.stderr)
        assert "hunter2" not in refused.stderr.replace(typed, ""), refused.stderr
    assert "hunter2" not in daemon.log()


def test_slashes_do_not_matter(new_daemon: Callable[[], Daemon], place: Path) -> None:
    daemon = new_daemon()
    url = f"file://{place}"
    daemon.start("--archives", url + "/")
    record(daemon, "a/b", 2)
    daemon.ctl("run", "archive", "a/b", url + "/")
    names = daemon.ctl_json("run", "list", "--archive", url + "/")["runs"]
    assert [run["name"] for run in names] == ["a/b"]
    assert {path.name for path in place.iterdir()} == {"a_x2Fb"}
