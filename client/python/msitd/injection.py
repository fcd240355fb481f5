"""Gives the modules of a model the inputs that a run has of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msitd._core.graph import compiled
from msitd._core.module.op_names import default_op_of
from msitd._core.patterns import compile_patterns
from msitd._core.replacing import replacement

if TYPE_CHECKING:
    from types import TracebackType

    import torch
    from typing_extensions import Self

    from msitd._core.recorder import Client
    from msitd.query import Connection

_logger = logging.getLogger("msitd")

# Reasons that are told one by one.
_TOLD_MAX = 20


def inject(
    model: torch.nn.Module,
    run: str,
    *,
    connection: Connection,
    client: Client | None = None,
    ops: str | Iterable[str] | None = None,
    keep_gradients: bool = False,
) -> Injection:
    """Gives modules of `model` the inputs that `run` has of them, from now on.

    So what a module makes of them does not depend on what came before: if it differs
    from the run, the module itself is wrong. Arguments are replaced by op, call, index
    and token; what the run lacks, or has with another shape or dtype, stays and is
    counted. Put it on after `register_hook`: what is recorded is what modules get.

    Args:
        model: Its ops are those of `register_hook`.
        run: Such as one of the same model that is right, of the same rank 0.
        connection: Where the run is, as `msitd.query.connect` returns it.
        client: Says which token it is. None: forwards of `model` are counted.
        ops: Patterns of the ops whose inputs are replaced; one must match the whole
            op. Default: all.
        keep_gradients: Whether gradients go on to what was replaced.

    Returns:
        A handle. Its `remove()` ends it, and so does leaving it as a context manager.
    """
    return Injection(
        model,
        run,
        connection=connection,
        client=client,
        ops=ops,
        keep_gradients=keep_gradients,
    )


class Injection:
    """The hooks of one `inject`. Any thread may run the model."""

    def __init__(
        self,
        model: torch.nn.Module,
        run: str,
        *,
        connection: Connection,
        client: Client | None,
        ops: str | Iterable[str] | None,
        keep_gradients: bool,
    ) -> None:
        # Who has a model has torch.
        import torch

        self._tensor_type = torch.Tensor
        self._no_grad = torch.no_grad
        self._run = run
        self._connection = connection
        self._client = client
        self._keeps_gradients = keep_gradients
        self._lock = threading.Lock()
        self._token = -1
        self._counts: dict[str, int] = {}
        # Inputs that the run has at the token, by op, call and index.
        self._recorded: dict[tuple[str, int, str], Any] = {}
        self._told_count = 0
        # How many arguments were replaced, and how many could not be.
        self.replaced_count = 0
        self.kept_count = 0
        self._handles: list[Any] = []
        matches = compile_patterns(ops)
        plain = compiled.unwrap(model)
        for name, module in compiled.named_modules(plain):
            op = default_op_of(name)
            if matches(op):
                hook = self._hook(op)
                self._handles.append(
                    module.register_forward_pre_hook(
                        hook, prepend=True, with_kwargs=True
                    )
                )
        if client is None:
            self._handles.append(
                plain.register_forward_pre_hook(self._count_forward, prepend=True)
            )
            self._forward_count = 0

    def remove(self) -> None:
        """Takes the hooks away. Doing so again does nothing."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def _count_forward(self, *_: Any) -> None:
        self._forward_count += 1

    def _hook(self, op: str) -> Callable[..., Any]:
        def replace(
            _: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any:
            try:
                call = self._begin(op)
                given = tuple(
                    self._replaced(each, op, call, str(index))
                    for index, each in enumerate(args)
                )
                named = {
                    name: self._replaced(each, op, call, name)
                    for name, each in kwargs.items()
                }
            except Exception as error:  # noqa: BLE001 - never the model's problem
                self._tell(op, "", error)
                return None
            return given, named

        return replace

    def _begin(self, op: str) -> int:
        """Returns which call of a token begins."""
        if self._client is not None:
            token = self._client.token
        else:
            token = self._forward_count - 1
        with self._lock:
            if token != self._token:
                self._fetch(token)
            number = self._counts.get(op, 0)
            self._counts[op] = number + 1
        return number

    def _fetch(self, token: int) -> None:
        """Finds out what the run has of a token."""
        from msitd import query

        self._token = token
        self._counts.clear()
        found = self._connection.tensors.list(
            self._run, query.select(io="input", tokens=token, ranks=0)
        )
        self._recorded = {(each.op, each.call, each.index): each for each in found}

    def _replaced(self, value: Any, op: str, call: int, index: str) -> Any:
        """Returns an argument with all tensors in it replaced that the run has."""
        if isinstance(value, self._tensor_type):
            return self._replaced_tensor(value, op, call, index)
        if type(value) in (tuple, list):
            return type(value)(
                self._replaced(each, op, call, f"{index}.{place}")
                for place, each in enumerate(value)
            )
        if type(value) is dict:
            return {
                key: self._replaced(each, op, call, f"{index}.{key}")
                for key, each in value.items()
            }
        return value

    def _replaced_tensor(self, value: Any, op: str, call: int, index: str) -> Any:
        recorded = self._recorded.get((op, call, index))
        if recorded is None:
            self._tell(op, index, f"{self._run} has no such input at {self._token}")
            return value
        try:
            # Reading is no part of the model.
            with self._no_grad():
                tensor = self._connection.tensors.read_torch(recorded)
            result = replacement(value, tensor, self._keeps_gradients)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._tell(op, index, error)
            return value
        self.replaced_count += 1
        return result

    def _tell(self, op: str, index: str, reason: object) -> None:
        self.kept_count += 1
        self._told_count += 1
        if self._told_count <= _TOLD_MAX:
            _logger.warning("%s %s is not replaced: %s", op, index, reason)
