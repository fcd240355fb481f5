"""Runs graphs of ATen node by node, and records each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msitd._core.leaf.walk import walk_arguments, walk_result
from msitd.fx.node_recorder import NodeRecorder, op_of

if TYPE_CHECKING:
    import torch


def compile_by_node(
    recorder: NodeRecorder, gm: torch.fx.GraphModule, example_inputs: list[Any]
) -> Any:
    """Returns what runs a graph of Dynamo, with its backward."""
    # Who compiles has torch.
    import torch
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    number = recorder.number_of_function()

    class Recording(torch.fx.Interpreter):
        def __init__(self, module: torch.fx.GraphModule, is_backward: bool) -> None:
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

    def compiler(is_backward: bool) -> Any:
        def compile_part(module: torch.fx.GraphModule, _: list[Any]) -> Any:
            interpreter = Recording(module, is_backward)

            def run(*inputs: Any) -> Any:
                if not is_backward:
                    recorder.begin_function(number)
                return interpreter.run(*inputs)

            return make_boxed_func(run)

        return compile_part

    forward = compiler(is_backward=False)
    aot = aot_autograd(
        fw_compiler=forward,
        bw_compiler=compiler(is_backward=True),
        inference_compiler=forward,
    )
    return aot(gm, example_inputs)
