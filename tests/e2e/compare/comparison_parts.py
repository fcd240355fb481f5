"""Comparisons that are split into parts, next to the same comparison as a whole."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chunk_bytes import INPUT, OUTPUT, WEIGHT, Chunk, Record, float32
from google.protobuf import json_format
from msitd import fleet, query
from msitd.fleet import comparing
from msitd.query.messages import new
from wire import write

from daemon import BIN_DIR, Daemon

OF_ONE_DAEMON = (
    *("name", "create_time", "end_time", "owner", "stored_size_bytes"),
    *("pairing_hints", "view_hints"),
)


@pytest.fixture(autouse=True)
def programs_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{BIN_DIR}:{os.environ['PATH']}")


def header_of(comparison: Any) -> dict[str, Any]:
    """Returns the fields that are equal for one daemon and for many workers."""
    value = json_format.MessageToDict(comparison, preserving_proto_field_name=True)
    for name in OF_ONE_DAEMON:
        value.pop(name, None)
    needed = value.get("required_tolerances", [])
    # One daemon orders them by address. An alternative belongs to the preceding
    # entry.
    pairs: list[list[Any]] = []
    for one in needed:
        if one.get("bound") == "NaN":
            pairs[-1].append(one)
        else:
            pairs.append([one])
    value["required_tolerances"] = sorted(map(json.dumps, pairs))
    value["layout_hints"] = value.get("layout_hints", [])
    return value


class Case:
    """One daemon with two runs, and their comparisons."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.daemon = daemon
        self.folder = folder
        self.asked = query.connect(daemon.endpoint)

    def whole(self, **how: Any) -> tuple[dict[str, Any], Any]:
        """Returns header and rows of the comparison by one daemon."""
        made = self.asked.comparisons.create("g", "t", **how)
        done = self.asked.comparisons.wait(made)
        message = self.asked._caller.unary(
            "ComparisonService/GetComparison",
            new("GetComparisonRequest", comparison=done.name),
            "Comparison",
        )
        return header_of(message), self.asked.comparisons.rows(done).to_arrow(
            all_columns=True
        )

    def parts(
        self, task_groups: int, **how: Any
    ) -> tuple[dict[str, Any], Any, comparing.Outcome]:
        """Returns the same of a comparison in parts."""
        comparison = new("Comparison", golden_run="g", target_run="t", **how)
        if "select" in how:
            raise AssertionError("a message has a filter")
        outcome = comparing.run(
            comparing.Wanted(
                comparison=comparison,
                engine="processes",
                out=str(self.folder / "out"),
                endpoint=self.daemon.endpoint,
                task_groups=task_groups,
            )
        )
        rows = fleet.read_rows(outcome.folder)
        return header_of(outcome.comparison), rows, outcome

    def check(self, task_groups: int, **how: Any) -> comparing.Outcome:
        """Compares both ways, and checks that all results are equal."""
        whole = dict(how)
        if "filter" in whole:
            whole["select"] = whole.pop("filter")
        header, rows = self.whole(**whole)
        cut_header, cut_rows, outcome = self.parts(task_groups, **how)
        lines = [repr(row) for row in rows.to_pylist()]
        cut_rows = cut_rows.select(rows.column_names) if len(lines) else cut_rows
        cut_lines = [repr(row) for row in cut_rows.to_pylist()]
        assert cut_lines == lines
        if header.get("makers"):
            # Each part reads the tensors that explain its own causes.
            read = header.pop("read_bytes", 0)
            cut_read = cut_header.pop("read_bytes", 0)
            assert int(cut_read) >= int(read)
        for name in sorted({*cut_header, *header}):
            assert cut_header.get(name) == header.get(name), name
        failing = [row["row"] for row in rows.to_pylist() if is_failing(row)]
        assert [row.row for row in outcome.failing_rows] == failing[:1000]
        return outcome


def is_failing(row: dict[str, Any]) -> bool:
    return row["verdict"] in ("fail", "unmatched")


OPS = ("embed", "layers.0", "layers.0.attn", "layers.0.mlp", "head")


def record_rank(
    daemon: Daemon,
    run: str,
    rank: int,
    world: int,
    tokens: int,
    change: Callable[[str, int, str], float | None],
    placement: str = "",
) -> None:
    """Records a small model; `change` returns an offset for a tensor, or None
    to omit it.
    """
    records: list[Record] = []
    sequence = 0
    for token in range(tokens):
        for op in OPS:
            for io in ("weight", "input", "output"):
                if io == "weight" and token > 0:
                    continue
                added = change(op, token, io)
                sequence += 1
                if added is None:
                    continue
                seed = (OPS.index(op) + 1) * (token + 1) + len(io)
                values = [seed + 0.5 * i + added for i in range(4)]
                if not placement:
                    values = [value + rank for value in values]
                records.append(
                    Record(
                        op,
                        float32(*values),
                        [4],
                        token=token,
                        io={"weight": WEIGHT, "input": INPUT, "output": OUTPUT}[io],
                        sequence=sequence,
                        placement=placement,
                    )
                )
    if records:
        chunk = Chunk(run, records, rank=rank).pack()
        write(daemon.channel(), run, [chunk], rank=rank, world_size=world)


def two_runs(daemon: Daemon) -> None:
    for rank in range(2):
        record_rank(daemon, "g", rank, 2, 4, lambda *_: 0.0)
        record_rank(
            daemon, "t", rank, 2, 4, lambda op, t, _: 0.5 * (op == "head") * (t > 1)
        )
