"""Describes the module and the Dynamo node that produced each node of a graph."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msitd._core.not_recorded import reason_of
from msitd.fx.node_recorder import NodeRecorder, op_of

if TYPE_CHECKING:
    import torch

# Name of the document of a graph, followed by the number of its function.
DOCUMENT_PREFIX = "fx_graph_"

# Dynamo's notation for a module that is an argument or a global of the
# function.
_ROOT = re.compile(r"^[LG]\['\w+'\]\.?")
_PARTS = re.compile(r"\._modules\['([^']+)'\]|\['([^']+)'\]|\[(\d+)\]")
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (.+)')

# A call of a module: its path, and the number of the call.
_Module = tuple[str, int]


def record_graph(recorder: NodeRecorder, graph: torch.fx.Graph, number: int) -> None:
    """Records a document that describes a graph. Raises nothing.

    `nodes` has for each node its op, the module that contains it, the number of
    the module's call, its Dynamo node and its line in the source, where these
    are known. `modules` and `origins` state which node returns the result of a
    call of a module, or of a Dynamo node.

    Args:
        number: Number of the function to which the graph belongs.
    """
    name = f"{DOCUMENT_PREFIX}{number}.json"
    try:
        text = json.dumps(_described(graph, number))
        recorder.client.record_document(name, text)
    except Exception as error:  # noqa: BLE001 - never the program's problem
        recorder.count_in_graph(name, f"the description of a graph: {reason_of(error)}")


def _described(graph: torch.fx.Graph, number: int) -> dict[str, Any]:
    nodes = []
    in_modules: dict[_Module, list[torch.fx.Node]] = {}
    of_origins: dict[str, list[torch.fx.Node]] = {}
    ops: dict[torch.fx.Node, str] = {}
    for node in graph.nodes:
        op = op_of(node, number, is_backward=False)
        if op is None:
            continue
        ops[node] = op
        modules = list(_modules_of(node))
        origin = _origin_of(node)
        for module in modules:
            in_modules.setdefault(module, []).append(node)
        of_origins.setdefault(origin, []).append(node)
        said: dict[str, Any] = {"op": op, "origin": origin}
        if modules:
            said["module"], said["call"] = modules[-1]
        source = _source_of(node)
        if source:
            said["source"] = source
        nodes.append(said)
    return {
        "nodes": nodes,
        "modules": [
            {"module": module, "call": call, "op": ops[node], "outputs": count}
            for (module, call), inside in in_modules.items()
            for node, count in _results_of(inside)
        ],
        "origins": [
            {"origin": origin, "op": ops[node], "outputs": count}
            for origin, inside in of_origins.items()
            for node, count in _results_of(inside)
        ],
    }


def _modules_of(node: torch.fx.Node) -> Iterator[_Module]:
    """Yields the calls of modules that contain a node, outermost first."""
    for key, (path, _) in (node.meta.get("nn_module_stack") or {}).items():
        _, at, number = str(key).rpartition("@")
        name = _PARTS.sub(
            lambda match: "." + next(filter(None, match.groups())),
            _ROOT.sub("", str(path)),
        )
        yield name.removeprefix("."), int(number) if at else 0


def _origin_of(node: torch.fx.Node) -> str:
    """Returns the name of the Dynamo node from which a node was made."""
    made_of = node.meta.get("from_node")
    return str(made_of[0].name) if made_of else node.name


def _source_of(node: torch.fx.Node) -> str:
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    return "{}:{} {}".format(*frames[-1]) if frames else ""


def _results_of(
    inside: list[torch.fx.Node],
) -> Iterator[tuple[torch.fx.Node, int]]:
    """Yields the node whose result is used outside of some nodes, if there is
    exactly one.

    Also yields the number of tensors that it returns.
    """
    members = set(inside)
    used = [
        node
        for node in inside
        if any(user not in members and user.op != "output" for user in node.users)
    ]
    if not used:
        # The results of a function are followed by those that its backward
        # needs.
        places = {
            result: place
            for node in inside
            for user in node.users
            if user.op == "output"
            for place, result in enumerate(user.all_input_nodes)
            if result in members
        }
        used = sorted(places, key=places.__getitem__)[:1]
    if len(used) == 1:
        count = _tensor_count(used[0])
        if count > 0:
            yield used[0], count


def _tensor_count(node: torch.fx.Node) -> int:
    # torch is installed, since there is a graph.
    import torch

    value = node.meta.get("val", node.meta.get("example_value"))
    parts = value if isinstance(value, (tuple, list)) else (value,)
    return len(parts) if all(isinstance(p, torch.Tensor) for p in parts) else 0
