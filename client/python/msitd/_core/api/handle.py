"""What a user gets of the level of functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msitd._core.api import in_graphs, modes
from msitd._core.api.calls import ApiCalls
from msitd._core.api.collectives import Collectives
from msitd._core.api.targets import GROUPS, Target, targets
from msitd._core.api.wrapper import Installation, Wrapped
from msitd._core.graph import compiled
from msitd._core.leaf.leaves import LeafRecorder
from msitd._core.leaf.stacks import STACK_LEVELS
from msitd._core.listening import safe_listener
from msitd._core.not_recorded import DOCUMENT_NAME, reason_of
from msitd._core.patterns import compile_patterns
from msitd._core.removable import Removable
from msitd._core.skips import Skips
from msitd._core.torch_version import require_torch

if TYPE_CHECKING:
    from msitd._core.listening import CallListener
    from msitd._core.recorder import Client


def register_api(
    client: Client,
    *,
    groups: Iterable[str] = GROUPS,
    imported: bool = False,
    operators: bool = False,
    nested: bool = False,
    gradients: bool = False,
    inputs: bool = True,
    outputs: bool = True,
    values: bool = True,
    stack: str = "none",
    aliases: bool = False,
    objects: bool = False,
    op_pattern: str | Iterable[str] | None = None,
    tokens: Collection[int] | None = None,
    name_of: Callable[[str], str | None] | None = None,
) -> ApiHandle:
    """Records inputs and outputs of every call of a function of torch.

    The op is the one of msprobe: `Functional.linear`, `Torch.matmul`,
    `Tensor.add_`, `VF.lstm`, `Aten.relu`, `Distributed.all_reduce`,
    `NPU.npu_rms_norm`, by where the caller found the function. Calls count from
    0 in every token; see `Client.next_token`. Indexes are those of
    `register_hook`. A function that another one calls is part of that, and not
    recorded by itself.

    Inputs are copied before the call and outputs behind it, so of what is
    changed in place, and of `out=`, both are recorded. If the result is None,
    as of `Tensor.__setitem__`, the arguments are the output.

    Of `torch.distributed`, the output is all arguments, when the call is
    complete: of one with `async_op=True`, and of `isend` and `irecv`, when its
    Work is waited for. One that is never waited for is counted in
    `ApiHandle.skipped`, and a value says so. Buffers that are only written to
    are no inputs.

    While functions are recorded, those of the module torch are stand-ins. They
    are equal to the functions, but not identical, and TorchScript does not
    compile them. In graphs of `torch.compile` the functions are recorded that
    Dynamo puts there, and end none of them, but for their gradients, for those
    of `torch.distributed`, and for those in bodies of operators and in
    `torch.func`: these are counted when a graph is made. Where a function has
    two places, a graph does not tell which one it was found in.

    Args:
        client: Where to record. It must stay open until `remove`.
        groups: Which functions: `torch`, `functional`, `tensor`, `vf`, `aten`
            (those of `torch.ops`, if `imported`), `distributed` and `npu`, of
            torch_npu, if it is imported.
        imported: Whether functions are recorded that were imported before, as
            by `from torch import relu`, and those of `torch.ops`. They are in
            this thread alone. Torch then takes no fast paths, as that of
            `nn.TransformerEncoder`, so that results may have other bits.
        operators: Whether every operator is recorded that torch runs in this
            thread and that no recorded function calls, those of the backward
            among them.
        nested: Whether functions and operators that recorded functions call
            are recorded, too.
        gradients: Whether to record the gradients of results (`grad_output`)
            and of arguments (`grad_input`) of each call, as `register_hook`
            does.
        inputs: Whether to record arguments.
        outputs: Whether to record results.
        values: As in `register_hook`, and so for all others, but `name_of`.
        name_of: Is given the op of a call that begins, in its thread, and
            returns the op to record instead, or None to record nothing.
            `op_pattern` is about the op that it is given.

    Returns:
        A handle. Its `remove()` puts all functions back, and so does leaving it
        as a context manager.

    Raises:
        RuntimeError: Functions are recorded already, or this torch is too old.
        ValueError: An argument is out of its range.
    """
    return ApiHandle(
        client,
        groups=groups,
        imported=imported,
        operators=operators,
        nested=nested,
        gradients=gradients,
        inputs=inputs,
        outputs=outputs,
        values=values,
        stack=stack,
        aliases=aliases,
        objects=objects,
        op_pattern=op_pattern,
        tokens=tokens,
        name_of=name_of,
    )


class ApiHandle(Removable):
    """The functions of one `register_api`. Any thread may call them.

    Args:
        listener: Is told of the calls, and chooses among them.
        functions: The functions to record, of `groups`. Default: all.
    """

    def __init__(
        self,
        client: Client,
        *,
        groups: Iterable[str],
        imported: bool,
        operators: bool,
        nested: bool,
        values: bool,
        stack: str,
        objects: bool,
        inputs: bool,
        outputs: bool,
        gradients: bool,
        op_pattern: str | Iterable[str] | None,
        listener: CallListener | None = None,
        functions: Sequence[Target] | None = None,
        **options: Any,
    ) -> None:
        require_torch()
        if stack not in STACK_LEVELS:
            raise ValueError(f"stack {stack!r} is none of {list(STACK_LEVELS)}")
        groups = tuple(groups)
        found = targets(groups) if functions is None else list(functions)
        matches = compile_patterns(op_pattern)
        compiled.make_package_opaque()
        compiled.fill_tables()
        compiled.show_as(Wrapped, lambda wrapped: wrapped._msitd_target.original)
        self._client = client
        self._skips = Skips(client)
        self._collectives = Collectives()
        listener = safe_listener(listener, self._skips)
        leaves = LeafRecorder(
            client, self._skips, values=values, objects=objects, listener=listener
        )
        calls = ApiCalls(
            client,
            self._skips,
            leaves,
            self._collectives,
            matches=matches,
            stack=stack,
            nested=nested,
            operators=operators,
            inputs=inputs,
            outputs=outputs,
            gradients=gradients,
            listener=listener,
            **options,
        )
        has_aten = imported and "aten" in groups
        needed = [target for target in found if calls.may_be_needed(target)]
        if not (operators or has_aten or any(matches(target.op) for target in found)):
            needed = []
        is_tracing = compiled.tracing_test(is_possible=True)
        self._modes: list[Any] = []
        self._notes: in_graphs.Notes | None = None
        self._calls = calls
        client._at_close(calls.stop)
        self._installation: Installation | None = Installation(
            needed, calls, is_tracing
        )
        try:
            if needed and "distributed" in groups:
                self._collectives.install()
            if operators:
                self._enter(modes.dispatch_mode(calls))
            if needed and in_graphs.are_possible():
                calls.counts_graphs = False
                self._notes = in_graphs.Notes(
                    calls,
                    found,
                    wants=matches,
                    inputs=inputs,
                    outputs=outputs,
                    gradients=gradients,
                )
                in_graphs.install(self._notes)
            if needed and imported:
                self._enter(modes.function_mode(calls, found, has_aten, is_tracing))
            # Existing graphs do not know of the stand-ins.
            compiled.forget_graphs()
        except BaseException:
            self.remove()
            raise

    @property
    def skipped_count(self) -> int:
        """Leaves and calls that could not be recorded."""
        return self._skips.lost_count()

    @property
    def skipped(self) -> dict[str, int]:
        """How many leaves and calls were not recorded, by reason."""
        return self._skips.by_reason()

    def pause(self) -> None:
        """Records no call that begins from now on, until `resume`.

        Gradients of calls that were recorded still are. Calls have no numbers
        meanwhile.
        """
        self._calls.is_paused = True

    def resume(self) -> None:
        """Ends a pause. Does nothing if the client is closed."""
        self._calls.is_paused = self._calls.is_over

    def call(
        self,
        function: Callable[..., Any],
        op: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Calls a function that is none of torch, and records that as `op`.

        Raises:
            Exception: What the function raises.
        """
        return self._calls.call(function, op, args, kwargs)

    def remove(self) -> None:
        """Puts all functions back. Doing so again does nothing.

        The daemon is told what was not recorded. With `imported` or `operators`, call it in the thread that
        registered. Called in another one, it stops the records; torch goes on to
        ask us there, until it is called there, too.
        """
        self._modes = [mode for mode in self._modes if not modes.leave(mode)]
        installation, self._installation = self._installation, None
        if installation is None:
            return
        installation.remove()
        in_graphs.uninstall(self._notes)
        self._calls.remove()
        self._collectives.remove()
        compiled.forget_graphs()
        try:
            self._skips.tell(self._client, ())
        except Exception as error:  # noqa: BLE001 - never the program's problem
            self._skips.count(DOCUMENT_NAME, "", reason_of(error))

    def _enter(self, mode: Any) -> None:
        modes.enter(mode)
        self._modes.append(mode)
