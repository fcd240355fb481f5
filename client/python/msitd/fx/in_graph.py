"""Compiles a graph with another backend and records its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msitd._core.api.in_graphs import Notes, are_possible
from msitd.fx.node_recorder import NodeRecorder, op_of
from msitd.fx.provenance import record_graph

if TYPE_CHECKING:
    import torch


class _NodeNotes(Notes):
    """Notes around every node, by the name of the node."""

    def __init__(self, recorder: NodeRecorder, number: int) -> None:
        super().__init__(
            recorder,
            (),
            wants=recorder.wants,
            inputs=True,
            outputs=True,
            gradients=False,
        )
        self._number = number

    def _op_of(self, node: torch.fx.Node) -> str | None:
        example = node.meta.get("example_value")
        parts = example if isinstance(example, (tuple, list)) else (example,)
        if not any(isinstance(part, self._tensor_type) for part in parts):
            return None
        return op_of(node, self._number, is_backward=False)


def compile_within(
    recorder: NodeRecorder,
    inner: Any,
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
) -> Any:
    """Returns the graph as compiled by `inner`, with a record of each node in it.

    Raises:
        RuntimeError: This version of torch cannot record in graphs.
    """
    import torch
    from torch._dynamo.backends.registry import lookup_backend

    if not are_possible():
        raise RuntimeError(f"torch {torch.__version__} has no operators with effects")
    number = recorder.number_of_function()
    compiler = lookup_backend(inner)
    record_graph(recorder, gm.graph, number)
    is_eager = getattr(compiler, "__name__", "") == "eager"
    _NodeNotes(recorder, number).put_into(gm, runs_bodies=is_eager)
    compiled = compiler(gm, example_inputs)

    def run(*inputs: Any) -> Any:
        recorder.begin_function(number)
        return compiled(*inputs)

    return run
