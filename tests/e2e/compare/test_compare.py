"""Comparisons through the command line: verdicts, order, exit codes."""

import csv
import io
import json

from chunk_bytes import INPUT, INT64, Chunk, Record, float32
from wire import write

from daemon import Daemon

PASS, FAILED, USAGE, NOT_FOUND = 0, 1, 2, 64 + 5
NAN = float("nan")


def record_run(daemon: Daemon, run: str, ranks: list[list[Record]]) -> None:
    for rank, records in enumerate(ranks):
        for sequence, r in enumerate(records):
            r.sequence = sequence
        chunk = Chunk(run, records, rank=rank).pack()
        write(daemon.channel(), run, [chunk], rank=rank, world_size=len(ranks))


def layers(*values: float) -> list[Record]:
    return [Record(f"layer.{i}", float32(v, 1, 2), [3]) for i, v in enumerate(values)]


def test_equal_runs_pass(daemon: Daemon) -> None:
    record_run(daemon, "a", [layers(1, 2, 3)])
    record_run(daemon, "b", [layers(1, 2, 3)])
    daemon.ctl("compare", "run", "a", "b", expect=PASS)
    comparison = daemon.ctl_json("compare", "get", "c-000001")
    assert comparison["state"] == "DONE"
    assert int(comparison["pass_count"]) == 3
    assert "first_divergence" not in comparison
    # Pairs with equal hashes are decided without bytes.
    assert int(comparison.get("read_bytes", 0)) == 0
    rows = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    assert all(row["bitwise_equal"] for row in rows)


def test_first_divergence_is_first_in_execution_order(daemon: Daemon) -> None:
    golden = layers(1, 2, 3, 4)
    record_run(daemon, "golden", [golden])
    # The execution order 0, 3, 1, 2 differs from the order of names.
    target = layers(1, 2, 30, 40)
    record_run(daemon, "target", [target])
    result = daemon.ctl("compare", "run", "golden", "target", expect=FAILED)
    assert "layer.2" in result.stdout
    divergence = daemon.ctl_json("compare", "get", "c-000001")["first_divergence"]
    assert divergence["op"] == "layer.2"
    assert divergence["verdict"] == "FAIL"
    metrics = {m["metric"]: m["value"] for m in divergence["metrics"]}
    assert metrics["max_abs"] == 27


def test_execution_order_is_not_the_order_of_names(daemon: Daemon) -> None:
    def run(z: float, a: float) -> list[Record]:
        return [
            Record("z_first", float32(z), [1]),
            Record("a_second", float32(a), [1]),
        ]

    record_run(daemon, "golden", [run(1, 1)])
    record_run(daemon, "target", [run(2, 2)])
    daemon.ctl("compare", "run", "golden", "target", expect=FAILED)
    divergence = daemon.ctl_json("compare", "get", "c-000001")["first_divergence"]
    assert divergence["op"] == "z_first"


def test_unmatched_tensors_are_listed_on_both_sides(daemon: Daemon) -> None:
    record_run(daemon, "a", [layers(1, 2) + [Record("only.a", float32(1), [1])]])
    record_run(daemon, "b", [layers(1, 2) + [Record("only.b", float32(1), [1])]])
    daemon.ctl("compare", "run", "a", "b", expect=None)
    rows = daemon.ctl_json("compare", "rows", "c-000001", "--verdict", "unmatched")
    sides = {row["op"]: ("golden" in row, "target" in row) for row in rows["rows"]}
    assert sides == {"only.a": (True, False), "only.b": (False, True)}
    comparison = daemon.ctl_json("compare", "get", "c-000001")
    assert int(comparison["unmatched_count"]) == 2
    assert int(comparison["pass_count"]) == 2


def test_tolerance_decides(daemon: Daemon) -> None:
    record_run(daemon, "a", [layers(1)])
    record_run(daemon, "b", [layers(1.01)])
    daemon.ctl("compare", "run", "a", "b", expect=FAILED)
    loose = ("--tol", "max_abs <= 0.1")
    daemon.ctl("compare", "run", "a", "b", *loose, expect=PASS)
    strict = ("--rule", "layer.*: max_abs <= 0.001", *loose)
    daemon.ctl("compare", "run", "a", "b", *strict, expect=FAILED)
    other = ("--rule", "other.*: max_abs <= 0.001", *loose)
    daemon.ctl("compare", "run", "a", "b", *other, expect=PASS)


def test_nan_on_one_side_fails_and_on_both_passes(daemon: Daemon) -> None:
    record_run(daemon, "clean", [layers(1)])
    record_run(daemon, "nan", [layers(NAN)])
    record_run(daemon, "nan2", [layers(NAN)])
    daemon.ctl("compare", "run", "clean", "nan", expect=FAILED)
    daemon.ctl("compare", "run", "nan", "nan2", expect=PASS)


def test_shapes_that_differ_never_pass(daemon: Daemon) -> None:
    record_run(daemon, "a", [[Record("op", float32(1, 2), [2])]])
    record_run(daemon, "b", [[Record("op", float32(1, 2), [1, 2])]])
    record_run(daemon, "c", [[Record("op", float32(1, 2, 3), [3])]])
    for target in ("b", "c"):
        daemon.ctl("compare", "run", "a", target, expect=None)
    for name in ("c-000001", "c-000002"):
        (row,) = daemon.ctl_json("compare", "rows", name)["rows"]
        assert row["verdict"] in ("FAIL", "SKIPPED")
        assert row["reason"]


def test_filter_limits_both_sides(daemon: Daemon) -> None:
    for run, value in (("a", 1.0), ("b", 9.0)):
        records = layers(1, 1) + [
            Record("bad", float32(value), [1]),
            Record("bad", float32(value), [1], io=INPUT),
        ]
        record_run(daemon, run, [records])
    daemon.ctl("compare", "run", "a", "b", expect=FAILED)
    daemon.ctl("compare", "run", "a", "b", "--ops", "layer.*", expect=PASS)
    result = daemon.ctl(
        "compare", "run", "a", "b", "--ops", "bad", "--io", "input", expect=FAILED
    )
    assert "bad" in result.stdout


def test_two_ranks_are_compared_rank_by_rank(daemon: Daemon) -> None:
    record_run(daemon, "a", [layers(1, 2), layers(3, 4)])
    record_run(daemon, "b", [layers(1, 2), layers(3, 5)])
    daemon.ctl("compare", "run", "a", "b", expect=FAILED)
    divergence = daemon.ctl_json("compare", "get", "c-000001")["first_divergence"]
    assert (divergence["rank"], divergence["op"]) == (1, "layer.1")
    daemon.ctl("compare", "run", "a", "b", "--ranks", "0", expect=PASS)


def test_integers_are_compared_exactly(daemon: Daemon) -> None:
    big = (1 << 62) + 1
    for run, value in (("a", big), ("b", big + 1)):
        data = value.to_bytes(8, "little")
        record_run(daemon, run, [[Record("op", data, [1], dtype=INT64)]])
    daemon.ctl("compare", "run", "a", "b", expect=FAILED)


def test_rows_come_as_csv_and_json(daemon: Daemon) -> None:
    record_run(daemon, "a", [layers(1, 2)])
    record_run(daemon, "b", [layers(1, 3)])
    daemon.ctl("compare", "run", "a", "b", expect=FAILED)
    text = daemon.ctl("-o", "csv", "compare", "rows", "c-000001").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["op"] for row in rows] == ["layer.0", "layer.1"]
    result = daemon.ctl("-o", "json", "compare", "run", "a", "b", expect=FAILED)
    assert json.loads(result.stdout)


def test_exit_codes_tell_failure_from_error(daemon: Daemon) -> None:
    record_run(daemon, "a", [layers(1)])
    daemon.ctl("compare", "run", "a", "absent", expect=NOT_FOUND)
    daemon.ctl("compare", "run", "a", expect=USAGE)
    daemon.ctl("compare", "run", "a", "a", "--tol", "nonsense >", expect=USAGE)


def test_rows_are_found_by_number_op_and_metric(daemon: Daemon) -> None:
    record_run(daemon, "golden", [layers(1, 2, 3, 4)])
    record_run(daemon, "target", [layers(1, 2, 30, 5)])
    daemon.ctl("compare", "run", "golden", "target", expect=FAILED)

    def rows(*flags: str) -> list[int]:
        out = daemon.ctl_json("compare", "rows", "c-000001", *flags)
        return [int(row["row"]) for row in out["rows"]]

    assert rows("--row", "3,1") == [1, 3]
    assert rows("--ops", "layer.2,*3") == [2, 3]
    assert rows("--sort-by", "max_abs", "--limit", "2") == [2, 3]
    assert rows("--sort-by", "cosine", "--verdict", "fail") == [2, 3]
    empty = daemon.ctl("compare", "rows", "c-000001", "--ops", "nope")
    assert empty.stderr.endswith("0 of 4 rows of c-000001 match --ops 'nope'\n")


def test_a_comparison_says_how_it_ended_wherever_it_is_shown(daemon: Daemon) -> None:
    record_run(daemon, "golden", [layers(1, 2)])
    record_run(daemon, "target", [layers(1, 3)])
    daemon.ctl("compare", "run", "golden", "target", "--detach")
    shown = daemon.ctl("compare", "get", "c-000001", "--wait", expect=FAILED).stdout
    assert "\nverdict           FAIL\n" in shown
    assert "\nfirst divergence  layer.1 output" in shown
    assert daemon.ctl("compare", "get", "c-000001").stdout == shown
    assert "  FAIL  " in daemon.ctl("compare", "list").stdout


def test_a_mistake_in_a_tolerance_is_told_with_its_flag(daemon: Daemon) -> None:
    record_run(daemon, "golden", [layers(1)])
    run = ("compare", "run", "golden", "golden")
    for tolerance, words in (
        ("nl3 <= 1", "did you mean nl2?"),
        ("torch", "write @torch for the preset"),
        ("1e-3", "'nl2 <= 1e-3'"),
        ("nl2 =< 5", "write 'nl2 <= 5'"),
    ):
        result = daemon.ctl(*run, "--tol", tolerance, expect=2)
        assert result.stderr.startswith(f"msitctl: --tol '{tolerance}': ")
        assert words in result.stderr
        assert len(result.stderr) < 200
    told = daemon.ctl(*run, "--tol", "nl2 >= 0").stderr
    assert "lower values of nl2 are better" in told


def test_what_is_proven_is_not_read(daemon: Daemon) -> None:
    record_run(daemon, "golden", [layers(*range(1, 8))])
    record_run(daemon, "target", [layers(*(100 * value for value in range(1, 8)))])
    read = ("compare", "run", "golden", "target", "--read")
    answer = daemon.ctl(*read, "unproven", expect=FAILED).stdout
    assert "3 rows fail without being read" in answer
    assert "needs at least" in answer
    assert "would pass" not in answer
    assert daemon.ctl_json("compare", "get", "c-000001")["reading"] == "UNPROVEN"
    rows = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    assert [row.get("unread", False) for row in rows] == [False] * 4 + [True] * 3
    assert not rows[-1].get("metrics")
    answer = daemon.ctl(*read, "bytes", expect=FAILED).stdout
    assert "would pass" in answer
    refused = daemon.ctl(*read, "unproven", "--watch", "max_abs > 1", expect=2).stderr
    assert refused.startswith("msitctl: --watch 'max_abs > 1': ")
    assert "max_abs is not known" in refused
