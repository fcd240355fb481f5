"""Records the tensors and values of one side of a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from msitd._core import objects, parts, values
from msitd._core.vocabulary import KIND_NUMBERS

if TYPE_CHECKING:
    from msitd._core.gradients import Inputs
    from msitd._core.identities import Identities
    from msitd._core.recorder import Client
    from msitd._core.skips import Skips

# Values recorded of one side of one call. A list of a million numbers is no argument
# that anybody looks at.
_VALUES_MAX = 256


class Call(NamedTuple):
    """A call that has begun."""

    op: str
    token: int
    # -1 if the call is not recorded.
    number: int
    # Where it comes from, if that is recorded.
    stack: str | None
    # What its backward needs, if that is recorded.
    inputs: Inputs | None = None
    # Whether a checkpoint runs it again.
    is_again: bool = False


class LeafRecorder:
    """Records leaves, and counts those that cannot be. Any thread may use it.

    A tensor that does not lie in one piece of memory is recorded in parts. In
    place of one that has no bytes, a value says so.
    """

    def __init__(
        self, client: Client, skips: Skips, *, values: bool, objects: bool
    ) -> None:
        # A caller with a tensor has torch.
        import torch

        self._tensor_type = torch.Tensor
        self._client = client
        self._skips = skips
        self._values = values
        self._objects = objects

    def record(
        self,
        leaves: Iterable[tuple[str, Any]],
        io: str,
        call: Call,
        identities: Identities | None,
    ) -> None:
        """Records all of `leaves`, which are named by their index. Raises nothing."""
        record = self._client.record
        tensor_type = self._tensor_type
        op, token, number, stack, *_ = call
        value_count = 0
        for index, leaf in self._all_of(leaves, call):
            try:
                if isinstance(leaf, tensor_type):
                    record(
                        leaf,
                        op=op,
                        io=io,
                        index=index,
                        token=token,
                        call=number,
                        stack=stack,
                        identity=0 if identities is None else identities.of(leaf),
                    )
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

    def _all_of(
        self, leaves: Iterable[tuple[str, Any]], call: Call
    ) -> Iterator[tuple[str, Any]]:
        """Returns the leaves up to where a structure of the caller raises."""
        try:
            yield from leaves
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skips.count(call.op, "", str(error) or type(error).__name__)

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
        """Records the parts of a tensor that is not one piece of memory."""
        try:
            pieces = (
                parts.parts_of(leaf) if isinstance(leaf, self._tensor_type) else None
            )
            if pieces is not None:
                with parts.outside_of_transforms():
                    for name, part in pieces:
                        part_index = f"{index}.{name}" if name else index
                        self._record_part(part, io, part_index, call)
                return
        except Exception as problem:  # noqa: BLE001 - never the model's problem
            error = problem
        self._count(leaf, io, index, call, error)

    def _record_part(self, part: Any, io: str, index: str, call: Call) -> None:
        record: Any = self._client.record_value
        if isinstance(part, self._tensor_type):
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
        reason = str(error) or type(error).__name__
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
    """Returns class, dtype and shape."""
    kind = type(tensor)
    text = f"{kind.__module__}.{kind.__qualname__} {str(tensor.dtype).removeprefix('torch.')}"
    try:
        return f"{text} {tuple(tensor.shape)}"
    except RuntimeError:
        # Some nested tensors have none.
        return text
