"""Records the modules and parameters of a model before it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msitd._core.call import Call
from msitd._core.leaf.leaves import LeafRecorder
from msitd._core.module.module_tree import DOCUMENT_NAME, document, module_tree

if TYPE_CHECKING:
    import torch

    from msitd._core.client import Client
    from msitd._core.module.wrappers import ModuleNames
    from msitd._core.skips import Skips
    from msitd._msit import Identities


class ModelFacts:
    """Records the modules and parameters of one model.

    Args:
        model: The model, without wrappers.
        names: Provides the dotted names of its modules.
        skips: Counts what cannot be recorded.
    """

    def __init__(
        self,
        client: Client,
        model: torch.nn.Module,
        names: ModuleNames,
        skips: Skips,
    ) -> None:
        self._client = client
        self._model = model
        self._names = names
        self._skips = skips

    def record_modules(self, op_of: Callable[[str], str]) -> None:
        """Records the modules as a document, together with those of earlier models."""
        try:
            trees = self._client.module_trees
            trees[op_of("")] = module_tree(self._model, op_of, self._names)
            self._client.record_document(DOCUMENT_NAME, document(trees.values()))
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skips.count_error(DOCUMENT_NAME, "", error)

    def record_weights(
        self,
        leaves: LeafRecorder,
        op_of: Callable[[str], str | None],
        identities: Identities | None,
        known: set[tuple[str, str, int]],
    ) -> None:
        """Records each parameter once, at the current token, with the op of its module.

        Args:
            op_of: Returns None for a module that is not recorded.
            known: Ops, names and ids of the parameters that are already
                recorded. Those of this model are added.
        """
        token = self._client._native.token()
        for module, name, parameter in self._names.named_parameters(self._model):
            op = op_of(module)
            if op is None or (op, name, id(parameter)) in known:
                continue
            known.add((op, name, id(parameter)))
            if self._client.selects(op, "weight", token):
                call = Call(op, token, 0, None)
                leaves.record([(name, parameter)], "weight", call, identities)
