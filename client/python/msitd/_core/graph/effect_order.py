"""Works around faults of Inductor in the handling of operators with effects.

Torch 2.13 stores the order of such operators under names that its scheduler
does not use, so the scheduler moves them. An operator without tensor arguments,
which has no device, is called before kernels that must run first. Inductor also
fails on a separately compiled backward of a graph with such operators: the
graph returns the token of their order as a result, and Inductor takes it for
None.
"""

from __future__ import annotations

import sys
from typing import Any


def keep_order(operator: Any) -> None:
    """Makes Inductor run calls of `operator` in order, if Inductor is loaded."""
    lowering = sys.modules.get("torch._inductor.lowering")
    lowerings = getattr(lowering, "lowerings", None)
    if lowerings is None or operator in lowerings:
        return
    _let_tokens_be_results(lowerings)

    def lower(*args: Any, **kwargs: Any) -> None:
        import torch
        from torch._inductor import ir
        from torch._inductor.virtualized import V
        from torch._library.effects import EffectType

        graph = V.graph
        previous = graph.effectful_ops.get(EffectType.ORDERED)
        ir.FallbackKernel.create(operator, *args, **kwargs)
        kernel = graph.operations[-1]
        if kernel.get_device() is None:
            kernel.layout = ir.NoneLayout(device=torch.device("cpu"))
        # Other versions keep the order in other ways.
        earlier = getattr(graph, "additional_star_deps", None)
        if previous is not None and earlier is not None:
            earlier[kernel.get_operation_name()].add(previous.get_name())

    lowerings[operator] = lower


def _let_tokens_be_results(lowerings: dict[Any, Any]) -> None:
    import torch

    operator = getattr(torch.ops.prims, "_make_token", None)
    original = None if operator is None else lowerings.get(operator.default)
    if original is None:
        # Other versions keep the order in other ways.
        return

    def lower() -> Any:
        from torch._inductor.virtualized import V

        if all(user.op != "output" for user in V.graph.current_node.users):
            return original()
        empty = lowerings[torch.ops.aten.full.default]
        return empty([0], 0.0, dtype=torch.float32, device=torch.device("cpu"))

    lowerings[operator.default] = lower
