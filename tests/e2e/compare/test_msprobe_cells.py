"""The cells of msprobe's report, compared with msprobe's own output for the
same pairs.
"""

import csv
import io

from chunk_bytes import INPUT, OUTPUT, WEIGHT, Chunk, Record, float32
from msprobe_cells import CASES
from wire import write

from daemon import Daemon

GRAD_INPUT, GRAD_OUTPUT = 4, 5

METRICS = [
    "Cosine",
    "EucDist",
    "MaxAbsErr",
    "MaxRelativeErr",
    "One Thousandth Err Ratio",
    "Five Thousandths Err Ratio",
]
DIFFERENCES = [
    "Max diff",
    "Min diff",
    "Mean diff",
    "L2norm diff",
    "MaxRelativeErr",
    "MinRelativeErr",
    "MeanRelativeErr",
    "NormRelativeErr",
]
STATISTICS = [
    "NPU max",
    "NPU min",
    "NPU mean",
    "NPU l2norm",
    "Bench max",
    "Bench min",
    "Bench mean",
    "Bench l2norm",
]


def rows_of(daemon: Daemon, mode: str, *flags: str) -> dict[str, dict[str, str]]:
    text = daemon.ctl(
        *("compare", "report", "c-000001", "--format", "msprobe", "--mode", mode),
        *("--compat", *flags),
    ).stdout
    return {row["NPU Name"]: row for row in csv.DictReader(io.StringIO(text))}


def cells(row: dict[str, str], columns: list[str]) -> str:
    return "|".join(row[column] for column in columns)


def rounded(text: str) -> list[str]:
    """Returns the cells, with sums rounded to ignore their last bits."""
    return [f"{float(c):.12g}" if c[-1:].isdigit() else c for c in text.split("|")]


def test_cells_are_those_of_msprobe(daemon: Daemon) -> None:
    for side, run in ((2, "g"), (1, "t")):
        records = [
            Record(case[0], bytes.fromhex(case[side][2]), case[side][1], case[side][0])
            for case in CASES
        ]
        write(daemon.channel(), run, [Chunk(run, records).pack()])
    daemon.ctl("compare", "run", "g", "t", "--preset", "msprobe", expect=None)
    tensor = rows_of(daemon, "all")
    summary = rows_of(daemon, "summary")
    wrong = []
    for name, _, _, metrics, differences, statistics, result, verdict in CASES:
        key = f"{name}.0.forward.output.0"
        found = [
            (cells(tensor[key], METRICS), metrics),
            (cells(tensor[key], STATISTICS), statistics),
            (cells(summary[key], STATISTICS), statistics),
            (cells(summary[key], DIFFERENCES), differences),
            (tensor[key]["Result"], result),
            (summary[key]["Result"], verdict),
        ]
        wrong += [(name, a, b) for a, b in found if rounded(a) != rounded(b)]
    assert not wrong, "\n".join(map(str, wrong))


def record(op: str, io: int, value: float, **fields: object) -> Record:
    return Record(op, float32(value, 1.0), [2], io=io, **fields)


def write_runs(daemon: Daemon, rows: list[tuple[str, int, float, float]]) -> None:
    """Records (op, io, golden value, target value) in this order."""
    for side, run in ((2, "g"), (3, "t")):
        records = [
            record(row[0], row[1], row[side], sequence=i) for i, row in enumerate(rows)
        ]
        write(daemon.channel(), run, [Chunk(run, records).pack()])
    daemon.ctl("compare", "run", "g", "t", "--preset", "msprobe", expect=None)


def test_the_parts_of_a_container_do_not_cut_its_entry(daemon: Daemon) -> None:
    write_runs(
        daemon,
        [
            ("block", INPUT, 1.0, 1.0),
            ("block.linear", INPUT, 1.0, 1.0),
            ("block.linear", OUTPUT, 1.0, 3.0),
            ("block.linear", WEIGHT, 1.0, 1.0),
            ("block", OUTPUT, 1.0, 3.0),
        ],
    )
    rows = rows_of(daemon, "summary")
    # A call is listed where it ended, with its parameters before its outputs.
    assert list(rows) == [
        "block.linear.0.forward.input.0",
        "block.linear.0.forward.parameters.0",
        "block.linear.0.forward.output.0",
        "block.0.forward.input.0",
        "block.0.forward.output.0",
    ]
    assert [r["Result"] for r in rows.values()] == ["pass"] * 2 + ["error"] + [
        "pass",
        "error",
    ]


def test_forward_and_backward_of_a_call_are_judged_apart(daemon: Daemon) -> None:
    write_runs(
        daemon,
        [
            # The error of the gradient equals that of the output, which does
            # not excuse it.
            ("op", INPUT, 1.0, 1.0),
            ("op", OUTPUT, 1.0, 9.0),
            ("op", GRAD_OUTPUT, 1.0, 9.0),
            ("op", GRAD_INPUT, 1.0, 9.0),
        ],
    )
    rows = rows_of(daemon, "summary")
    assert list(rows) == [
        "op.0.forward.input.0",
        "op.0.forward.output.0",
        "op.0.backward.input.0",
        "op.0.backward.output.0",
    ]
    assert [r["Result"] for r in rows.values()] == ["pass", "error", "pass", "pass"]


def test_a_row_that_is_left_out_is_judged_with_its_entry(daemon: Daemon) -> None:
    # The norm of the input differs by 10 %, so that of the output may differ by
    # 52 %.
    write_runs(daemon, [("op", INPUT, 1.0, 1.2), ("op", OUTPUT, 1.0, 1.9)])
    whole = rows_of(daemon, "summary")
    assert [r["Result"] for r in whole.values()] == ["pass", "pass"]
    output = "op.0.forward.output.0"
    assert rows_of(daemon, "summary", "--verdict", "fail") == {output: whole[output]}


def test_names_are_those_of_each_side(daemon: Daemon) -> None:
    for run, op in (("g", "Module.a.Linear"), ("t", "Module.b.Linear")):
        chunk = Chunk(run, [record(op, OUTPUT, 1.0, call=3), record(op, 6, 1.0)])
        write(daemon.channel(), run, [chunk.pack()])
    daemon.ctl(
        *("compare", "run", "g", "t", "--preset", "msprobe"),
        *("--rewrite", "Module.b=>Module.a"),
    )
    out, grad = rows_of(daemon, "all").values()
    assert out["NPU Name"] == "Module.b.Linear.forward.3.output.0"
    assert out["Bench Name"] == "Module.a.Linear.forward.3.output.0"
    assert grad["NPU Name"] == "Module.b.Linear.parameters_grad.0.0"
    assert out["Data_name"] == (
        "['runs/t/ranks/0/devices/cpu:0/tokens/0/ops/Module.b.Linear/calls/3/output/0',"
        " 'runs/g/ranks/0/devices/cpu:0/tokens/0/ops/Module.a.Linear/calls/3/output/0']"
    )


def test_rows_that_msprobe_passes_unseen_are_counted(daemon: Daemon) -> None:
    chunk = Chunk("g", [record("both", OUTPUT, 1.0)])
    write(daemon.channel(), "g", [chunk.pack()])
    chunk = Chunk("t", [record("both", OUTPUT, 1.0), record("new", OUTPUT, 5.0)])
    write(daemon.channel(), "t", [chunk.pack()])
    daemon.ctl("compare", "run", "g", "t", "--preset", "msprobe", expect=None)
    report = ("compare", "report", "c-000001", "--format", "msprobe")
    for mode, cell, result in (
        ("all", "unsupported", "pass"),
        ("summary", "N/A", "pass"),
        ("md5", "N/A", "warning"),
    ):
        out = daemon.ctl(*report, "--mode", mode)
        assert "warning" in list(csv.reader(io.StringIO(out.stdout)))[2]
        out = daemon.ctl(*report, "--mode", mode, "--compat")
        new = list(csv.reader(io.StringIO(out.stdout)))[2]
        assert new[1] == "N/A" and new[9] == cell, new
        assert result in new
        noted = "1 rows without a counterpart" in out.stderr
        assert noted == (mode != "md5")
