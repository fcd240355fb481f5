"""Finds the modules of a model that are siblings: repeated blocks of one structure.

Siblings are modules whose ops differ in one number only, such as `root.layers.0` and
`root.layers.1`. They are compared with each other if they have the same structure
according to the module tree of the run: the same classes, and the same declared types,
such as `layer_type`. Blocks of another structure are legitimate, so they are only
named themselves.
"""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from msitd.verify.calls import Call
    from msitd.verify.modules import Module

# Fewer siblings cannot outvote one of them.
SIBLINGS_MIN = 3
# At most this part of the siblings can be unlike the others, if it is several.
_MINORITY = 4
# Maximum number of patterns of an op, and of parts of a block that are compared.
_PATTERNS_MAX = 4
_PARTS_MAX = 10_000
_NUMBER = re.compile(r"[0-9]{1,9}\Z", re.ASCII)
# Attributes that declare the type of a block.
_TYPES = frozenset(
    (
        "attention_type",
        "attn_type",
        "block_type",
        "has_relative_attention_bias",
        "is_cross_attention",
        "is_local",
        "is_moe",
        "is_sliding",
        "is_sparse",
        "layer_type",
        "sliding_window",
        "use_sliding_window",
    )
)


class Odd(NamedTuple):
    """The siblings that differ from the others."""

    # Keys of the siblings, and the value of the others.
    keys: list[int]
    common: Hashable
    common_count: int


def odd_ones(values: Mapping[int, Hashable]) -> Odd | None:
    """Returns the siblings whose value is not that of the others.

    Args:
        values: The values by the position of each sibling among all of them.

    Returns:
        None if all are equal, or if too many differ to be a mistake.
    """
    count = len(values)
    if count < SIBLINGS_MIN:
        return None
    counts = collections.Counter(values.values())
    common, common_count = counts.most_common(1)[0]
    others = count - common_count
    if not others or common_count < 2:
        return None
    if others > 1 and others * _MINORITY > count:
        return None
    keys = sorted(key for key, value in values.items() if value != common)
    if _is_periodic(keys, max(values) + 1):
        return None
    return Odd(keys, common, common_count)


def _is_periodic(keys: Sequence[int], count: int) -> bool:
    """Returns whether positions are those of a pattern such as `each sixth`."""
    if len(keys) < 2:
        return False
    step = keys[1] - keys[0]
    return (
        step > 1
        and all(b - a == step for a, b in itertools.pairwise(keys))
        and keys[0] < step
        and count - keys[-1] <= step
    )


def patterns_of(op: str, ops: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    """Yields the patterns of a module and its number in each of them.

    The last part of the op is a number, or an earlier one is and no module between
    has records, as in lists of lists: `root.layers.3.0` is number 0 of
    `root.layers.3.*`, and number 3 of `root.layers.*.0`.
    """
    parts = op.split(".")
    for at in range(len(parts) - 1, 0, -1):
        if at < len(parts) - 1 and ".".join(parts[: at + 1]) in ops:
            return
        if _NUMBER.match(parts[at]):
            yield ".".join((*parts[:at], "*", *parts[at + 1 :])), int(parts[at])


class Group(NamedTuple):
    """Siblings, of which each is called once."""

    pattern: str
    # Their calls by number, ascending.
    calls: dict[int, Call]


def groups_of(calls: Iterable[Call]) -> list[Group]:
    """Returns all groups of at least SIBLINGS_MIN siblings."""
    modules = [call for call in calls if call.is_module]
    ops = dict.fromkeys(call.op for call in modules)
    found: dict[tuple[str, int], dict[int, Call]] = {}
    seen: dict[str, int] = {}
    for call in modules:
        again = seen[call.op] = seen.get(call.op, -1) + 1
        for pattern, number in islice(patterns_of(call.op, ops), _PATTERNS_MAX):
            found.setdefault((pattern, again), {})[number] = call
    return [
        Group(pattern, dict(sorted(group.items())))
        for (pattern, _), group in found.items()
        if len(group) >= SIBLINGS_MIN
    ]


# The class of a module, and its declared types.
Kind = tuple[str, tuple[tuple[str, str], ...]]


class Structure(NamedTuple):
    """The structure of a block."""

    # The parts, by their name within the block.
    kinds: tuple[tuple[str, Kind], ...]
    # Shapes of parameters.
    sizes: int


class Tree:
    """The modules of a rank, by op."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self.modules = modules
        self._parts: dict[str, list[str]] = {}
        for op in modules:
            self._parts.setdefault(op.rpartition(".")[0], []).append(op)
        self._known: dict[str, Structure] = {}

    def get(self, op: str) -> Module | None:
        """Returns a module, or None if the run does not describe it."""
        return self.modules.get(op)

    def structure_of(self, op: str) -> Structure:
        """Returns the structure of a block; that without parts if it is not known."""
        found = self._known.get(op)
        if found is None:
            kinds: list[tuple[str, Kind]] = []
            sizes = []
            for part in self.parts_of(op):
                module = self.modules[part]
                name = part[len(op) + 1 :]
                types = sorted(
                    (key, str(value))
                    for key, value in module.attributes.items()
                    if key in _TYPES
                )
                kinds.append((name, (module.kind, tuple(types))))
                sizes.append((name, tuple(sorted(module.shapes.items()))))
            found = self._known[op] = Structure(tuple(kinds), hash(tuple(sizes)))
        return found

    def parts_of(self, op: str) -> Iterator[str]:
        """Yields an op and the modules below it, as far as the run describes them."""
        waiting = [op] if op in self.modules else []
        count = 0
        while waiting and count < _PARTS_MAX:
            part = waiting.pop()
            yield part
            count += 1
            waiting += reversed(self._parts.get(part, ()))


# Calls by the position of the sibling among all of its group.
Siblings = dict[int, "Call"]


def of_one_structure(roots: Siblings, tree: Tree) -> list[Siblings]:
    """Returns the siblings of each structure that enough of them have."""
    found: dict[Hashable, Siblings] = {}
    for at, call in roots.items():
        found.setdefault(tree.structure_of(call.op).kinds, {})[at] = call
    return [each for each in found.values() if len(each) >= SIBLINGS_MIN]
