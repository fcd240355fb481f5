"""The calls of one rank and token as a tree: which module called what, in which order.

Only the facts that siblings are compared by are kept, about 600 bytes for each record,
because all records of a token are held at once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msitd.verify import table

if TYPE_CHECKING:
    from msitd.query import Summary, Tensor

# Maximum length of a value.
_VALUE_MAX = 200
# Number of different values that are kept for later records.
_MAKERS_MAX = 8
_VALUES_MAX = 10_000
# Tensors with fewer elements may be equal by coincidence.
_ELEMENTS_MIN = 4
_INTEGERS_MIN = 8
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,16}")

# Functions after which shapes and calls depend on the data: routers and searches.
_DATA_DEPENDENT = frozenset(
    (
        "argmax",
        "argsort",
        "argwhere",
        "bincount",
        "histc",
        "kthvalue",
        "masked_select",
        "msort",
        "multinomial",
        "nonzero",
        "one_hot",
        "sort",
        "topk",
        "unique",
        "unique_consecutive",
    )
)


class Leaf(NamedTuple):
    """An argument or a result of a call, or an element of one."""

    # Empty for a tensor.
    value: str
    dtype: str
    shape: tuple[int, ...]
    # Empty if it says nothing: unknown, or with a NaN.
    hash: str
    # Whether equal bytes are not a coincidence: there are enough of them, and they
    # are not all the same.
    is_telling: bool
    # Whether all of several elements are the same; None if unknown.
    is_constant: bool | None

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return bool(self.dtype)


class Call:
    """A call of a module or of a function."""

    __slots__ = (
        "begin",
        "call",
        "end",
        "inputs",
        "is_module",
        "made_by",
        "op",
        "ordinal",
        "outputs",
        "parent",
        "parts",
        "sources",
    )

    def __init__(self, op: str, call: int, is_module: bool) -> None:
        self.op = op
        self.call = call
        self.is_module = is_module
        # Positions of the first input and of the last result; -1 without them.
        self.begin = -1
        self.end = -1
        self.inputs: dict[str, Leaf] = {}
        self.outputs: dict[str, Leaf] = {}
        # The innermost module that made the call.
        self.parent: Call | None = None
        # The calls that a module made itself, in the order of execution.
        self.parts: list[Call] = []
        # Number of earlier calls of the op that the parent made.
        self.ordinal = 0
        # The makers of the bytes of an input, and of a result of a module.
        self.sources: dict[str, Makers] = {}
        self.made_by: dict[str, Makers] = {}

    @property
    def is_complete(self) -> bool:
        """Whether the end of the call is known."""
        return self.end > self.begin

    @property
    def is_data_dependent(self) -> bool:
        """Whether later shapes and calls may depend on the data."""
        if self.is_module:
            return False
        name = table.plain_name(self.op.rpartition(".")[2])
        return name in _DATA_DEPENDENT or (name == "where" and len(self.inputs) == 1)


# Calls with the index of their result, the latest first, that have the same bytes: a
# function may return its argument.
Makers = tuple[tuple[Call, str], ...]


class _Values:
    """The leaves of values, of which few are different."""

    def __init__(self) -> None:
        self._known: dict[str, Leaf] = {}

    def get(self, record: Tensor) -> Leaf:
        """Returns the facts about a value."""
        text = record.value[:_VALUE_MAX] if record.kind != "none" else "None"
        found = self._known.get(text)
        if found is None:
            value = _ADDRESS.sub("0x", text) or "''"
            found = Leaf(value, "", (), "", False, None)
            if len(self._known) < _VALUES_MAX:
                self._known[text] = found
        return found


def _tensor_leaf(record: Tensor) -> Leaf:
    count = 1
    for size in record.shape:
        count *= size
    is_constant, is_telling = _content_of(record.summary, record.dtype, count)
    known = record.hash if is_telling is not None else ""
    return Leaf(
        "",
        sys.intern(record.dtype),
        record.shape,
        known,
        bool(known and is_telling),
        is_constant if count >= _INTEGERS_MIN else None,
    )


def _content_of(
    summary: Summary | None, dtype: str, count: int
) -> tuple[bool | None, bool | None]:
    """Returns whether all elements are the same, and whether equal bytes of two such
    tensors are not a coincidence. None if this is not known, or if one is a NaN.
    """
    if summary is None or summary.min is None or summary.max is None:
        return None, False
    if summary.nan_count:
        return None, None
    if "float" in dtype or "complex" in dtype:
        is_telling = count >= _ELEMENTS_MIN and summary.min != summary.max
    else:
        # Few different integers, such as the numbers of experts, are often equal.
        is_telling = count >= _INTEGERS_MIN and summary.max - summary.min >= count - 1
    return summary.min == summary.max, is_telling


def calls_of(records: Iterable[Tensor], modules: Mapping[str, Any]) -> list[Call]:
    """Returns the calls of a rank and token in the order of execution.

    Args:
        records: The inputs and outputs, in any order.
        modules: The ops that are modules. Others are if their name says so.
    """
    found: dict[tuple[str, int], Call] = {}
    values = _Values()
    for record in records:
        is_tensor = record.kind == "tensor"
        leaf = _tensor_leaf(record) if is_tensor else values.get(record)
        key = (record.op, record.call)
        call = found.get(key)
        if call is None:
            op = sys.intern(record.op)
            is_module = op in modules or not table.is_function(op)
            call = found[key] = Call(op, record.call, is_module)
        at = record.sequence
        if record.io == "input":
            call.begin = at if call.begin < 0 else min(call.begin, at)
            call.inputs[sys.intern(record.index)] = leaf
        else:
            call.end = max(call.end, at)
            call.outputs[sys.intern(record.index)] = leaf
    for call in found.values():
        if call.begin < 0:
            call.begin = call.end
    ordered = sorted(found.values(), key=lambda each: (each.begin, -each.end))
    _nest(ordered)
    _trace(ordered)
    return ordered


def _nest(ordered: list[Call]) -> None:
    """Finds the module that made each call."""
    running: list[tuple[Call, dict[str, int]]] = []
    for call in ordered:
        while running and running[-1][0].end < call.begin:
            running.pop()
        if running:
            call.parent, counts = running[-1]
            call.parent.parts.append(call)
            call.ordinal = counts.get(call.op, 0)
            counts[call.op] = call.ordinal + 1
        if call.is_module and call.is_complete:
            running.append((call, {}))


def _trace(ordered: list[Call]) -> None:
    """Finds the latest results that have the bytes of each input."""
    made: dict[str, Makers] = {}
    # Results become known at the end of a call.
    ends = sorted((call for call in ordered if call.outputs), key=lambda each: each.end)
    position = 0
    for call in ordered:
        while position < len(ends) and ends[position].end < call.begin:
            _add_results(made, ends[position])
            position += 1
        call.sources = _makers(made, call.inputs)
    for call in ends[position:]:
        _add_results(made, call)


def _add_results(made: dict[str, Makers], call: Call) -> None:
    if call.is_module:
        call.made_by = _makers(made, call.outputs)
    for index, leaf in call.outputs.items():
        if leaf.is_telling:
            earlier = made.get(leaf.hash, ())[: _MAKERS_MAX - 1]
            made[leaf.hash] = ((call, index), *earlier)


def _makers(
    made: Mapping[str, Makers], leaves: Mapping[str, Leaf]
) -> dict[str, Makers]:
    return {
        index: made[leaf.hash]
        for index, leaf in leaves.items()
        if leaf.is_telling and leaf.hash in made
    }
