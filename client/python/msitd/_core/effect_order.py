"""Makes inductor keep the order of operators that have effects.

Torch 2.13 notes which one comes before which under names that its scheduler does not
look for, so it moves them. And it calls one that is given no tensors, which has no
device, before kernels that are to run first.
"""

from __future__ import annotations

import sys
from typing import Any


def keep_order(operator: Any) -> None:
    """Lets inductor run calls of `operator` in their order, if inductor is there."""
    lowering = sys.modules.get("torch._inductor.lowering")
    lowerings = getattr(lowering, "lowerings", None)
    if lowerings is None or operator in lowerings:
        return

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
        # Other versions have other means.
        earlier = getattr(graph, "additional_star_deps", None)
        if previous is not None and earlier is not None:
            earlier[kernel.get_operation_name()].add(previous.get_name())

    lowerings[operator] = lower
