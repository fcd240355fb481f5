"""Comparisons that are archived and restored with their target run."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from archived_runs import record

from daemon import Daemon


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A directory for archives."""
    folder = tmp_path / "archives"
    folder.mkdir()
    return f"file://{folder}"


@pytest.fixture
def archiver(new_daemon: Callable[[], Daemon], url: str) -> Daemon:
    """A daemon with two runs and three comparisons, two of them with target t."""
    daemon = new_daemon()
    daemon.start("--archives", url)
    record(daemon, "g", 1)
    record(daemon, "t", 2)
    for golden, target in (("g", "t"), ("t", "g"), ("t", "t")):
        daemon.ctl("compare", "run", golden, target, "--rows", "none", expect=None)
    return daemon


def printed(daemon: Daemon, name: str) -> list[str]:
    """Returns the output for a comparison and all of its rows.

    Without its size in the store, which includes the text of its origin.
    """
    texts = [
        daemon.ctl("compare", verb, name, "--output", output).stdout
        for verb in ("get", "rows")
        for output in ("table", "json")
    ]
    return [
        "".join(
            line
            for line in text.splitlines(keepends=True)
            if "stored_size_bytes" not in line
        )
        for text in texts
    ]


def test_comparisons_come_back_with_their_target(
    archiver: Daemon, new_daemon: Callable[[], Daemon], url: str
) -> None:
    said = archiver.ctl("run", "archive", "t", url).stdout
    assert "156 records, 2 comparisons" in said
    before = printed(archiver, "c-000001"), printed(archiver, "c-000003")
    other = new_daemon()
    other.start("--archives", url)
    said = other.ctl("run", "restore", f"{url}/t").stdout
    assert "156 records, 2 comparisons" in said
    found = other.ctl_json("compare", "list")["comparisons"]
    assert [one["name"] for one in found] == ["c-000001", "c-000003"]
    assert [one["restored_from"] for one in found] == [
        f"{url}/t c-000001",
        f"{url}/t c-000003",
    ]
    assert found[0]["golden_run"] == "g"
    for name, old in zip(("c-000001", "c-000003"), before, strict=True):
        new = printed(other, name)
        # The rows are equal byte by byte; the rest is equal except for the
        # origin.
        assert new[2:] == old[2:]
        source = f"{url}/t {name}"
        lines = new[0].splitlines()
        assert [line for line in lines if source not in line] == old[0].splitlines()
        after = json.loads(new[1])
        assert after.pop("restored_from") == source
        expected = json.loads(old[1])
        expected.pop("restored_from", None)
        assert after == expected
    # The next comparison gets a name that none of these has.
    record(other, "g", 1)
    other.ctl("compare", "run", "g", "t", "--rows", "none", expect=1)
    names = [one["name"] for one in other.ctl_json("compare", "list")["comparisons"]]
    assert names == ["c-000001", "c-000003", "c-000004"]
    # The comparisons are deleted with the run.
    other.ctl("run", "delete", "t", "--yes")
    other.ctl("run", "delete", "g", "--yes")


def test_a_run_that_comes_back_under_another_name_has_its_rows(
    archiver: Daemon, url: str
) -> None:
    archiver.ctl("run", "archive", "t", url)
    archiver.ctl("run", "restore", f"{url}/t", "--as", "back")
    found = archiver.ctl_json("compare", "list")["comparisons"]
    assert [(one["golden_run"], one["target_run"]) for one in found] == [
        ("g", "t"),
        ("t", "g"),
        ("t", "t"),
        ("g", "back"),
        ("back", "back"),
    ]
    for old, new in (("c-000001", "c-000004"), ("c-000003", "c-000005")):
        rows = [
            archiver.ctl_json("compare", "rows", name)["rows"] for name in (old, new)
        ]
        text = json.dumps(rows[0])
        for row in rows[0]:
            name = row["target"]["name"]
            text = text.replace(name, name.replace("runs/t/", "runs/back/"))
        if old == "c-000001":
            assert rows[1] == json.loads(text)
        tensor = rows[1][0]["target"]["name"]
        assert tensor.startswith("runs/back/")
        archiver.ctl("tensor", "get", tensor)


def test_what_is_here_does_not_come_twice(archiver: Daemon, url: str) -> None:
    archiver.ctl("run", "archive", "t", url)
    archiver.ctl("run", "delete", "t", "--yes")
    said = archiver.ctl("run", "restore", f"{url}/t").stdout
    assert "2 comparisons" in said
    # c-000001 and c-000002 stayed with g; c-000003 is deleted with t, and
    # restored.
    deadline = time.monotonic() + 30
    names: list[str] = []
    while names != ["c-000001", "c-000002", "c-000004"]:
        assert time.monotonic() < deadline, names
        found = archiver.ctl_json("compare", "list")["comparisons"]
        names = [one["name"] for one in found]
        time.sleep(0.05)


def test_what_is_about_to_go_does_not_count_as_here(archiver: Daemon, url: str) -> None:
    archiver.ctl("run", "archive", "t", url)
    for _ in range(3):
        archiver.ctl("run", "delete", "t", "--yes")
        archiver.ctl("run", "delete", "g", "--yes", expect=None)
        archiver.ctl("run", "restore", f"{url}/t")
        time.sleep(2)
        found = archiver.ctl_json("compare", "list")["comparisons"]
        assert [one["golden_run"] for one in found] == ["g", "t"]
        assert all(one["restored_from"] for one in found)


def test_a_comparison_that_was_made_later_is_archived_by_the_same_command(
    archiver: Daemon, new_daemon: Callable[[], Daemon], url: str
) -> None:
    archiver.ctl("run", "archive", "t", url)
    archiver.ctl("compare", "run", "g", "t", "--rows", "none", expect=1)
    said = archiver.ctl("run", "archive", "t", url).stdout
    assert "3 comparisons" in said
    other = new_daemon()
    other.start("--archives", url)
    assert "3 comparisons" in other.ctl("run", "restore", f"{url}/t").stdout


def test_damaged_comparisons_are_named_and_left(
    archiver: Daemon, new_daemon: Callable[[], Daemon], url: str
) -> None:
    archiver.ctl("run", "archive", "t", url)
    folder = Path(url.removeprefix("file://")) / "t"
    other = new_daemon()
    other.start("--archives", url)
    for path in (*folder.glob("comparison-*"), *folder.glob("rows-*")):
        good = path.read_bytes()
        for bad in (good[:-1], good[:-1] + bytes([good[-1] ^ 1]), b"", None):
            if bad is None:
                path.unlink()
            else:
                path.write_bytes(bad)
            said = other.ctl("run", "restore", f"{url}/t").stdout
            count = len(other.ctl_json("compare", "list")["comparisons"])
            if bad is None and path.name.startswith("comparison"):
                # Its earlier existence is recorded nowhere.
                assert count == 1
            else:
                assert "not restored" in said, path.name
                assert "differs: comparison" in said
                assert count < 2
            other.ctl("run", "delete", "t", "--yes")
            deadline = time.monotonic() + 30
            while other.ctl_json("compare", "list")["comparisons"]:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        path.write_bytes(good)


def test_labels_come_back(
    archiver: Daemon, new_daemon: Callable[[], Daemon], url: str
) -> None:
    archiver.ctl(
        "run", "create", "l", "--label", "model=minilm", "--label", "a=\u00e9/="
    )
    record(archiver, "l", 2)
    labels = archiver.ctl_json("run", "get", "l")["labels"]
    assert labels == {"model": "minilm", "a": "\u00e9/="}
    archiver.ctl("run", "archive", "l", url)
    listed = archiver.ctl_json("run", "list", "--archive", url)["runs"]
    assert [run["labels"] for run in listed] == [labels]
    other = new_daemon()
    other.start("--archives", url)
    other.ctl("run", "restore", f"{url}/l")
    assert other.ctl_json("run", "get", "l")["labels"] == labels
