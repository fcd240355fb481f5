"""Records the tensors and values of one side of a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from msitd import _msit
from msitd._core.leaf import memory, objects, parts, values
from msitd._core.leaf.forms import PLAIN_FORM, Form
from msitd._core.leaf.walk import TOO_DEEP, walk, walk_arguments
from msitd._core.not_recorded import reason_of
from msitd._core.vocabulary import IO_NUMBERS, KIND_NUMBERS

if TYPE_CHECKING:
    from msitd._core.call import Call
    from msitd._core.client import Client
    from msitd._core.listening import CallListener
    from msitd._core.skips import Skips
    from msitd._msit import Identities

# Maximum number of values recorded for one side of a call. An argument with a
# million numbers is of no use in a comparison.
_VALUES_MAX = 256

SAME_INDEX = "parts of a call that have the same index as another part"
_TOO_DEEP = "structures that are nested more than 16 deep"
_USED_UP = "what a generator or an iterator yields: recording would use it up"


class Placements(Protocol):
    """Provides how tensors are placed on the ranks of a job."""

    def __call__(self, op: str, io: str, index: str, tensor: Any, /) -> str | None:
        """Returns a placement in the format of `Client.record`; None if there
        is none.
        """


class Side(Protocol):
    """Records either the inputs or the outputs of modules.

    `call` identifies the call. If the capture policy selects nothing on that
    side of the op, nothing is recorded. Any thread may use it.
    """

    def record_arguments(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        call: Call,
        identities: Identities | None,
    ) -> None:
        """Records the arguments of a call, tensors and values."""

    def record_result(
        self, result: Any, call: Call, identities: Identities | None
    ) -> None:
        """Records the result of a call."""


class LeafRecorder:
    """Records leaves, and counts those that cannot be recorded. Any thread may use it.

    A tensor that does not lie in one piece of memory is recorded in parts. For
    a tensor without bytes, a value is recorded that states this.
    """

    def __init__(
        self,
        client: Client,
        skips: Skips,
        *,
        values: bool,
        objects: bool,
        listener: CallListener | None = None,
        placements: Placements | None = None,
        form: Form = PLAIN_FORM,
    ) -> None:
        # torch is installed, since there is a tensor.
        import torch

        self._tensor_type = torch.Tensor
        self._client = client
        self._recording = client._recording
        self._skips = skips
        self._values = values
        self._objects = objects
        self._listener = listener
        self._placements = placements
        self.form = form

    @property
    def is_native(self) -> bool:
        """Whether native code may record leaves: Python decides about none of them."""
        return (
            self._listener is None
            and self._placements is None
            and self.form is PLAIN_FORM
        )

    def begin_call(self, op: str, token: int) -> int:
        """Returns the number of a call; -1 if it cannot have one, which is counted."""
        try:
            code, number = self._client._native.begin_call(token, op)
            return self._client.begin_call(op, token) if code else number
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skips.count(op, "", reason_of(error))
            return -1

    def side(self, io: str) -> Side:
        """Returns the recorder for the arguments or for the results of calls."""
        reader = memory.torch_reader()
        if reader is None or not self.is_native:
            return _Side(self, self._client, io)
        number = IO_NUMBERS[io]
        native = self._client._native
        return _msit.SideRecorder(native, reader, io, number, self._values, self)

    def record(
        self,
        leaves: Iterable[tuple[str, Any]],
        io: str,
        call: Call,
        identities: Identities | None,
        value_count: int = 0,
    ) -> int:
        """Records all of `leaves`, which are named by their index. Raises nothing.

        Args:
            value_count: Number of values that this side of the call already
                has.

        Returns:
            The new number of values.
        """
        with self._recording:
            return self._record(leaves, io, call, identities, value_count)

    def _record(
        self,
        leaves: Iterable[tuple[str, Any]],
        io: str,
        call: Call,
        identities: Identities | None,
        value_count: int,
    ) -> int:
        record = self._client.record
        tensor_type = self._tensor_type
        listener = self._listener
        if listener is not None and not listener.accepts(call, io):
            return value_count
        op, token, number, stack, *_ = call
        placements = self._placements
        seen: set[str] = set()
        for index, leaf in self._all_of(leaves, call):
            if index in seen:
                self._skips.count(op, index, SAME_INDEX)
                continue
            seen.add(index)
            try:
                if isinstance(leaf, tensor_type):
                    if listener is not None:
                        leaf = listener.cut(leaf)
                    record(
                        leaf,
                        op=op,
                        io=io,
                        index=index,
                        token=token,
                        call=number,
                        stack=stack,
                        identity=0 if identities is None else identities.of(leaf),
                        placement=(
                            None
                            if placements is None
                            else placements(op, io, index, leaf)
                        ),
                    )
                    continue
                if values.is_array(leaf):
                    self._record_part(leaf, io, index, call)
                    continue
                if not values.is_plain(leaf):
                    self._look_into(leaf, io, index, call)
                if not self._values:
                    continue
                value_count += 1
                if value_count <= _VALUES_MAX:
                    self._record_value(leaf, io, index, call)
                elif value_count == _VALUES_MAX + 1:
                    reason = f"a call has more than {_VALUES_MAX} values"
                    self._skips.count(op, index, reason)
            except Exception as error:  # noqa: BLE001 - never the model's problem
                self._record_otherwise(leaf, io, index, call, error)
        return value_count

    def record_other(
        self,
        value: Any,
        path: str,
        depth: int,
        io: str,
        call: Call,
        identities: Identities | None,
        value_count: int,
    ) -> int:
        """Records a leaf that is not simple enough for `_msit.SideRecorder`.

        Args:
            value: A tensor, a value, or a structure.
            path: Its index, or "" for a whole result.
            depth: Number of structures around it.

        Returns:
            See `record`.
        """
        leaves = walk(value, path, depth, self._tensor_type)
        return self.record(leaves, io, call, identities, value_count)

    def record_arguments(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        io: str,
        call: Call,
        identities: Identities | None,
    ) -> None:
        """Records arguments for which `_msit.SideRecorder` finds that indexes
        may repeat.
        """
        leaves = walk_arguments(args, kwargs, self._tensor_type, True)
        self.record(leaves, io, call, identities)

    def note_failure(
        self, leaf: Any, index: str, io: str, call: Call, problem: Exception | int
    ) -> None:
        """Counts a leaf that was not recorded, with an exception or a code."""
        try:
            if not isinstance(problem, Exception):
                self._client._is_recorded(problem)
                return
        except Exception as error:  # noqa: BLE001 - never the model's problem
            problem = error
        self._record_otherwise(leaf, io, index, call, problem)

    def _all_of(
        self, leaves: Iterable[tuple[str, Any]], call: Call
    ) -> Iterator[tuple[str, Any]]:
        """Yields the leaves up to the point where a structure of the caller raises."""
        try:
            yield from leaves
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skips.count(call.op, "", reason_of(error))

    def _record_value(self, value: Any, io: str, index: str, call: Call) -> None:
        self._client.record_value(
            value,
            op=call.op,
            io=io,
            index=index,
            token=call.token,
            call=call.number,
            stack=call.stack,
        )

    def _look_into(self, value: Any, io: str, index: str, call: Call) -> None:
        if isinstance(value, values.Described):
            if value.lack:
                self._skips.count(call.op, index, value.lack)
            return
        if value is TOO_DEEP:
            self._skips.count(call.op, index, _TOO_DEEP)
            return
        if objects.is_used_up(value):
            self._skips.count(call.op, index, _USED_UP)
            return
        if not objects.holds_tensors(value, self._tensor_type):
            return
        if not self._objects:
            kind = type(value)
            reason = (
                f"tensors in an object of class {kind.__module__}.{kind.__qualname__}"
            )
            self._skips.count(call.op, index, reason)
            return
        for name, tensor in objects.tensors_in(value, self._tensor_type):
            self.record([(f"{index}.{name}", tensor)], io, call, None)

    def _record_otherwise(
        self, leaf: Any, io: str, index: str, call: Call, error: Exception
    ) -> None:
        """Records the parts of a tensor that does not lie in one piece of memory."""
        try:
            pieces = (
                parts.parts_of(leaf) if isinstance(leaf, self._tensor_type) else None
            )
            if pieces is not None:
                with parts.outside_of_transforms():
                    for name, part in pieces:
                        part_index = ".".join(filter(None, (index, name)))
                        self._record_part(part, io, part_index, call)
                return
        except Exception as problem:  # noqa: BLE001 - never the model's problem
            error = problem
        self._count(leaf, io, index, call, error)

    def _record_part(self, part: Any, io: str, index: str, call: Call) -> None:
        record: Any = self._client.record_value
        if isinstance(part, self._tensor_type) or values.is_array(part):
            record = self._client.record
        try:
            record(
                part,
                op=call.op,
                io=io,
                index=index,
                token=call.token,
                call=call.number,
                stack=call.stack,
            )
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._count(part, io, index, call, error)

    def _count(
        self, leaf: Any, io: str, index: str, call: Call, error: Exception
    ) -> None:
        reason = reason_of(error)
        self._skips.count(call.op, index, reason)
        if not self._values or not isinstance(leaf, self._tensor_type):
            return
        text = f"<{_name_of(leaf)}: not recorded, since {reason}>"
        place = values.Described(values.Value(KIND_NUMBERS["other"], None, text))
        try:
            self._client.record_value(
                place,
                op=call.op,
                io=io,
                index=index,
                token=call.token,
                call=call.number,
            )
        except Exception:  # noqa: BLE001 - it is counted already
            return


def _name_of(tensor: Any) -> str:
    """Returns the class, dtype and shape of a tensor."""
    kind = type(tensor)
    text = f"{kind.__module__}.{kind.__qualname__} {str(tensor.dtype).removeprefix('torch.')}"
    try:
        return f"{text} {tuple(tensor.shape)}"
    except RuntimeError:
        # Some nested tensors have no shape.
        return text


class _Side:
    """A side whose leaves Python records, for example because torch does not expose
    tensors to native code.
    """

    def __init__(self, leaves: LeafRecorder, client: Client, io: str) -> None:
        self._leaves = leaves
        self._client = client
        self._io = io

    def record_arguments(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        call: Call,
        identities: Identities | None,
    ) -> None:
        if self._is_asked_for(call):
            leaves = self._leaves.form.arguments(args, kwargs)
            self._leaves.record(leaves, self._io, call, identities)

    def record_result(
        self, result: Any, call: Call, identities: Identities | None
    ) -> None:
        if self._is_asked_for(call):
            leaves = self._leaves.form.result(result)
            self._leaves.record(leaves, self._io, call, identities)

    def _is_asked_for(self, call: Call) -> bool:
        return call.number >= 0 and self._client.selects(call.op, self._io, call.token)
