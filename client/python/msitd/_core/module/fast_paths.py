"""Detects modules of torch that run other code because they have hooks.

In inference, `TransformerEncoderLayer` computes all of its parts in one kernel,
unless one of its modules has a hook. The recorded code path is then not the one
that runs without hooks, which may be the one to be debugged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msitd._core.module.placed_hooks import ModuleHooks
from msitd._core.not_recorded import reason_of
from msitd._core.skips import Skips

LOST_FAST_PATH = (
    "the fast path of TransformerEncoderLayer, which torch leaves because of hooks: "
    "another code path is recorded than runs without them "
    "(torch.backends.mha.set_fastpath_enabled(False) leaves it in both)"
)


def may_have_one(module: Any) -> bool:
    """Returns whether a module is of a class that has a fast path."""
    # torch is installed, since there is a module.
    import torch

    return isinstance(module, torch.nn.TransformerEncoderLayer)


def counting(
    inner: ModuleHooks, op: str, skips: Skips, is_tracing: Callable[[], bool]
) -> ModuleHooks:
    """Returns hooks that also count the calls that would take the fast path
    without hooks.
    """

    def before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # A graph of torch.compile has no fast path.
        if not is_tracing():
            try:
                if is_left(module):
                    skips.count(op, "", LOST_FAST_PATH)
            except Exception as error:  # noqa: BLE001 - never the model's problem
                skips.count(op, "", reason_of(error))
        inner.before(module, args, kwargs)

    return ModuleHooks(before, inner.after)


def is_left(layer: Any) -> bool:
    """Returns whether a call of such a layer would take its fast path without hooks.

    Checks the conditions of torch that do not depend on the arguments.
    """
    import torch

    mha = getattr(torch.backends, "mha", None)
    attention = layer.self_attn
    return (
        not layer.training
        and (mha is None or mha.get_fastpath_enabled())
        and not torch.is_autocast_enabled()
        and attention.batch_first
        and attention.in_proj_bias is not None
        and attention._qkv_same_embed_dim
        and attention.num_heads % 2 == 0
        and bool(layer.activation_relu_or_gelu)
        and layer.norm1.eps == layer.norm2.eps
        and not (
            torch.is_grad_enabled()
            and any(each.requires_grad for each in layer.parameters())
        )
    )
