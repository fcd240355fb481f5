"""Compiles a graph of Dynamo to ATen, and runs the result node by node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msitd.fx.interpreter import recording_interpreter
from msitd.fx.node_recorder import NodeRecorder
from msitd.fx.provenance import record_graph

if TYPE_CHECKING:
    import torch


def compile_by_node(
    recorder: NodeRecorder, gm: torch.fx.GraphModule, example_inputs: list[Any]
) -> Any:
    """Returns a callable that runs a graph of Dynamo, with its backward."""
    # torch is installed, since there is a graph.
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    number = recorder.number_of_function()

    def compiler(is_backward: bool) -> Any:
        def compile_part(module: torch.fx.GraphModule, _: list[Any]) -> Any:
            if not is_backward:
                record_graph(recorder, module.graph, number)
            interpreter = recording_interpreter(recorder, module, number, is_backward)

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
