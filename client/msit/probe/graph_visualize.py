"""Writes the graph of a model as the database that tb_graph_ascend shows, for
`msprobe graph_visualize`.

msprobe runs this program in python3. Its arguments are the path of the database, and
that of a file with a JSON list of the dumps, each with `step`, `rank`, the folder
`target`, and for a comparison also the folder `golden` and the CSV file `report`.

Nodes are the calls in construct.json and the records that it lacks. A node contains the
calls that construct.json names below it. Calls of functions that follow one another at
the top form a group.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

JSON_BYTES_MAX = 1 << 32
ROOT = "DefaultModel"
MODULE, FUNCTION, GROUP = "0", "1", "9"
GRADIENTS = re.compile(r"(?P<module>.+)\.parameters_grad(?:\.(?P<call>\d+))?")
STATISTICS = ("Max", "Min", "Mean", "Norm")
# Parts of a record, the side of the node that shows them, and their name.
PARTS = (
    ("input_args", 0, "input"),
    ("input_kwargs", 0, "input"),
    ("input", 0, "input"),
    ("parameters", 0, "parameters"),
    ("output", 1, "output"),
)
INDICES = {"pass": 0.0, "warning": 0.5, "error": 1.0}
COLORS = {
    "pass": ("#FFFCF3", [0, 0.3]),
    "warning": ("#FFDC7F", [0.3, 0.6]),
    "error": ("#FF704D", [0.6, 1]),
    "unmatched node": ("#C7C7C7", []),
}
# Columns of the report that do not describe the comparison of a tensor.
DESCRIPTIONS = re.compile(
    r"(NPU|Bench) (Name|Dtype|Tensor Shape|Requires_grad|max|min|mean|l2norm)"
    r"|NPU MD5|BENCH MD5|NPU_Stack_Info|Data_name"
)
AGREEMENT = ("Requires_grad Consistent", "Result", "Err_message")
MODES = {"Max diff": "summary", "Cosine": "all", "NPU MD5": "md5"}

TABLES = (
    """CREATE TABLE tb_nodes (id TEXT PRIMARY KEY, graph_id TEXT NOT NULL,
    node_order INTEGER NOT NULL, node_name TEXT NOT NULL, node_type TEXT NOT NULL,
    up_node TEXT, sub_nodes TEXT, precision_index INTEGER, overflow_level TEXT,
    micro_step_id INTEGER NOT NULL, matched_node_link TEXT, stack_id TEXT,
    parallel_merge_info TEXT, matched_distributed TEXT, modified INTEGER NOT NULL,
    input_data TEXT, output_data TEXT, data_source TEXT, dump_data_dir TEXT,
    step INTEGER NOT NULL, rank INTEGER NOT NULL, is_distributed INTEGER)""",
    "CREATE TABLE tb_stack (id TEXT PRIMARY KEY, stack_info TEXT)",
    """CREATE TABLE tb_config (id TEXT PRIMARY KEY, graph_type TEXT NOT NULL, task TEXT,
    tool_tip TEXT, micro_steps INTEGER, overflow_check INTEGER,
    node_colors TEXT NOT NULL, rank_list TEXT NOT NULL, step_list TEXT NOT NULL)""",
)
# The columns of each index on tb_nodes.
INDEXES = (
    "step, rank, data_source, up_node, node_order",
    "step, rank, data_source, node_name",
    "step, rank, data_source, node_order",
    "step, rank, node_order",
    "step, rank, micro_step_id, node_order",
    "step, rank, modified, matched_node_link",
    "is_distributed",
)


def read_json(path: Path) -> dict[str, Any]:
    """Returns the object in a file; an empty one if the file does not exist."""
    if not path.exists():
        return {}
    if path.stat().st_size > JSON_BYTES_MAX:
        raise ValueError(f"{path}: it has more than {JSON_BYTES_MAX} bytes")
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: it is not JSON: {error}") from None
    return value if isinstance(value, dict) else {}


def text_of(value: Any) -> str:
    return "null" if value is None else str(value)


def shown(leaf: Any) -> dict[str, str]:
    """Returns what the graph shows of a leaf of dump.json."""
    if not isinstance(leaf, dict) or "type" not in leaf:
        return {"value": text_of(leaf)}
    if "shape" in leaf and "dtype" in leaf:
        out = {key: text_of(leaf.get(key)) for key in ("type", "dtype", "shape")}
        out |= {key: text_of(leaf.get(key)) for key in STATISTICS}
        out["requires_grad"] = text_of(leaf.get("requires_grad"))
        if leaf.get("md5") is not None:
            out["md5"] = text_of(leaf["md5"])
        out["data_name"] = text_of(leaf.get("data_name", "-1"))
        return out
    value = leaf.get("value", leaf.get("format", leaf.get("group_ranks")))
    out = {"type": text_of(leaf["type"]), "value": text_of(value), "data_name": "-1"}
    out |= {"requires_grad": "null", **dict.fromkeys(STATISTICS, text_of(value))}
    return out | {"dtype": f"<class {type(value).__name__}>", "shape": "[]"}


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yields the leaves of a part of a record with their names."""
    waiting = [(name, value)]
    while waiting:
        name, each = waiting.pop()
        is_leaf = not isinstance(each, (dict, list)) or not each
        if is_leaf or (isinstance(each, dict) and "type" in each):
            file = each.get("data_name") if isinstance(each, dict) else None
            has_file = isinstance(file, str) and file != "-1"
            yield (file.rpartition(".")[0] if has_file else name), each
            continue
        items = each.items() if isinstance(each, dict) else enumerate(each)
        waiting += reversed([(f"{name}.{key}", item) for key, item in items])


def sides_of(name: str, record: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the inputs and the outputs of a node."""
    sides: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    if not isinstance(record, dict):
        return sides
    if GRADIENTS.fullmatch(name):
        for parameter, gradients in record.items():
            is_one = isinstance(gradients, list) and len(gradients) == 1
            leaf = gradients[0] if is_one else gradients
            sides[0].update(
                (key, shown(each)) for key, each in leaves(leaf, f"{name}.{parameter}")
            )
        return sides
    for part, side, label in PARTS:
        if record.get(part):
            sides[side].update(
                (key, shown(each))
                for key, each in leaves(record[part], f"{name}.{label}")
            )
    return sides


def forward_of(name: str) -> str | None:
    """Returns the forward call of a backward call."""
    found = re.fullmatch(r"(.+)\.backward(\.\d+)?", name)
    return f"{found[1]}.forward{found[2] or ''}" if found else None


def backward_of(name: str) -> str:
    """Returns the backward call of a forward call."""
    return re.sub(r"\.forward(\.\d+)?$", r".backward\1", name)


class Graph:
    """The nodes of one dump."""

    def __init__(self, folder: Path, graph_id: str) -> None:
        self.graph_id = graph_id
        dump = read_json(folder / "dump.json")
        data = dump.get("data")
        if not isinstance(data, dict):
            text = f"{folder / 'dump.json'}: it has no data"
            raise ValueError(text)  # noqa: TRY004 - the file is wrong
        self.data: dict[str, Any] = data
        tensors = folder / "dump_tensor_data"
        self.tensors = str(tensors.resolve()) if tensors.is_dir() else None
        self.parents: dict[str, str] = {}
        self.steps: dict[str, int] = {}
        self._read_tree(read_json(folder / "construct.json"))
        self.children: dict[str, list[str]] = {}
        for name in [*self.parents]:
            self.children.setdefault(self.parents[name], []).append(name)
        self.groups = self._group()
        self.stacks = self._read_stacks(read_json(folder / "stack.json"))
        self.order = self._order()

    def _read_tree(self, construct: dict[str, Any]) -> None:
        self.micro_steps = construct.pop("megatron_micro_step_number", 1)
        if not isinstance(self.micro_steps, int):
            self.micro_steps = 1
        for name, above in construct.items():
            # Under Megatron, the parent is in a list with the micro step.
            if isinstance(above, list) and len(above) == 2:
                self.steps[name] = above[1] if isinstance(above[1], int) else 0
                above = above[0]
            self.parents[name] = above if isinstance(above, str) else ROOT
        for name, above in self.parents.items():
            # A gradient that arrives late is below the module of its call.
            owner = backward_of(self.parents.get(forward_of(name) or "", ROOT))
            if above == ROOT and owner in construct and owner != name:
                self.parents[name] = owner
        for name in self.data:
            if name in self.parents:
                continue
            match = GRADIENTS.fullmatch(name)
            owner = match and f"{match['module']}.backward.{match['call'] or 0}"
            self.parents[name] = owner if owner in construct else ROOT
        for name in [*self.parents]:
            self._cut_cycle(name)

    def _cut_cycle(self, name: str) -> None:
        seen = {name}
        while (above := self.parents.get(name, ROOT)) != ROOT:
            if above in seen or above not in self.parents:
                self.parents[name] = ROOT
                return
            seen.add(above)
            name = above

    def _group(self) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = {}
        top: list[str] = []
        run: list[str] = []
        for name in [*self.children.get(ROOT, []), ROOT]:
            if self.type_of(name) == FUNCTION:
                run.append(name)
                continue
            if len(run) > 1:
                group = f"Apis_Between_Modules.{len(groups)}"
                groups[group] = run
                self.parents |= dict.fromkeys(run, group)
                self.parents[group] = ROOT
                self.children[group] = run
                run = [group]
            top += run
            run = []
            if name != ROOT:
                top.append(name)
        self.children[ROOT] = top
        return groups

    def type_of(self, name: str) -> str:
        if name.startswith("Apis_Between_Modules."):
            return GROUP
        is_module = name.startswith(("Module.", "Cell.")) or name == ROOT
        return MODULE if is_module or self.children.get(name) else FUNCTION

    def _order(self) -> list[str]:
        """Returns all nodes, each after those that it contains."""
        out: list[str] = []
        waiting = [(ROOT, False)]
        while waiting:
            name, is_done = waiting.pop()
            if is_done:
                out.append(name)
                continue
            waiting.append((name, True))
            below = reversed(self.children.get(name, []))
            waiting += [(child, False) for child in below]
        return out

    def _read_stacks(self, stacks: dict[str, Any]) -> dict[str, str]:
        out = {}
        for key, value in stacks.items():
            if not isinstance(value, list):
                continue
            is_group = len(value) == 2 and all(isinstance(each, list) for each in value)
            names, frames = value if is_group else ([key], value)
            out |= dict.fromkeys(map(str, names), json.dumps(frames))
        return out

    def link(self, name: str) -> list[str]:
        """Returns the nodes from the root to this one."""
        chain = [name]
        while chain[0] != ROOT:
            chain.insert(0, self.parents.get(chain[0], ROOT))
        return chain


class Report:
    """The rows of a comparison, by the name of the target, and paired nodes."""

    def __init__(self, path: Path) -> None:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            self.columns = list(reader.fieldnames or [])
            self.rows = {row["NPU Name"]: row for row in reader}
        self.mode = next((MODES[c] for c in self.columns if c in MODES), "summary")
        self.metrics = [
            column
            for column in self.columns
            if column not in AGREEMENT and not DESCRIPTIONS.fullmatch(column)
        ]

    def add(self, sides: tuple[dict[str, Any], dict[str, Any]]) -> float | None:
        """Adds the columns to the leaves of a node that has a counterpart. Returns the
        index of its worst result; None if no result was judged.
        """
        found = []
        for side in sides:
            for name, leaf in side.items():
                row = self.rows.get(name)
                if row is None:
                    continue
                leaf |= {column: row[column] for column in (*self.metrics, *AGREEMENT)}
                found.append(INDICES.get(row["Result"]))
        return worst(found)

    def pairs(self, target: Graph, golden: Graph) -> dict[str, str]:
        """Returns the golden node of each target node."""
        known = {*golden.parents, ROOT}
        out = {name: name for name in target.order if name in known}
        for name, row in self.rows.items():
            other = row["Bench Name"]
            if other not in ("N/A", name):
                one = node_in(name, target.parents)
                two = node_in(other, golden.parents)
                if one and two:
                    out[one] = two
        return out


def node_in(leaf: str, nodes: dict[str, str]) -> str:
    """Returns the node of a leaf: the longest beginning that is a node. A name
    does not show it, because a module may be called `output`. Empty if none is.
    """
    while leaf and leaf not in nodes:
        leaf = leaf.rpartition(".")[0]
    return leaf


def worst(indices: Iterable[float | None]) -> float | None:
    """Returns the highest index; None if all of them are."""
    return max((index for index in indices if index is not None), default=None)


class Writer:
    """The database."""

    def __init__(self, path: Path) -> None:
        self.database = sqlite3.connect(path)
        self.database.execute("PRAGMA journal_mode=WAL")
        for table in TABLES:
            self.database.execute(table)
        self.micro_steps = 1
        self.report: Report | None = None

    def add(self, dump: dict[str, Any]) -> int:
        """Adds one dump, or a pair of them. Returns the number of nodes."""
        place = f"{dump['rank']}_{dump['step']}"
        target = Graph(Path(dump["target"]), f"NPU_{place}")
        self.micro_steps = max(self.micro_steps, target.micro_steps)
        if "report" not in dump:
            return self._add_nodes(target, "NPU", dump, None, {}, target)
        self.report = Report(Path(dump["report"]))
        golden = Graph(Path(dump["golden"]), f"Bench_{place}")
        pairs = self.report.pairs(target, golden)
        back = {other: name for name, other in pairs.items()}
        count = self._add_nodes(target, "NPU", dump, self.report, pairs, golden)
        return count + self._add_nodes(golden, "Bench", dump, None, back, target)

    def _add_nodes(
        self,
        graph: Graph,
        source: str,
        dump: dict[str, Any],
        report: Report | None,
        pairs: dict[str, str],
        other: Graph,
    ) -> int:
        stacks: dict[str, str] = {}
        indices: dict[str, float | None] = {}
        for order, name in enumerate(graph.order):
            sides = sides_of(name, graph.data.get(name))
            indices[name] = None
            if report is not None and name in graph.groups:
                indices[name] = worst(indices[each] for each in graph.groups[name])
            elif report is not None and name in pairs:
                indices[name] = report.add(sides)
            stack = graph.stacks.get(name)
            # Only forward calls have stacks.
            stack = stack or graph.stacks.get(forward_of(name) or "", "[]")
            stack_id = stacks.setdefault(stack, f"{graph.graph_id}_{len(stacks)}")
            children = graph.children.get(name)
            link = other.link(pairs[name]) if name in pairs else []
            row = (
                *(f"{graph.graph_id}_{name}", graph.graph_id, order, name),
                *(graph.type_of(name), graph.parents.get(name, "")),
                *(json.dumps(children) if children else "", indices[name], None),
                *(graph.steps.get(name, 0), json.dumps(link), stack_id, "", "{}", 0),
                *(json.dumps(sides[0]), json.dumps(sides[1]), source, graph.tensors),
                *(dump["step"], dump["rank"], int(name.startswith("Distributed."))),
            )
            self.database.execute(
                f"INSERT INTO tb_nodes VALUES ({','.join('?' * len(row))})", row
            )
        self.database.executemany(
            "INSERT INTO tb_stack VALUES (?, ?)",
            [(stack_id, stack) for stack, stack_id in stacks.items()],
        )
        return len(graph.order)

    def finish(self, dumps: list[dict[str, Any]]) -> None:
        """Adds the description of the whole, and closes the database."""
        report = self.report
        colors = {
            color: {"value": span, "description": level, "accuracy_level": level}
            for level, (color, span) in COLORS.items()
        }
        tips = None if report is None else dict.fromkeys(report.metrics, "")
        row = (
            *("1", "build" if report is None else "compare"),
            *("" if report is None else report.mode, tips and json.dumps(tips)),
            *(self.micro_steps, 0, "null" if report is None else json.dumps(colors)),
            *(json.dumps(sorted({d[key] for d in dumps})) for key in ("rank", "step")),
        )
        self.database.execute(
            f"INSERT INTO tb_config VALUES ({','.join('?' * 9)})", row
        )
        for number, columns in enumerate(INDEXES, 1):
            self.database.execute(f"CREATE INDEX index{number} ON tb_nodes ({columns})")
        self.database.commit()
        self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.database.close()


def main(path: str, dumps_path: str) -> int:
    """Writes the database, completely or not at all. Returns the exit code."""
    dumps = json.loads(Path(dumps_path).read_bytes())
    temporary = Path(f"{path}.part")
    try:
        writer = Writer(temporary)
        count = sum(writer.add(dump) for dump in dumps)
        writer.finish(dumps)
        temporary.rename(path)
    except (OSError, ValueError, KeyError, sqlite3.Error) as error:
        print(f"msprobe: {error}", file=sys.stderr)
        return 1
    finally:
        for end in ("", "-wal", "-shm"):
            Path(f"{temporary}{end}").unlink(missing_ok=True)
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"{now} ({os.getpid()}) [INFO] {count} nodes are saved in {path}")
    return 0


sys.exit(main(*sys.argv[1:]))
