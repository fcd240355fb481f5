"""The public interface for recording torch functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msitd._core.api import in_graphs, modes
from msitd._core.api.calls import ApiCalls
from msitd._core.api.collectives import Collectives
from msitd._core.api.options import ApiOptions
from msitd._core.api.targets import GROUPS, Target, targets
from msitd._core.api.wrapper import Installation, Wrapped
from msitd._core.graph import compiled
from msitd._core.leaf.forms import PLAIN_FORM, Form
from msitd._core.listening import safe_listener
from msitd._core.not_recorded import DOCUMENT_NAME, reason_of
from msitd._core.patterns import compile_patterns
from msitd._core.removable import Removable
from msitd._core.skips import Skips
from msitd._core.torch_version import require_torch

if TYPE_CHECKING:
    from msitd._core.client import Client
    from msitd._core.listening import CallListener


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
    """Records inputs and outputs of every call of a torch function.

    The op has the name that msprobe uses: `Functional.linear`, `Torch.matmul`,
    `Tensor.add_`, `VF.lstm`, `Aten.relu`, `Distributed.all_reduce`,
    `NPU.npu_rms_norm`, depending on where the caller found the function. Calls
    are counted from 0 in every token; see `Client.next_token`. Indexes are
    those of `register_hook`. A function that another function calls is part of
    that call, and not recorded separately.

    Inputs are copied before the call and outputs after it, so that both states
    of a tensor that is changed in place, or passed as `out=`, are recorded. If
    the result is None, as for `Tensor.__setitem__`, the arguments are the
    output.

    For `torch.distributed`, the output consists of all arguments when the call
    is complete. With `async_op=True`, and for `isend` and `irecv`, that is when
    its Work has been waited for. A call that is never waited for is counted in
    `ApiHandle.skipped`, and a value is recorded that states this. Buffers that
    are only written to are not inputs.

    While functions are recorded, stand-ins replace them in the module torch.
    They are equal to the functions, but not identical, and TorchScript does not
    compile them. In graphs of `torch.compile`, the functions that Dynamo puts
    there are recorded without graph breaks. Exceptions are gradients, functions
    of `torch.distributed`, and functions in bodies of operators and in
    `torch.func`: these are counted when a graph is traced. If a function has
    two places, a graph does not show in which one the caller found it.

    Args:
        client: The client that records. It must stay open until `remove`.
        groups: Functions to record: `torch`, `functional`, `tensor`, `vf`,
            `aten` (those of `torch.ops`, with `imported`), `distributed`, and
            `npu`, those of torch_npu if it is imported.
        imported: Whether to record functions that were imported earlier, as by
            `from torch import relu`, and those of `torch.ops`. Only this thread
            is covered. torch then skips its fast paths, such as that of
            `nn.TransformerEncoder`, so results may differ in some bits.
        operators: Whether to record every operator that torch runs in this
            thread and that no recorded function calls, including those of the
            backward.
        nested: Whether to record also functions and operators that recorded
            functions call.
        gradients: Whether to record the gradients of results (`grad_output`)
            and of arguments (`grad_input`) of each call, as `register_hook`
            does.
        inputs: Whether to record arguments.
        outputs: Whether to record results.
        values: See `register_hook`, as for all other arguments except
            `name_of`.
        name_of: Called with the op of each call that begins, in its thread.
            Returns the op to record instead, or None to record nothing.
            `op_pattern` is matched with the op that it receives.

    Returns:
        A handle that is also a context manager. `remove()`, or leaving the
        context, restores all functions.

    Raises:
        RuntimeError: Functions are already being recorded, or this torch is too
            old.
        ValueError: An argument is out of its range.
    """
    return ApiHandle(
        client,
        ApiOptions(
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
        ),
    )


class ApiHandle(Removable):
    """The functions of one call of `register_api`. Any thread may call them.

    Args:
        listener: Receives the calls and chooses which of them are recorded.
        functions: The functions of the groups to record. Default: all.
        form: Names the leaves of calls.
    """

    def __init__(
        self,
        client: Client,
        options: ApiOptions,
        *,
        listener: CallListener | None = None,
        functions: Sequence[Target] | None = None,
        form: Form = PLAIN_FORM,
    ) -> None:
        require_torch()
        found = targets(options.groups) if functions is None else list(functions)
        compiled.make_package_opaque()
        compiled.fill_tables()
        compiled.show_as(Wrapped, lambda wrapped: wrapped._msitd_target.original)
        self._client = client
        self._options = options
        self._skips = Skips(client)
        self._collectives = Collectives()
        self._matches = compile_patterns(options.op_pattern)
        self._is_tracing = compiled.tracing_test(is_possible=True)
        self._modes: list[Any] = []
        self._notes: in_graphs.Notes | None = None
        self._calls = calls = ApiCalls(
            client,
            self._skips,
            self._collectives,
            options,
            self._matches,
            safe_listener(listener, self._skips),
            form,
        )
        needed = self._needed_of(found)
        client._at_close(calls.stop)
        self._installation: Installation | None = Installation(
            needed, calls, self._is_tracing
        )
        try:
            self._install(found, has_needed=bool(needed))
            # Existing graphs do not contain the stand-ins.
            compiled.forget_graphs()
        except BaseException:
            self.remove()
            raise

    @property
    def _has_aten(self) -> bool:
        """Whether functions of torch.ops are recorded."""
        return self._options.imported and "aten" in self._options.groups

    def _needed_of(self, found: Sequence[Target]) -> list[Target]:
        """Returns the functions to replace: none if no op is recorded."""
        is_any_recorded = (
            self._options.operators
            or self._has_aten
            or any(self._matches(target.op) for target in found)
        )
        if not is_any_recorded:
            return []
        return [target for target in found if self._calls.may_be_needed(target)]

    def _install(self, found: Sequence[Target], has_needed: bool) -> None:
        """Starts what records calls in addition to the stand-ins.

        Args:
            found: The functions of the groups.
            has_needed: Whether stand-ins have replaced any of them.
        """
        options, calls = self._options, self._calls
        if has_needed and "distributed" in options.groups:
            self._collectives.install()
        if options.operators:
            self._enter(modes.dispatch_mode(calls))
        if has_needed and in_graphs.are_possible():
            calls.counts_graphs = False
            self._notes = in_graphs.Notes(
                calls,
                found,
                wants=self._matches,
                inputs=options.inputs,
                outputs=options.outputs,
                gradients=options.gradients,
            )
            in_graphs.install(self._notes)
        if has_needed and options.imported:
            self._enter(
                modes.function_mode(calls, found, self._has_aten, self._is_tracing)
            )

    @property
    def skipped_count(self) -> int:
        """Number of leaves and calls that could not be recorded."""
        return self._skips.lost_count()

    @property
    def skipped(self) -> dict[str, int]:
        """Number of leaves and calls that were not recorded, by reason."""
        return self._skips.by_reason()

    def pause(self) -> None:
        """Records no call that begins before `resume`.

        Gradients of calls that were recorded earlier are still recorded. Calls
        during the pause are not numbered.
        """
        self._calls.is_paused = True

    def resume(self) -> None:
        """Ends a pause. Has no effect if the client is closed."""
        self._calls.is_paused = self._calls.is_over

    def call(
        self,
        function: Callable[..., Any],
        op: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Calls a function that does not belong to torch, and records the call as `op`.

        Raises:
            Exception: Any exception of the function.
        """
        return self._calls.call(function, op, args, kwargs)

    def remove(self) -> None:
        """Restores all functions. Further calls have no effect.

        Reports to the daemon what was not recorded. With `imported` or
        `operators`, call it in the thread that registered. In another thread it
        stops the recording, but torch still calls the mode in the first thread
        until `remove` is called there, too.
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
