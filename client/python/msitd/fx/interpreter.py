"""Runs a graph node by node, and records each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msitd._core.leaf.walk import walk_arguments, walk_result
from msitd.fx.node_recorder import NodeRecorder, op_of

if TYPE_CHECKING:
    import torch


def recording_interpreter(
    recorder: NodeRecorder,
    module: torch.fx.GraphModule,
    number: int,
    is_backward: bool,
) -> torch.fx.Interpreter:
    """Returns an interpreter that runs a graph. Not thread-safe.

    Args:
        number: Number of the function to which the graph belongs.
    """
    # torch is installed, since there is a graph.
    import torch

    class Recording(torch.fx.Interpreter):
        def __init__(self) -> None:
            super().__init__(module)
            self._ops = {
                node: op
                for node in module.graph.nodes
                if (op := op_of(node, number, is_backward)) and recorder.wants(op)
            }

        def run_node(self, n: torch.fx.Node) -> Any:
            op = self._ops.get(n)
            if op is None:
                return super().run_node(n)
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            with torch.no_grad():
                given = walk_arguments(args, kwargs, torch.Tensor, True)
                call = recorder.begin(op, given)
            result = super().run_node(n)
            with torch.no_grad():
                made = result if result is not None else args
                recorder.end(call, walk_result(made, torch.Tensor, True))
            return result

    return Recording()
