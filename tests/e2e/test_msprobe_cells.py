"""The cells of msprobe's report, compared with msprobe's own output for the
same pairs.
"""

import csv
import io

from chunk_bytes import INPUT, OUTPUT, WEIGHT, Chunk, Record, float32
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

# msprobe 26.2.0's output for an op with one output: dtype, shape and bytes of
# target and golden; metrics; differences of statistics; statistics; Result in
# modes all and summary. Statistics of complex tensors are those of msitd.
CASES = [
    (
        "inf_ratio",
        (12, [2], "0000803f00000040"),
        (12, [2], "0000000000000000"),
        "Nan|2.23606797749979|2.0|16777215.0|0.0|0.0",
        "2.0|1.0|1.5|2.2360680103302|inf|inf|inf|inf",
        "2.0|1.0|1.5|2.2360680103302|0.0|0.0|0.0|0.0",
        "error",
        "error",
    ),
    (
        "golden0_tiny",
        (12, [4], "ffeb2f2d0000803f0000004000004040"),
        (12, [4], "000000000000803f0000004000004040"),
        "1.0|9.999999960041972e-12|1e-11|8.392334e-05|1.0|1.0",
        "0|9.999999960041972e-12|0|0|0|inf|0|0",
        "3.0|9.999999960041972e-12|1.5|3.7416574954986572|3.0|0.0|1.5|3.7416574954986572",
        "pass",
        "pass",
    ),
    (
        "golden0_int",
        (4, [3], "010000000100000002000000"),
        (4, [3], "000000000100000002000000"),
        "0.912870929175|1.0|1.0|4503599627370496.0|0.666666666667|0.666666666667",
        "0|1.0|0|0|0|inf|0|0",
        "2|1|None|None|2|0|None|None",
        "pass",
        "pass",
    ),
    (
        "int8",
        (2, [3], "649c03"),
        (2, [3], "9c6407"),
        "-0.99750411706|282.8709953317943|200.0|2.0|0.0|0.0",
        "0|0|0|0|0|0|0|0",
        "100|-100|None|None|100|-100|None|None",
        "error",
        "pass",
    ),
    (
        "one",
        (12, [1], "00002040"),
        (12, [1], "00000040"),
        "unsupported|unsupported|0.5|0.25|unsupported|unsupported",
        "0.5|0.5|0.5|0.5|25.0%|25.0%|25.0%|25.0%",
        "2.5|2.5|2.5|2.5|2.0|2.0|2.0|2.0",
        "pass",
        "warning",
    ),
    (
        "one11",
        (12, [1, 1], "00002040"),
        (12, [1, 1], "00000040"),
        "unsupported|unsupported|0.5|0.25|unsupported|unsupported",
        "0.5|0.5|0.5|0.5|25.0%|25.0%|25.0%|25.0%",
        "2.5|2.5|2.5|2.5|2.0|2.0|2.0|2.0",
        "pass",
        "warning",
    ),
    (
        "scalar",
        (12, [], "00002040"),
        (12, [], "00000040"),
        "unsupported|unsupported|0.5|0.25|unsupported|unsupported",
        "0.5|0.5|0.5|0.5|25.0%|25.0%|25.0%|25.0%",
        "2.5|2.5|2.5|2.5|2.0|2.0|2.0|2.0",
        "pass",
        "warning",
    ),
    (
        "scalarhalf",
        (10, [], "0041"),
        (10, [], "662e"),
        "unsupported|unsupported|2.400390625|24.006105422974|unsupported|unsupported",
        "2.4000244140625|2.4000244140625|2.4000244140625|2.4000244140625|2400.610500610501%|2400.610500610501%|2400.610500610501%|2400.610500610501%",
        "2.5|2.5|2.5|2.5|0.0999755859375|0.0999755859375|0.0999755859375|0.0999755859375",
        "pass",
        "error",
    ),
    (
        "scalaru8",
        (6, [], "03"),
        (6, [], "05"),
        "unsupported|unsupported|254.0|0.4|unsupported|unsupported",
        "-2.0|-2.0|-2.0|-2.0|40.0%|40.0%|40.0%|40.0%",
        "3|3|3|3|5|5|5|5",
        "pass",
        "warning",
    ),
    (
        "scalari8",
        (2, [], "9c"),
        (2, [], "64"),
        "unsupported|unsupported|56.0|2.0|unsupported|unsupported",
        "-200.0|-200.0|-200.0|-200.0|200.0%|200.0%|200.0%|200.0%",
        "-100|-100|-100|-100|100|100|100|100",
        "pass",
        "error",
    ),
    (
        "scalarbool",
        (1, [], "01"),
        (1, [], "00"),
        "unsupported|unsupported|1.0|4503599627370496.0|unsupported|unsupported",
        "Diff|Diff|0|0|Diff|Diff|0|0",
        "True|True|None|None|False|False|None|None",
        "pass",
        "pass",
    ),
    (
        "scalarnan",
        (12, [], "0000c07f"),
        (12, [], "0000c07f"),
        "unsupported|unsupported|Nan|Nan|unsupported|unsupported",
        "0|0|0|0|0|0|0|0",
        "Nan|Nan|Nan|Nan|Nan|Nan|Nan|Nan",
        "pass",
        "pass",
    ),
    (
        "scalarinf",
        (12, [], "0000807f"),
        (12, [], "0000807f"),
        "unsupported|unsupported|Nan|Nan|unsupported|unsupported",
        "0|0|0|0|0|0|0|0",
        " inf| inf| inf| inf| inf| inf| inf| inf",
        "pass",
        "pass",
    ),
    (
        "scalarinf1",
        (12, [], "0000807f"),
        (12, [], "0000803f"),
        "unsupported|unsupported| inf| inf|unsupported|unsupported",
        "inf|inf|inf|inf|inf|inf|inf|inf",
        " inf| inf| inf| inf|1.0|1.0|1.0|1.0",
        "error",
        "error",
    ),
    (
        "scalar64",
        (13, [], "0000000000000440"),
        (13, [], "0000000000000040"),
        "unsupported|unsupported|0.5|0.25|unsupported|unsupported",
        "0.5|0.5|0.5|0.5|25.0%|25.0%|25.0%|25.0%",
        "2.5|2.5|2.5|2.5|2.0|2.0|2.0|2.0",
        "pass",
        "warning",
    ),
    (
        "onenan",
        (12, [1], "0000c07f"),
        (12, [1], "0000803f"),
        "unsupported|unsupported|Nan|Nan|unsupported|unsupported",
        "Nan|Nan|Nan|Nan|Nan|Nan|Nan|Nan",
        "Nan|Nan|Nan|Nan|1.0|1.0|1.0|1.0",
        "error",
        "error",
    ),
    (
        "squeeze",
        (12, [2, 1], "0000803f00000040"),
        (12, [2], "0000803f00002040"),
        "0.996545758245|0.5|0.5|0.20000000298|0.5|0.5",
        "-0.5|0|-0.25|-0.4565143585205078|20.0%|0|14.285714285714285%|16.954517856230513%",
        "2.0|1.0|1.5|2.2360680103302|2.5|1.0|1.75|2.692582368850708",
        "error",
        "error",
    ),
    (
        "shape",
        (12, [2], "0000803f00000040"),
        (12, [3], "0000803f0000004000004040"),
        "shape unmatched|shape unmatched|shape unmatched|shape unmatched|shape unmatched|shape unmatched",
        "-1.0|0|-0.5|-1.505589485168457|33.33333333333333%|0|25.0%|40.23857039239249%",
        "2.0|1.0|1.5|2.2360680103302|3.0|1.0|2.0|3.7416574954986572",
        "error",
        "error",
    ),
    (
        "empty",
        (12, [0], ""),
        (12, [0], ""),
        "unsupported|unsupported|unsupported|unsupported|unsupported|unsupported",
        "0|0|0|0|0|0|0|0",
        "None|None|None|None|None|None|None|None",
        "pass",
        "pass",
    ),
    (
        "empty2",
        (12, [0, 3], ""),
        (12, [0, 3], ""),
        "unsupported|unsupported|unsupported|unsupported|unsupported|unsupported",
        "0|0|0|0|0|0|0|0",
        "None|None|None|None|None|None|None|None",
        "pass",
        "pass",
    ),
    (
        "infsign",
        (12, [3], "0000807f0000803f00000040"),
        (12, [3], "000080ff0000803f00002040"),
        "0.996545758245|0.5|0.5|0.20000000298|0.666666666667|0.666666666667",
        "inf|inf|inf|0|inf|inf|inf|0",
        " inf|1.0| inf| inf|2.5| -inf| -inf| inf",
        "pass",
        "pass",
    ),
    (
        "infpos",
        (12, [3], "0000807f0000803f00000040"),
        (12, [3], "0000803f0000807f00002040"),
        "N/A|N/A|N/A|N/A|N/A|N/A",
        "0|0|0|0|0|0|0|0",
        " inf|1.0| inf| inf| inf|1.0| inf| inf",
        "pass",
        "pass",
    ),
    (
        "nanboth",
        (12, [3], "0000c07f0000803f00000040"),
        (12, [3], "0000c07f0000803f00002040"),
        "0.996545758245|0.5|0.5|0.20000000298|0.666666666667|0.666666666667",
        "0|0|0|0|0|0|0|0",
        "Nan|Nan|Nan|Nan|Nan|Nan|Nan|Nan",
        "pass",
        "pass",
    ),
    (
        "allnan",
        (12, [2], "0000c07f0000c07f"),
        (12, [2], "0000c07f0000c07f"),
        "1.0|0.0|0.0|0.0|1.0|1.0",
        "0|0|0|0|0|0|0|0",
        "Nan|Nan|Nan|Nan|Nan|Nan|Nan|Nan",
        "pass",
        "pass",
    ),
    (
        "naninf",
        (12, [2], "0000c07f0000803f"),
        (12, [2], "0000807f0000803f"),
        "N/A|N/A|N/A|N/A|N/A|N/A",
        "Nan|Nan|Nan|Nan|Nan|Nan|Nan|Nan",
        "Nan|Nan|Nan|Nan| inf|1.0| inf| inf",
        "pass",
        "pass",
    ),
    (
        "nangold",
        (12, [2], "0000803f0000803f"),
        (12, [2], "0000c07f0000803f"),
        "N/A|N/A|N/A|N/A|N/A|N/A",
        "Nan|Nan|Nan|Nan|Nan|Nan|Nan|Nan",
        "1.0|1.0|1.0|1.4142135381698608|Nan|Nan|Nan|Nan",
        "pass",
        "pass",
    ),
    (
        "zerot",
        (12, [2], "0000000000000000"),
        (12, [2], "0000803f00000040"),
        "Nan|2.23606797749979|2.0|1.0|0.0|0.0",
        "-2.0|-1.0|-1.5|-2.2360680103302|100.0%|100.0%|100.0%|100.0%",
        "0.0|0.0|0.0|0.0|2.0|1.0|1.5|2.2360680103302",
        "error",
        "error",
    ),
    (
        "zerog",
        (12, [2], "0000803f00000040"),
        (12, [2], "0000000000000000"),
        "Nan|2.23606797749979|2.0|16777215.0|0.0|0.0",
        "2.0|1.0|1.5|2.2360680103302|inf|inf|inf|inf",
        "2.0|1.0|1.5|2.2360680103302|0.0|0.0|0.0|0.0",
        "error",
        "error",
    ),
    (
        "f64",
        (13, [2], "000000000000f03f0000000000000040"),
        (13, [2], "000000000000f03f0000000000000440"),
        "0.996545758245|0.5|0.5|0.2|0.5|0.5",
        "-0.5|0|0|0|20.0%|0|0|0",
        "2.0|1.0|None|None|2.5|1.0|None|None",
        "pass",
        "pass",
    ),
    (
        "f64x32",
        (13, [2], "000000000000f03f0000000000000040"),
        (12, [2], "0000803f00002040"),
        "0.996545758245|0.5|0.5|0.2|0.5|0.5",
        "-0.5|0|Diff|Diff|20.0%|0|Diff|Diff",
        "2.0|1.0|None|None|2.5|1.0|1.75|2.692582368850708",
        "error",
        "error",
    ),
    (
        "halfx32",
        (10, [2], "003c0040"),
        (12, [2], "0000803f00002040"),
        "0.996545758245|0.5|0.5|0.20000000298|0.5|0.5",
        "-0.5|0|-0.25|-0.456254243850708|20.0%|0|14.285714285714285%|16.9448574397913%",
        "2.0|1.0|1.5|2.236328125|2.5|1.0|1.75|2.692582368850708",
        "error",
        "error",
    ),
    (
        "bfx32",
        (11, [2], "803f0040"),
        (12, [2], "0000803f00002040"),
        "0.996545758245|0.5|0.5|0.20000000298|0.5|0.5",
        "-0.5|0|-0.25|-0.458207368850708|20.0%|0|14.285714285714285%|17.01739468220196%",
        "2.0|1.0|1.5|2.234375|2.5|1.0|1.75|2.692582368850708",
        "error",
        "error",
    ),
    (
        "i32x64",
        (4, [2], "0100000002000000"),
        (5, [2], "01000000000000000300000000000000"),
        "unsupported|unsupported|unsupported|unsupported|unsupported|unsupported",
        "N/A|N/A|N/A|N/A|N/A|N/A|N/A|N/A",
        "2|1|None|None|N/A|N/A|N/A|N/A",
        "pass",
        "pass",
    ),
    (
        "f8",
        (14, [2], "3840"),
        (14, [2], "3844"),
        "0.989949493661|1.0|1.0|0.333333343267|0.5|0.5",
        "0|0|0|0|0|0|0|0",
        "None|None|None|None|None|None|None|None",
        "pass",
        "pass",
    ),
    (
        "f8x32",
        (14, [2], "3840"),
        (12, [2], "0000803f00004040"),
        "unsupported|unsupported|unsupported|unsupported|unsupported|unsupported",
        "N/A|N/A|N/A|N/A|N/A|N/A|N/A|N/A",
        "None|None|None|None|N/A|N/A|N/A|N/A",
        "pass",
        "pass",
    ),
    (
        "bool",
        (1, [2], "0100"),
        (1, [2], "0101"),
        "0.707106781187|1.0|1.0|1.0|0.5|0.5",
        "0|Diff|0|0|0|Diff|0|0",
        "True|False|None|None|True|True|None|None",
        "warning",
        "pass",
    ),
    (
        "boolsame",
        (1, [2], "0100"),
        (1, [2], "0001"),
        "0.0|1.4142135623730951|1.0|4503599627370496.0|0.0|0.0",
        "0|0|0|0|0|0|0|0",
        "True|False|None|None|True|False|None|None",
        "error",
        "pass",
    ),
    (
        "complex",
        (16, [2], "0000803f0000004000004040000080bf"),
        (16, [2], "0000803f0000803f00006040000080bf"),
        "0.999056158355|0.5|0.5|0.142857142857|0.5|0.5",
        "N/A|N/A|N/A|0|N/A|N/A|N/A|0",
        "N/A|N/A|N/A|None|N/A|N/A|N/A|None",
        "pass",
        "pass",
    ),
    (
        "complexnan",
        (16, [2], "0000803f0000c07f00004040000080bf"),
        (16, [2], "0000803f0000803f00006040000080bf"),
        "0.999056158355|0.5|0.5|0.142857142857|0.5|0.5",
        "N/A|N/A|N/A|0|N/A|N/A|N/A|0",
        "Nan|Nan|Nan|None|N/A|N/A|N/A|None",
        "error",
        "error",
    ),
    (
        "complexscalar",
        (16, [], "0000803f00000040"),
        (16, [], "0000803f0000803f"),
        "unsupported|unsupported|1.0|0.0|unsupported|unsupported",
        "N/A|N/A|N/A|0|N/A|N/A|N/A|0",
        "N/A|N/A|N/A|None|N/A|N/A|N/A|None",
        "pass",
        "pass",
    ),
    (
        "halfover",
        (10, [2], "537b537b"),
        (10, [2], "537b537b"),
        "1.0|0.0|0.0|0.0|1.0|1.0",
        "0|0|0|0|0|0|0|0",
        "60000.0|60000.0|60000.0| inf|60000.0|60000.0|60000.0| inf",
        "pass",
        "pass",
    ),
    (
        "f64big",
        (13, [2], "5a62d7d718e774695a62d7d718e77469"),
        (13, [2], "5a62d7d718e774695a62d7d718e78469"),
        "Nan| inf|1e+200|0.5|0.5|0.5",
        "-1e+200|0|0|0|50.0%|0|0|0",
        "1e+200|1e+200|None|None|2e+200|1e+200|None|None",
        "pass",
        "pass",
    ),
    (
        "f64max",
        (13, [2], "763b7730d142ee7f000000000000f03f"),
        (13, [2], "763b7730d142eeff000000000000f03f"),
        "Nan| inf| inf| inf|0.5|0.5",
        "1.7e+308|1.7e+308|0|0|inf%|100.0%|0|0",
        "1.7e+308|1.0|None|None|1.0|-1.7e+308|None|None",
        "pass",
        "pass",
    ),
    (
        "big12",
        (13, [2], "b6f37d54346f9d410000000000000840"),
        (13, [2], "000000000000f03f0000000000000840"),
        "0.31622778907|123456788.123|123456788.123|123456788.123|0.5|0.5",
        "123456786.123|2.0|0|0|4115226204.1%|200.0%|0|0",
        "123456789.123|3.0|None|None|3.0|1.0|None|None",
        "warning",
        "pass",
    ),
    (
        "minf",
        (12, [2], "000080ff0000803f"),
        (12, [2], "000080ff00000040"),
        "1.0|1.0|1.0|0.5|0.5|0.5",
        "-1.0|0|0|0|50.0%|0|0|0",
        "1.0| -inf| -inf| inf|2.0| -inf| -inf| inf",
        "pass",
        "pass",
    ),
    (
        "pinfminf",
        (12, [3], "000080ff0000807f0000803f"),
        (12, [3], "000080ff0000807f00000040"),
        "1.0|1.0|1.0|0.5|0.666666666667|0.666666666667",
        "0|0|0|0|0|0|0|0",
        " inf| -inf|Nan| inf| inf| -inf|Nan| inf",
        "pass",
        "pass",
    ),
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
