"""A daemon that is queried by two of its addresses counts once."""

import json
from collections.abc import Callable

import node_runs
import pytest
from msitd import query

from daemon import Daemon

FAILED = 1


@pytest.fixture
def daemon(new_daemon: Callable[[], Daemon]) -> Daemon:
    """A daemon with two runs."""
    one = new_daemon()
    one.start()
    golden = node_runs.golden(3)
    node_runs.send(one, "g", golden)
    node_runs.send(one, "t", node_runs.target(golden, 103))
    return one


def addresses(daemon: Daemon) -> tuple[str, str]:
    return daemon.endpoint, f"unix:{daemon.socket_dir}/msitd.sock"


@pytest.mark.parametrize("turned", [False, True])
def test_msitctl_counts_it_once(daemon: Daemon, turned: bool) -> None:
    first, second = addresses(daemon)[:: -1 if turned else 1]
    many = ("--endpoints", f"{first},{second}")
    for words, code in (
        (("run", "list"), 0),
        (("run", "get", "g"), 0),
        (("tensor", "list", "g"), 0),
        (("tensor", "stats", "--run", "g"), 0),
        (("tensor", "stats", "--run", "g", "--by", "op"), 0),
    ):
        alone = daemon.ctl("--endpoints", first, *words, "-o", "csv", expect=code)
        both = daemon.ctl(*many, *words, "-o", "csv", expect=code)
        assert both.stdout == alone.stdout, words
        note = f"msitctl: note: {second} and {first} are the same daemon, which counts once\n"
        assert both.stderr == note, words


@pytest.mark.parametrize("at", [None, 0, 1])
def test_msitctl_compares_there_once(daemon: Daemon, at: int | None) -> None:
    both = addresses(daemon)
    words = ["compare", "run", "g", "t", "--rows", "all"]
    expected = daemon.ctl_json(*words, expect=FAILED)
    if at is not None:
        words += ["--at", both[at]]
    many = ("--endpoints", ",".join(both))
    done = daemon.ctl(*many, *words, "-o", "json", expect=FAILED)
    answer = json.loads(done.stdout)
    assert answer["rows"] == expected["rows"]
    assert answer["comparison"]["name"] == f"c-000002@{both[at or 0]}"
    assert answer["comparison"].get("golden_source", "") == ""
    listed = daemon.ctl(*many, "compare", "list", "-o", "name").stdout.splitlines()
    assert [name.partition("@")[0] for name in listed] == ["c-000001", "c-000002"]


def test_what_each_address_is_asked_for_is_answered(daemon: Daemon) -> None:
    first, second = addresses(daemon)
    many = ("--endpoints", f"{first},{second}")
    for _ in range(2):
        daemon.ctl("compare", "run", "g", "t", "--rows", "none", expect=FAILED)
    both = f"c-000001@{first},c-000002@{second}"
    answer = json.loads(daemon.ctl(*many, "compare", "get", both, "-o", "json").stdout)
    alone = daemon.ctl_json("compare", "get", "c-000001")
    assert int(answer["fail_count"]) == 2 * int(alone["fail_count"])
    shown = daemon.ctl(*many, "node", "top", "--once").stdout
    assert "no answer" not in shown
    assert first in shown


def test_python_counts_it_once(daemon: Daemon) -> None:
    first, second = addresses(daemon)
    with query.connect(first) as one, query.connect_fleet([first, second]) as fleet:
        with pytest.warns(UserWarning, match="are the same daemon, which counts once"):
            assert fleet.tensors.stats("g") == one.tensors.stats("g")
        with pytest.warns(UserWarning, match="counts once"):
            assert [run.name for run in fleet.runs.list()] == ["g", "t"]
        with pytest.warns(UserWarning, match="counts once"):
            assert list(fleet.runs.holders("g")) == [first]
        with pytest.warns(UserWarning, match="counts once"):
            made = fleet.compare("g", "t", at=second)
        assert made.golden_source == made.target_source == ""
        assert made.fail_count == one.comparisons.run("g", "t").fail_count
        assert list(fleet.statuses()) == [first, second]
        fleet.at(second).runs.get("g")
        assert fleet.at(second).daemon_id == one.daemon_id != ""


def test_a_daemon_has_a_new_id_with_each_start(daemon: Daemon) -> None:
    with query.connect(addresses(daemon)[1]) as one:
        assert one.daemon_id == ""
        one.runs.get("g")
        before = one.daemon_id
        daemon.stop()
        daemon.start()
        one.runs.get("g")
        assert one.daemon_id not in ("", before)
