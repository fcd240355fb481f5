"""Records what the sub-modules of a torch module get and give."""

from __future__ import annotations

import dataclasses
import functools
import logging
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

    import torch
    from typing_extensions import Self

    from msitd._recorder import Client

_logger = logging.getLogger("msitd")

# Deeper nesting of arguments is not looked into: nothing real has it, and a
# structure that contains itself ends there.
_DEPTH_MAX = 16

ROOT_OP = "root"


def register_hook(
    model: torch.nn.Module,
    client: Client,
    *,
    inputs: bool = True,
    outputs: bool = True,
    weights: bool = False,
    op_pattern: str | Iterable[str] | None = None,
    tokens: Collection[int] | None = None,
) -> HookHandle:
    """Records inputs and outputs of every sub-module of `model`, per forward.

    The op is `root` for the model itself and `root.<dotted name>` for a
    sub-module; a module that has several names is recorded under the first.
    The index is the position of a positional argument or of an element of the
    result, the name of a keyword argument or of a key, and a dotted path of
    these where tensors are nested: `0`, `1.0`, `attention_mask`. The only
    tensor of a result is `0`. What is no tensor is skipped.

    Inputs are copied before the module runs and outputs when it returns, so
    that later changes in place do not alter the record. The client's token
    advances after each forward of `model`, whether it returned or raised. A
    problem with one tensor is logged once and counted; it never reaches the
    model.

    A call that the capture policy asks nothing of costs next to nothing, and is
    not counted as a call of its op: a policy that begins in the middle of a
    token numbers calls from there.

    Args:
        model: The module, on any device, of any dtype.
        client: Where to record; it must stay open until the hooks are removed.
        inputs: Whether to record positional and keyword arguments.
        outputs: Whether to record results.
        weights: Whether to record every parameter once, now: io `weight`, the
            op of its module, the parameter's name as index.
        op_pattern: Ops to record: one of these patterns must match the whole
            op. `*` stands for any characters, `?` for one. Default: all.
        tokens: Tokens to record. Default: all.

    Returns:
        A handle; `remove()`, or leaving it as a context manager, takes the
        hooks away.
    """
    return HookHandle(
        model,
        client,
        inputs=inputs,
        outputs=outputs,
        weights=weights,
        op_pattern=op_pattern,
        tokens=tokens,
    )


class HookHandle:
    """The hooks of one `register_hook`. Any thread may run the model."""

    def __init__(
        self,
        model: torch.nn.Module,
        client: Client,
        *,
        inputs: bool,
        outputs: bool,
        weights: bool,
        op_pattern: str | Iterable[str] | None,
        tokens: Collection[int] | None,
    ) -> None:
        # Who has a module has torch; the package itself does not import it.
        import torch

        self._tensor_type = torch.Tensor
        self._client = client
        self._inputs = inputs
        self._outputs = outputs
        self._tokens = tokens
        self._matches = _compile_patterns(op_pattern)
        self._state = _ThreadState()
        self._skipped_count = 0
        self._torch_handles: list[Any] = []
        try:
            if weights:
                self._record_weights(model)
            for name, module in model.named_modules():
                self._hook_module(module, _op_of(name), module is model)
        except BaseException:
            self.remove()
            raise

    @property
    def skipped_count(self) -> int:
        """Tensors that could not be recorded, such as sparse ones."""
        return self._skipped_count

    def remove(self) -> None:
        """Takes the hooks away. Doing so again does nothing."""
        for handle in self._torch_handles:
            handle.remove()
        self._torch_handles.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def _hook_module(self, module: torch.nn.Module, op: str, is_root: bool) -> None:
        is_recorded = self._matches(op)
        if not is_recorded and not is_root:
            return
        before = functools.partial(self._before, op, is_root, is_recorded)
        after = functools.partial(self._after, op, is_root, is_recorded)
        self._torch_handles.append(
            module.register_forward_pre_hook(before, with_kwargs=True)
        )
        self._torch_handles.append(
            module.register_forward_hook(after, with_kwargs=True, always_call=True)
        )

    def _before(
        self,
        op: str,
        is_root: bool,
        is_recorded: bool,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        state = self._state
        if is_root:
            if state.depth == 0:
                state.token = self._client.token
            state.depth += 1
        if not is_recorded:
            return
        token = state.token if state.depth > 0 else self._client.token
        if self._tokens is not None and token not in self._tokens:
            state.calls.append((op, token, -1))
            return
        call = self._begin_call(op, token)
        state.calls.append((op, token, call))
        if self._inputs:
            self._record_all(
                _walk_arguments(args, kwargs, self._tensor_type),
                op,
                "input",
                token,
                call,
            )

    def _after(
        self,
        op: str,
        is_root: bool,
        is_recorded: bool,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
    ) -> None:
        state = self._state
        # The hook is called without a result if the forward raised.
        if is_recorded and state.calls and state.calls[-1][0] == op:
            _, token, call = state.calls.pop()
            if call >= 0 and self._outputs and result is not None:
                self._record_all(
                    _walk_result(result, self._tensor_type), op, "output", token, call
                )
        if is_root and state.depth > 0:
            state.depth -= 1
            if state.depth == 0:
                state.calls.clear()
                self._client.next_token()

    def _begin_call(self, op: str, token: int) -> int:
        """Returns the number of the call; -1 if nothing of it is recorded."""
        try:
            if not self._client.selects(op, None, token):
                return -1
            return self._client.begin_call(op, token)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skip(op, "", error)
            return -1

    def _record_weights(self, model: torch.nn.Module) -> None:
        token = self._client.token
        for name, parameter in model.named_parameters():
            module_name, _, parameter_name = name.rpartition(".")
            op = _op_of(module_name)
            if self._matches(op):
                self._record_all(
                    iter([(parameter_name, parameter)]), op, "weight", token, 0
                )

    def _record_all(
        self,
        tensors: Iterator[tuple[str, torch.Tensor]],
        op: str,
        io: str,
        token: int,
        call: int,
    ) -> None:
        if call < 0 or not self._client.selects(op, io, token):
            return
        record = self._client.record
        for index, tensor in tensors:
            try:
                record(tensor, op=op, io=io, index=index, token=token, call=call)
            except Exception as error:  # noqa: BLE001 - see above
                self._skip(op, index, error)

    def _skip(self, op: str, index: str, error: Exception) -> None:
        if self._skipped_count == 0:
            _logger.warning(
                "%s %s is not recorded: %s (said once; see HookHandle.skipped_count)",
                op,
                index,
                error,
            )
        self._skipped_count += 1


class _ThreadState(threading.local):
    """Where the forward of one thread is."""

    def __init__(self) -> None:
        # Forwards of the model that contain each other, and the token of the
        # outermost.
        self.depth = 0
        self.token = 0
        # Calls that have begun: op, token, number or -1 if not recorded.
        self.calls: list[tuple[str, int, int]] = []


def _op_of(module_name: str) -> str:
    return f"{ROOT_OP}.{module_name}" if module_name else ROOT_OP


def _compile_patterns(patterns: str | Iterable[str] | None) -> Any:
    if patterns is None:
        return lambda op: True
    if isinstance(patterns, str):
        patterns = [patterns]
    wildcards = {"*": ".*", "?": "."}
    regex = "|".join(
        "".join(wildcards.get(c) or re.escape(c) for c in pattern)
        for pattern in patterns
    )
    return re.compile(regex, re.DOTALL).fullmatch


def _walk_arguments(
    args: tuple[Any, ...], kwargs: dict[str, Any], tensor_type: type
) -> Iterator[tuple[str, torch.Tensor]]:
    for position, value in enumerate(args):
        yield from _walk(value, str(position), 0, tensor_type)
    for name, value in kwargs.items():
        yield from _walk(value, name, 0, tensor_type)


def _walk_result(result: Any, tensor_type: type) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(result, tensor_type):
        yield "0", result
    else:
        yield from _walk(result, "", 0, tensor_type)


def _walk(
    value: Any, path: str, depth: int, tensor_type: type
) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, tensor_type):
        yield path, value
        return
    if value is None or isinstance(value, (str, bytes, int, float)):
        return
    if depth >= _DEPTH_MAX:
        return
    children: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping):
        children = value.items()
    elif isinstance(value, (tuple, list)):
        children = enumerate(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        children = (
            (field.name, getattr(value, field.name, None))
            for field in dataclasses.fields(value)
        )
    else:
        return
    for key, child in children:
        child_path = f"{path}.{key}" if path else str(key)
        yield from _walk(child, child_path, depth + 1, tensor_type)
