"""Matchers, origins, live comparisons and watches, through the command line."""

import json
import os
import subprocess
import threading
from pathlib import Path

from chunk_bytes import INPUT, Chunk, Record, float32
from wire import write

from daemon import BIN_DIR, Daemon

FAILED, USAGE, INVALID = 1, 2, 64 + 3
NAN = float("nan")


def record_run(
    daemon: Daemon, run: str, records: list[Record], *, rank: int = 0, world: int = 1
) -> None:
    for sequence, record in enumerate(records):
        record.sequence = sequence
    chunk = Chunk(run, records, rank=rank).pack()
    write(daemon.channel(), run, [chunk], rank=rank, world_size=world)


def ops(*names: str) -> list[Record]:
    return [Record(name, float32(i, 1), [2]) for i, name in enumerate(names)]


def test_names_are_rewritten_mapped_and_matched_loosely(
    daemon: Daemon, tmp_path: Path
) -> None:
    record_run(daemon, "g", ops("layers.0.mlp", "head", "Norm", "x.y"))
    record_run(daemon, "t", ops("model.layer_0.mlp", "lm_head", "norm", "module.x/y"))
    run = ("compare", "run", "g", "t")
    daemon.ctl(*run, expect=FAILED)
    mapping = tmp_path / "map.yaml"
    mapping.write_text("# ours: theirs\nhead: lm_head  # renamed\n")
    flags = (
        *("--rewrite", r"^model\.=>", "--rewrite", r"layer_(\d+)=>layers.\1"),
        *("--map", str(mapping), "--ignore-case", "--fuzzy"),
    )
    daemon.ctl(*run, *flags)
    # The request is stored with the result.
    stored = daemon.ctl_json("compare", "get", "c-000002")["matching"]
    assert stored["fuzzy"] and stored["ops"][0]["target_op"] == "lm_head"
    daemon.ctl(*run, *flags[:-1], expect=FAILED)
    row = daemon.ctl_json("compare", "rows", "c-000002")["rows"][1]
    assert row["op"] == "head" and "lm_head" in row["target"]["name"]


def test_bad_mappings_say_what_and_where(daemon: Daemon, tmp_path: Path) -> None:
    record_run(daemon, "g", ops("a"))
    run = ("compare", "run", "g", "g")
    for text, code, message in (
        ('{"a": "b", "a": "c"}', USAGE, "a"),
        ("a: b\na: c\n", USAGE, 'line 2: "a" appears twice'),
        ("a\n", USAGE, "line 1: is not GOLDEN: TARGET"),
        ('{"a": 1}', USAGE, '"a" is not mapped to a string'),
        ('{"a": "c", "b": "c"}', INVALID, 'ops[1].target_op: "c" is there twice'),
    ):
        file = tmp_path / "map"
        file.write_text(text)
        result = daemon.ctl(*run, "--map", str(file), expect=code)
        assert message in result.stderr, text
    daemon.ctl(*run, "--rank-map", "0", expect=USAGE)
    daemon.ctl(*run, "--rewrite", "(=>x", expect=USAGE)
    daemon.ctl(*run, "--map", str(tmp_path / "absent"), expect=3)


def test_ranks_and_tokens_are_mapped(daemon: Daemon) -> None:
    record_run(daemon, "g", ops("a"))
    for rank in (0, 1):
        record = Record("a", float32(0 if rank else 9, 1), [2], token=1)
        record_run(daemon, "t", [record], rank=rank, world=2)
    run = ("compare", "run", "g", "t", "--token-offset", "1")
    daemon.ctl(*run, expect=FAILED)
    daemon.ctl(*run, "--rank-map", "0=1")


def test_the_op_that_made_the_difference_is_named(daemon: Daemon) -> None:
    def run(error: float) -> list[Record]:
        return [
            Record("a", float32(1), [1], io=INPUT),
            Record("a", float32(2), [1]),
            Record("b", float32(2), [1], io=INPUT),
            Record("b", float32(3 + error), [1]),
            Record("c", float32(3 + error), [1], io=INPUT),
            Record("c", float32(4 + error), [1]),
        ]

    record_run(daemon, "g", run(0))
    record_run(daemon, "t", run(NAN))
    out = daemon.ctl("compare", "run", "g", "t", expect=FAILED).stdout
    assert "cause             b output/0" in out
    assert "first NaN or Inf  b output/0" in out
    comparison = daemon.ctl_json("compare", "get", "c-000001")
    assert comparison["first_origin"]["op"] == "b"
    rows = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    assert [r["origin"] for r in rows if r["verdict"] == "FAIL"] == [
        "CREATED",
        "PASSED_ON",
        "PASSED_ON",
    ]


def test_following_prints_rows_while_the_run_goes_on(daemon: Daemon) -> None:
    golden = [Record("op", float32(i), [1], token=i) for i in range(3)]
    record_run(daemon, "g", golden)
    daemon.ctl("run", "seal", "g")

    def record(token: int, value: float) -> None:
        tensor = Record("op", float32(value), [1], token=token, sequence=token)
        chunk = Chunk("t", [tensor], sequence=token).pack()
        write(daemon.channel(), "t", [chunk], rank=0, world_size=1)

    record(0, 0)
    process = subprocess.Popen(
        [
            *(BIN_DIR / "msitctl", "-o", "json", "compare", "run", "g", "t"),
            *("--follow", "--rows", "all", "--watch", "max_abs > 5"),
            *("--watch", "nan"),
        ],
        env={**os.environ, "MSITCTL_ENDPOINT": daemon.endpoint},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # A missing row ends the test instead of blocking it.
    alarm = threading.Timer(60, process.kill)
    alarm.start()
    try:
        assert process.stdout is not None and process.stderr is not None
        # Token 0 is complete once token 1 has begun.
        record(1, 10)
        row = json.loads(process.stdout.readline())
        assert (int(row["token"]), row["verdict"]) == (0, "PASS")
        record(2, 2)
        row = json.loads(process.stdout.readline())
        assert (int(row["token"]), row["verdict"]) == (1, "FAIL")
        assert 'watch "max_abs > 5" holds: row 1' in process.stderr.readline()
        assert process.poll() is None
        daemon.ctl("run", "seal", "t")
        row = json.loads(process.stdout.readline())
        assert (int(row["token"]), row["verdict"]) == (2, "PASS")
        assert process.wait(30) == FAILED
    finally:
        alarm.cancel()
        process.kill()
        process.wait()


def test_a_watch_that_holds_fails_a_run_that_passes(daemon: Daemon) -> None:
    record_run(daemon, "g", ops("a", "b"))
    record_run(daemon, "t", ops("a", "b"))
    run = ("compare", "run", "g", "t")
    daemon.ctl(*run, "--watch", "fail")
    daemon.ctl(*run, "--watch", "mean_abs >= 0", expect=FAILED)
    result = daemon.ctl(*run, "--watch", "nonsense > 0", expect=USAGE)
    assert "--watch 'nonsense > 0': " in result.stderr


def test_what_one_run_has_alone_is_named_and_may_be_allowed(daemon: Daemon) -> None:
    record_run(daemon, "g", ops("a", "a.dropout", "attn", "b"))
    target = ops("a", "attn", "extra", "b")
    target[1].data, target[3].data = float32(2, 1), float32(3, 1)
    record_run(daemon, "t", target)
    run = ("compare", "run", "g", "t", "--rows", "none")
    out = daemon.ctl(*run, expect=FAILED).stdout
    assert "first divergence  none" in out
    assert "first unmatched   a.dropout output/0, rank 0, token 0, row 1: only" in out
    out = daemon.ctl(*run, "--allow-unmatched", "*.dropout", expect=FAILED).stdout
    assert "1 unmatched, 1 skipped (1 unmatched and allowed)" in out
    assert "first unmatched   extra output/0" in out
    out = daemon.ctl(
        *run, "--allow-unmatched", "*.dropout", "--allow-unmatched", "extra@output"
    ).stdout
    assert "verdict           PASS" in out and "first unmatched" not in out
    rows = daemon.ctl_json("compare", "rows", "c-000003")["rows"]
    reasons = [row["reason"] for row in rows if row["verdict"] == "SKIPPED"]
    assert reasons[1] == 'only in run t; allowed by "extra@output"'
    result = daemon.ctl(*run, "--allow-unmatched", "@nonsense", expect=USAGE)
    assert "--allow-unmatched '@nonsense': " in result.stderr
    # If all tensors may be unmatched, nothing is proven.
    record_run(daemon, "other", ops("z"))
    run = ("compare", "run", "g", "other", "--allow-unmatched", "*")
    out = daemon.ctl(*run, expect=FAILED).stdout
    assert "verdict           FAIL (nothing was compared)" in out
