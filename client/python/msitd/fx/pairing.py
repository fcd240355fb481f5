"""Pairs the nodes of graphs with modules, and with nodes of other graphs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msitd._core.module.op_names import default_op_of
from msitd.fx.provenance import DOCUMENT_PREFIX

if TYPE_CHECKING:
    from msitd.query import Connection, Matching

_MEDIA_TYPE = "application/vnd.msitd.mapping+jsonl"
_NAME_DIGITS = 16
# The limit in MappingLine.
_REASON_BYTES_MAX = 256

# The source of a result: "module" or "origin", its name, its call.
_Key = tuple[str, str, int]
# An op, the number of tensors that it returns, and its call in a token.
_Result = tuple[str, int, int]


def pair_runs(
    connection: Connection, golden: str, target: str, *, model: str = ""
) -> Matching:
    """Returns a mapping between the results of two runs, of which at least one
    has graph nodes.

    ATen nodes are paired with Dynamo nodes by the Dynamo node that they were
    made from. Nodes are paired with modules by the module that contains the
    nodes. The pairs are attached to the target run as a mapping. Intermediate
    results and inputs are skipped with a reason.

    Args:
        connection: The daemon of both runs, as returned by
            `msitd.query.connect`.
        golden: A run of `backend` or `record_program`, or of `register_hook`.
        target: Another such run.
        model: Path of the compiled part in the hooked model: `layers.0`.

    Returns:
        The `matching` for `connection.comparisons.run(golden, target,
        matching=...)`.

    Raises:
        ValueError: Neither run has nodes, or no results can be paired.
        QueryError: The daemon has no such run.
    """
    # The modules for queries are installed, since there is a connection.
    from msitd.query import Matching, TensorMapping

    sides = [_Side(connection, run, model) for run in (golden, target)]
    if not any(side.is_graph for side in sides):
        raise ValueError(f"neither {golden} nor {target} has nodes of graphs")
    lines = list(_lines(*sides))
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    if not any(len(line.keys() & {"golden", "target"}) == 2 for line in lines):
        raise ValueError(f"nothing of {golden} and {target} belongs together")
    name = f"fx-{hashlib.sha256(text).hexdigest()[:_NAME_DIGITS]}.jsonl"
    connection.runs.attach(target, name, text, media_type=_MEDIA_TYPE, replace=True)
    return Matching(mapping=TensorMapping(attachment=name))


class _Side:
    """The sources of results in one run."""

    def __init__(self, connection: Connection, run: str, model: str) -> None:
        from msitd.query import select

        documents = [
            json.loads(connection.tensors.read_bytes(document))
            for document in connection.tensors.list(
                run,
                select(ops=f"{DOCUMENT_PREFIX}*", ranks=0, tokens=0, kinds="document"),
            )
        ]
        self.is_graph = bool(documents)
        self.results: dict[_Key, _Result] = {}
        self.ops: dict[str, str] = {}
        for document in documents:
            self._add_graph(document, _path(model))
        for tensor in connection.tensors.list(run, select(ranks=0, tokens=0)):
            self.ops.setdefault(tensor.op, "")
            if tensor.io == "output" and not documents:
                key = ("module", tensor.op, tensor.call)
                _, count, _ = self.results.get(key, ("", 0, 0))
                self.results[key] = (tensor.op, count + 1, tensor.call)

    def _add_graph(self, document: dict[str, Any], model: str) -> None:
        for node in document["nodes"]:
            module = node.get("module")
            where = "" if module is None else default_op_of(model + module)
            self.ops[node["op"]] = where.removesuffix(".")
        for said in document["modules"]:
            op = default_op_of(model + said["module"]).removesuffix(".")
            key = ("module", op, int(said["call"]))
            self.results[key] = (said["op"], int(said["outputs"]), 0)
        for said in document["origins"]:
            # Different functions may have nodes of the same name.
            graph, slash, _ = said["op"].rpartition("/")
            key = ("origin", graph + slash + said["origin"], 0)
            self.results[key] = (said["op"], int(said["outputs"]), 0)


def _path(model: str) -> str:
    return f"{model}." if model else ""


def _lines(golden: _Side, target: _Side) -> Iterator[dict[str, Any]]:
    """Yields lines of a mapping: see MappingLine."""
    taken = set()
    # Dynamo nodes are finer than modules, and the innermost module is the
    # finest of these.
    for key in sorted(
        target.results, key=lambda key: (key[0] != "origin", -len(key[1]))
    ):
        other = golden.results.get(key)
        op, count, call = target.results[key]
        if other is None or (op, call) in taken:
            continue
        taken.add((op, call))
        golden_op, golden_count, golden_call = other
        for index in range(min(count, golden_count)):
            yield {
                "target": _place(op, index, call),
                "golden": _place(golden_op, index, golden_call),
                "reason": _reason(f"the result of {key[1]}"),
            }
    for name, side in (("target", target), ("golden", golden)):
        for op, module in side.ops.items():
            reason = f"a part of {module}" if module else "not a result of both"
            yield {name: {"op": op}, "reason": _reason(reason)}


def _reason(text: str) -> str:
    return text.encode()[:_REASON_BYTES_MAX].decode(errors="ignore")


def _place(op: str, index: int, call: int) -> dict[str, Any]:
    return {"op": op, "io": "output", "index": index, "call": call}
