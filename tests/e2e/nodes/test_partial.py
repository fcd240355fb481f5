"""Incomplete runs: results state which ranks they cover, and exit with 4."""

import json

import pytest
from chunk_bytes import Chunk, Record, float32
from wire import write

from daemon import Daemon

FAILED, PARTIAL = 1, 4
WORLD = 4


def record(
    daemon: Daemon,
    run: str,
    ranks: list[int],
    values: dict[int, float] | None = None,
    world: int = WORLD,
) -> None:
    """Records two ops of two tokens in some ranks of a world."""
    for rank in ranks:
        value = (values or {}).get(rank, float(rank))
        records = [
            Record(op, float32(value), [1], token=token, sequence=2 * token + i)
            for token in range(2)
            for i, op in enumerate(("a", "b"))
        ]
        chunk = Chunk(run, records, rank=rank).pack()
        write(daemon.channel(), run, [chunk], rank=rank, world_size=world)


@pytest.fixture
def half(daemon: Daemon) -> Daemon:
    """A daemon with all of `g` and ranks 0 and 1 of `t`."""
    record(daemon, "g", [0, 1, 2, 3])
    record(daemon, "t", [0, 1])
    return daemon


LACKS = "partial: 2 of 4 ranks; run t lacks ranks 2-3"


@pytest.mark.parametrize(
    "verb",
    [
        ("tensor", "list"),
        ("tensor", "find", "--where", "count > 0"),
        ("tensor", "stats"),
        ("tensor", "stats", "--by", "rank"),
        ("capture", "coverage"),
    ],
)
def test_lists_and_statistics_say_it_first(half: Daemon, verb: tuple[str, ...]) -> None:
    verb = (*verb, "--run", "t")
    table = half.ctl(*verb, expect=PARTIAL).stdout.splitlines()
    assert table[0] == LACKS
    assert len(table) > 2
    for form in ("csv", "name"):
        result = half.ctl(*verb, "-o", form, expect=PARTIAL)
        assert result.stderr == f"msitctl: {LACKS}\n"
        assert "partial" not in result.stdout
    answer = half.ctl_json(*verb, expect=PARTIAL)
    assert answer["partial"] is True
    assert answer["ranks_held"] == [{"first": 0, "last": 1}]
    assert answer["ranks_lacking"] == [{"first": 2, "last": 3}]
    allowed = half.ctl(*verb, "--allow-partial")
    assert allowed.stdout.splitlines()[0] == LACKS


def test_whole_runs_are_not_partial(half: Daemon) -> None:
    result = half.ctl("tensor", "list", "--run", "g")
    assert "partial" not in result.stdout + result.stderr
    answer = half.ctl_json("tensor", "list", "--run", "g", "--limit", "1")
    assert answer["ranks_held"] == [{"first": 0, "last": 3}]
    assert "partial" not in answer


def test_ranks_that_are_not_asked_for_are_not_lacking(half: Daemon) -> None:
    half.ctl("tensor", "list", "--run", "t", "--ranks", "0,1")
    result = half.ctl("tensor", "list", "--run", "t", "--ranks", "1,2", expect=PARTIAL)
    assert result.stdout.startswith("partial: 1 of 2 ranks; run t lacks rank 2\n")
    # Ranks outside the world size do not exist.
    half.ctl("tensor", "list", "--run", "t", "--ranks", "99")


def test_run_tells_its_ranks(half: Daemon) -> None:
    run = half.ctl_json("run", "get", "t")
    assert run["partial"] is True
    assert run["ranks_lacking"] == [{"first": 2, "last": 3}]
    rows = half.ctl(
        "run", "list", "-o", "csv", "--columns", "name,ranks_lacking"
    ).stdout
    assert rows.splitlines() == ["name,ranks_lacking", "g,", "t,2-3"]


def test_world_that_is_not_known_lacks_nothing(daemon: Daemon) -> None:
    daemon.ctl("run", "create", "unknown")
    assert daemon.ctl("tensor", "list", "--run", "unknown").returncode == 0
    daemon.ctl("run", "create", "known", "--world-size", "2")
    result = daemon.ctl("tensor", "list", "--run", "known", expect=PARTIAL)
    assert result.stdout.startswith("partial: 0 of 2 ranks; run known lacks ranks 0-1")


def test_ranks_that_the_policy_leaves_out_are_not_lacking(daemon: Daemon) -> None:
    daemon.ctl("capture", "set", "--run", "t", "--ranks", "0,2", "-o", "name")
    record(daemon, "t", [0])
    result = daemon.ctl("tensor", "list", "--run", "t", expect=PARTIAL)
    assert result.stdout.startswith("partial: 1 of 2 ranks; run t lacks rank 2\n")
    record(daemon, "t", [2])
    daemon.ctl("tensor", "list", "--run", "t")


def test_comparison_of_half_a_run_proves_nothing(half: Daemon) -> None:
    run = ("compare", "run", "g", "t")
    table = half.ctl(*run, expect=PARTIAL).stdout.splitlines()
    assert table[0] == LACKS
    assert any(line.split()[:2] == ["verdict", "PARTIAL"] for line in table), table
    assert "first divergence  none in the recorded ranks" in table
    whole = half.ctl_json(*run, "--rows", "all", expect=PARTIAL)
    assert whole["verdict"] == "PARTIAL"
    comparison = whole["comparison"]
    assert comparison["partial"] is True
    assert comparison["golden_ranks"]["partial"] is False
    assert comparison["target_ranks"]["ranks_lacking"] == [{"first": 2, "last": 3}]
    assert comparison["unmatched_count"] == comparison["for_want_of_ranks_count"]
    missing = [row for row in whole["rows"] if row["rank"] >= 2]
    assert len(missing) == 8
    assert all("run t lacks ranks 2-3" in row["reason"] for row in missing)
    allowed = half.ctl_json(*run, "--allow-partial")
    assert allowed["verdict"] == "PASS"
    for form in ("csv", "name"):
        result = half.ctl(*run, "-o", form, expect=PARTIAL)
        assert result.stderr == f"msitctl: {LACKS}\n"
    # The run under test has ranks that the golden run lacks.
    turned = half.ctl("compare", "run", "t", "g", expect=PARTIAL)
    assert turned.stdout.startswith(LACKS)


def test_failure_that_is_proven_wins(half: Daemon) -> None:
    record(half, "bad", [0, 1], {1: 9.0})
    result = half.ctl("compare", "run", "g", "bad", expect=FAILED)
    assert result.stdout.startswith("partial: 2 of 4 ranks")
    half.ctl("compare", "run", "g", "bad", "--allow-partial", expect=FAILED)
    # The same holds for a tensor that an existing rank lacks.
    chunk = Chunk("less", [Record("a", float32(0), [1])]).pack()
    write(half.channel(), "less", [chunk], world_size=WORLD)
    half.ctl("compare", "run", "g", "less", expect=FAILED)
    # A watch does not treat rows that prove nothing as failures.
    half.ctl("compare", "run", "g", "t", "--watch", "fail", expect=PARTIAL)


def test_ranks_that_are_not_compared_are_not_lacking(half: Daemon) -> None:
    half.ctl("compare", "run", "g", "t", "--ranks", "0-1")
    half.ctl("compare", "run", "g", "t", "--rank-map", "0=0,1=1")
    half.ctl("compare", "run", "g", "t", "--rank-map", "0=0,1=2", expect=PARTIAL)


def test_whoever_reads_it_later_is_told_too(half: Daemon) -> None:
    half.ctl("compare", "run", "g", "t", expect=PARTIAL)
    for verb in ("get", "rows"):
        result = half.ctl("compare", verb, "c-000001", expect=PARTIAL)
        assert result.stdout.startswith(LACKS)
        half.ctl("compare", verb, "c-000001", "--allow-partial")
    report = half.ctl("compare", "report", "c-000001", expect=PARTIAL)
    assert LACKS in report.stderr
    page = half.ctl(
        "compare", "report", "c-000001", "--format", "html", "--allow-partial"
    )
    assert LACKS in page.stdout


def test_shards_of_absent_ranks_prove_nothing(daemon: Daemon) -> None:
    record(daemon, "g", [0], world=1)
    record(daemon, "t", [0, 1], {0: 0.0, 1: 0.0})
    copies = ("--target-layout", "*=replicated")
    result = daemon.ctl_json(
        "compare", "run", "g", "t", *copies, "--rows", "all", expect=PARTIAL
    )
    assert {row["verdict"] for row in result["rows"]} <= {"UNMATCHED", "PASS"}
    pairs = ("--target-layout", "*=replicated/2")
    # The missing ranks are those of the second pair.
    whole = daemon.ctl_json("compare", "run", "g", "t", *pairs, expect=PARTIAL)
    assert int(whole["comparison"]["pass_count"]) == 4
    daemon.ctl("compare", "run", "g", "t", *pairs, "--ranks", "0")


def test_follower_says_it_at_the_end(half: Daemon) -> None:
    for run in ("g", "t"):
        half.ctl("run", "seal", run)
    follow = ("compare", "run", "g", "t", "--follow")
    assert LACKS in half.ctl(*follow, expect=PARTIAL).stdout
    lines = half.ctl(*follow, "-o", "json", expect=PARTIAL).stdout.splitlines()
    assert json.loads(lines[-1])["verdict"] == "PARTIAL"


def test_rank_that_comes_completes_the_answer(half: Daemon) -> None:
    record(half, "t", [2, 3])
    half.ctl("compare", "run", "g", "t")
    half.ctl("tensor", "stats", "--run", "t")


def op(name: str, value: float, token: int, sequence: int) -> Record:
    return Record(name, float32(value), [1], token=token, sequence=sequence)


@pytest.mark.parametrize(
    ("token", "sequence", "absent_from", "is_final"),
    [
        # Before anything that the absent rank does.
        (0, 1, 1, True),
        # The absent rank may have sent it.
        (0, 0, 0, False),
        # The absent rank has records to compare at that token or before.
        (0, 1, 0, False),
        (1, 2, 0, False),
        (1, 2, 1, False),
    ],
)
def test_first_divergence_is_final_only_if_no_absent_rank_may_precede_it(
    daemon: Daemon, token: int, sequence: int, absent_from: int, is_final: bool
) -> None:
    places = [(0, 0), (0, 1), (1, 2), (1, 3)]
    for run in ("g", "t"):
        records = [
            op(
                f"op{at}",
                9.0 if run == "t" and (when, at) == (token, sequence) else 1.0,
                when,
                at,
            )
            for when, at in places
        ]
        chunk = Chunk(run, records, rank=0).pack()
        write(daemon.channel(), run, [chunk], rank=0, world_size=2)
    records = [
        op(f"op{at}", 1.0, when, at) for when, at in places if when >= absent_from
    ]
    chunk = Chunk("g", records, rank=1).pack()
    write(daemon.channel(), "g", [chunk], rank=1, world_size=2)
    out = daemon.ctl("compare", "run", "g", "t", expect=FAILED).stdout
    (line,) = [line for line in out.splitlines() if line.startswith("first div")]
    assert line.startswith("first divergence  at or before ") is not is_final
    # The result is shown: a failure is not a partial result.
    comparison = daemon.ctl_json("compare", "get", "c-000001")
    assert comparison["may_diverge_before"] is not is_final


def test_rank_that_both_runs_lack_may_always_precede(daemon: Daemon) -> None:
    for run, value in (("g", 1.0), ("t", 9.0)):
        records = [op("a", 1.0, 0, 0), op("b", value, 0, 1)]
        chunk = Chunk(run, records, rank=0).pack()
        write(daemon.channel(), run, [chunk], rank=0, world_size=2)
    out = daemon.ctl("compare", "run", "g", "t", expect=FAILED).stdout
    assert "first divergence  at or before b output/0" in out
    assert out.startswith("partial: 1 of 2 ranks; run g lacks rank 1\n")
