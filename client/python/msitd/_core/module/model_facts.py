"""Records what is known of a model before it runs: its modules and parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msitd._core.graph import compiled
from msitd._core.leaf.leaves import Call, LeafRecorder
from msitd._core.module.module_tree import DOCUMENT_NAME, module_tree

if TYPE_CHECKING:
    import torch

    from msitd._core.leaf.identities import Identities
    from msitd._core.recorder import Client


def record_modules(
    client: Client, model: torch.nn.Module, op_of: Callable[[str], str]
) -> None:
    """Records the tree of modules as a document.

    Raises:
        MsitError: The client is closed.
    """
    client.record_document(DOCUMENT_NAME, module_tree(model, op_of))


def record_weights(
    client: Client,
    leaves: LeafRecorder,
    model: torch.nn.Module,
    op_of: Callable[[str], str | None],
    identities: Identities | None,
) -> None:
    """Records each parameter once, at the current token, with the op of its module.

    Args:
        op_of: Gives None for a module that is not recorded.
    """
    token = client.token
    for path, parameter in model.named_parameters():
        module_name, _, name = compiled.plain_name(path).rpartition(".")
        op = op_of(module_name)
        if op is not None and client.selects(op, "weight", token):
            call = Call(op, token, 0, None)
            leaves.record([(name, parameter)], "weight", call, identities)
