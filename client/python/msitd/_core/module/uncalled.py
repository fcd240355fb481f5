"""Reports modules that hooks did not see although they may have run.

A hook is called for calls of a module, but not for `module.forward(x)`, or a
function that receives `module.weight`. Neither leaves a trace. The available
evidence is that a module had no call while the module around it had some.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from msitd._core.not_recorded import reason_of

if TYPE_CHECKING:
    import torch

    from msitd._core.client import Client
    from msitd._core.module.native_calls import Progress
    from msitd._core.module.wrappers import ModuleNames
    from msitd._core.skips import Skips

_logger = logging.getLogger("msitd")

# Maximum number of modules that one log line names.
_OPS_SHOWN = 5

BYPASSED = (
    "modules whose parts were called and they were not: something calls their forward() "
    "or another method, which hooks do not see (call the module itself)"
)
UNCALLED = (
    "modules with parameters without a call, in a module that ran: they are unused, or "
    "something calls their forward() or gives their parameters to a function, which hooks "
    "do not see"
)


class Unseen:
    """The modules of one model that may have run unseen. Any thread may use it."""

    def __init__(
        self,
        model: torch.nn.Module,
        client: Client,
        skips: Skips,
        op_of: Callable[[str], str],
        progress: Progress,
        names: ModuleNames,
    ) -> None:
        self._model = weakref.ref(model)
        self._client = client
        self._skips = skips
        self._op_of = op_of
        self._progress = progress
        self._names = names
        self._reported: set[str] = set()

    def by_reason(self) -> dict[str, list[str]]:
        """Returns the ops that are not reported yet, by reason. Raises nothing."""
        try:
            return self._by_reason()
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skips.count(self._op_of(""), "", reason_of(error))
            return {}

    def counts(self) -> dict[str, int]:
        """Returns the number of such ops, by reason."""
        return {reason: len(ops) for reason, ops in self.by_reason().items()}

    def report(self) -> None:
        """Counts and logs these ops. Raises nothing."""
        for reason, ops in self.by_reason().items():
            self._reported.update(ops)
            for op in ops:
                self._skips.count(op, "", reason, is_logged=False)
            names = ", ".join(ops[:_OPS_SHOWN]) + (", …" * (len(ops) > _OPS_SHOWN))
            try:
                _logger.warning("not recorded: %d %s: %s", len(ops), reason, names)
            except Exception:  # noqa: BLE001 - a handler of the logger may raise
                return

    def _by_reason(self) -> dict[str, list[str]]:
        model = self._model()
        uncalled = frozenset(self._progress.uncalled)
        begun = frozenset(self._progress.begun)
        # Nothing is known before the model has run.
        if model is None or not begun or not uncalled:
            return {}
        modules = _Modules(
            dict(self._names.named_modules(model)), self._op_of, uncalled, begun
        )
        found: dict[str, list[str]] = {}
        for name, op in modules.missing.items():
            reason = modules.reason_of(name)
            if (
                reason is not None
                and op not in self._reported
                and self._is_asked_for(op)
            ):
                found.setdefault(reason, []).append(op)
        return found

    def _is_asked_for(self, op: str) -> bool:
        """Returns whether the capture policy selects an op, at the first token
        or now.
        """
        token = self._client.token
        before = max(token - 1, 0)
        tokens = (None, before, 0)
        return any(self._client.selects(op, None, each) for each in tokens)


class _Modules:
    """The modules of a model by name, and which of them ran."""

    def __init__(
        self,
        modules: dict[str, torch.nn.Module],
        op_of: Callable[[str], str],
        uncalled: frozenset[str],
        begun: frozenset[str],
    ) -> None:
        # torch is installed, since there is a module.
        import torch

        self._list_type = torch.nn.ModuleList
        self._attention_type = torch.nn.MultiheadAttention
        self._all = modules
        ops = {name: op_of(name) for name in self._all}
        self.missing = {name: op for name, op in ops.items() if op in uncalled}
        self._ran = {name for name, op in ops.items() if op in begun}
        # Modules with a part that ran.
        self._active: set[str] = set()
        for name in self._ran:
            while name:
                name = name.rpartition(".")[0]
                self._active.add(name)

    def reason_of(self, name: str) -> str | None:
        """Returns why a module without a call is reported; None if it is not
        reported.
        """
        # Nothing is lost if only the children of the model are called.
        if not name:
            return None
        if name in self._active:
            return BYPASSED
        parameters = self._all[name]._parameters.values()
        has_own = any(each is not None for each in parameters)
        return UNCALLED if has_own and self._may_have_worked(name) else None

    def _may_have_worked(self, name: str) -> bool:
        """Returns whether the module around one of `missing` ran."""
        above, _, last = name.rpartition(".")
        around = self._all.get(above)
        # The result of this module is that of the module around it.
        if isinstance(around, self._attention_type):
            return False
        if isinstance(around, self._list_type):
            # Other modules of the same kind ran: this one is an expert that
            # received no tokens.
            return not any(
                type(module) is type(self._all[name])
                and (f"{above}.{key}" if above else key) in self._ran
                for key, module in around._modules.items()
                if key != last
            )
        if above in self._ran or above in self._active:
            return True
        # It is unknown whether an unrecorded module ran.
        return above not in self.missing
