"""Compares the calls of siblings, and returns how one of them differs from the others.

The siblings of a group are walked together. The arguments of each module, the calls
that it makes, and their arguments are compared. Not compared are values that
legitimately differ: contents of tensors, unless all others are equal, shapes and calls
after a function whose result decides on them, such as the top-k of a router, and sizes
in groups whose parameters have several sizes.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msitd.verify.siblings import (
    SIBLINGS_MIN,
    Group,
    Siblings,
    Tree,
    odd_ones,
    of_one_structure,
)

if TYPE_CHECKING:
    from msitd.verify.calls import Call, Leaf

CALLS, ATTRIBUTES, STRUCTURE, ENDS = range(4)
# Values that are sizes: integers, slices and lists of them.
_SIZE = re.compile(r"(slice\()?[-+0-9, ()\[\]]*\)?\Z|.*\bslice\(")
_PREFIXES = {"shape": "shape ", "source": "bytes of ", "bytes": "hash "}
# Properties of arguments that decide on the calls of a block.
_KINDS = ("given", "dtype")
_EMPTY = frozenset(("()", "[]", "{}"))
NOT_GIVEN = "not given"
# Not equal to any recorded text.
_TENSOR = ("a tensor",)
_MISSING = (NOT_GIVEN,)
_TEXT_MAX = 120


class Unlike(NamedTuple):
    """A difference between a sibling and the others."""

    # CALLS, ATTRIBUTES, STRUCTURE or ENDS: lower ones are listed first.
    severity: int
    # Position in the order of execution; 0 for facts about a module.
    sequence: int
    place: str
    text: str
    # The same for all tokens and ranks.
    key: tuple[Hashable, ...]


class Counts(NamedTuple):
    """Counts of compared and of other calls."""

    groups: int = 0
    calls: int = 0
    # Siblings with fewer than two others of their structure.
    without_siblings: int = 0
    # Calls of siblings that all differ, or as many as agree.
    without_majority: int = 0
    # Calls whose end was not recorded.
    incomplete: int = 0


class Comparer:
    """Compares the groups of siblings of a rank and token."""

    def __init__(
        self, calls: Sequence[Call], tree: Tree, compares_calls: bool = True
    ) -> None:
        """Args:
        calls: All calls, in the order of execution.
        tree: The modules of the rank.
        compares_calls: False if records were lost, so that a call that has none may
            have been made.
        """
        self.tree = tree
        self.compares_calls = compares_calls
        self._depends = [each.begin for each in calls if each.is_data_dependent]
        self._calls = calls
        # By hash: where a tensor occurs for the first time. Made when it is needed.
        self._first: dict[str, int] | None = None
        self.counts = Counts()

    def compare(self, group: Group) -> Iterator[Unlike]:
        """Yields the differences between siblings."""
        roots = dict(enumerate(group.calls.values()))
        found = of_one_structure(roots, self.tree)
        self.count(
            groups=1, without_siblings=len(roots) - sum(len(each) for each in found)
        )
        for mine in found:
            sizes = {self.tree.structure_of(call.op).sizes for call in mine.values()}
            yield from _Walk(self, mine, len(sizes) == 1).run()

    def depends_from(self, call: Call) -> int:
        """Returns where shapes begin to depend on data within a call; -1 if nowhere."""
        at = bisect.bisect_left(self._depends, call.begin)
        if at < len(self._depends) and self._depends[at] <= call.end:
            return self._depends[at]
        return -1

    def is_known_before(self, of: str, begin: int) -> bool:
        """Returns whether a tensor with a hash occurs before a place in the order of
        execution.
        """
        if self._first is None:
            self._first = {}
            for call in self._calls:
                for at, side in ((call.begin, call.inputs), (call.end, call.outputs)):
                    for leaf in side.values():
                        known = self._first.get(leaf.hash, at)
                        self._first[leaf.hash] = min(known, at)
        return self._first.get(of, begin) < begin

    def count(self, **more: int) -> None:
        """Adds to the counts."""
        self.counts = self.counts._replace(
            **{name: getattr(self.counts, name) + n for name, n in more.items()}
        )


class _Walk:
    """Walks the siblings of one group and structure together."""

    def __init__(self, comparer: Comparer, roots: Siblings, same_sizes: bool) -> None:
        self._comparer = comparer
        self._roots = roots
        self._same_sizes = same_sizes
        self._depends = {at: comparer.depends_from(call) for at, call in roots.items()}
        self._given = {at: _first_indexes(call) for at, call in roots.items()}
        # Siblings that are given other arguments: what follows is a consequence.
        self._odd: set[int] = set()
        # Tensors by sibling that were named: they may be passed on.
        self._named: set[tuple[int, str]] = set()

    def run(self) -> Iterator[Unlike]:
        waiting: list[tuple[Siblings, bool]] = [(self._roots, False)]
        while waiting:
            modules, same_shapes = waiting.pop()
            self._comparer.count(calls=len(modules))
            yield from self._own(modules, same_shapes)
            if modules is self._roots and self._odd:
                modules = {a: c for a, c in modules.items() if a not in self._odd}
            whole = {at: call for at, call in modules.items() if call.is_complete}
            self._comparer.count(incomplete=len(modules) - len(whole))
            inner: list[tuple[Siblings, bool]] = []
            for same in self._by_calls(whole):
                yield from same.odd
                shapes = _same([_shapes_of(call) for call in same.calls.values()])
                if not same.is_cut:
                    yield from self._results(same.calls)
                for parts in same.parts:
                    first = next(iter(parts.values()))
                    if first.is_module:
                        inner.append((parts, shapes))
                    else:
                        yield from self._leaves(parts, "input", shapes)
                        yield from self._leaves(parts, "output", shapes)
            waiting += reversed(inner)

    def _own(self, modules: Siblings, same_shapes: bool) -> Iterator[Unlike]:
        """Compares the arguments of a module."""
        found = list(self._leaves(modules, "input", same_shapes))
        yield from found
        if modules is self._roots:
            # A block that is given something else does something else.
            self._odd |= {
                at
                for at, call in modules.items()
                for each in found
                if each.sequence == call.begin and each.key[-2] in _KINDS
            }

    def _results(self, modules: Siblings) -> Iterator[Unlike]:
        yield from self._leaves(modules, "output", False)

    def _by_calls(self, modules: Siblings) -> Iterator[_Same]:
        """Groups calls of a module by the calls that they make, and aligns these."""
        cuts = {at: self._comparer.depends_from(call) for at, call in modules.items()}
        made = {}
        for at, call in modules.items():
            parts = call.parts
            if cuts[at] >= 0:
                parts = [each for each in parts if each.begin <= cuts[at]]
            if all(each.is_complete or not each.is_module for each in parts):
                made[at] = parts
        names = {
            at: tuple(_name_of(each, modules[at], self._roots[at]) for each in parts)
            for at, parts in made.items()
        }
        odd: list[Unlike] = []
        if self._comparer.compares_calls:
            odd = list(self._other_calls(modules, made, names))
        classes: dict[tuple[str, ...], list[int]] = {}
        for at, each in names.items():
            classes.setdefault(each, []).append(at)
        if len(classes) > 1 and not odd:
            self._comparer.count(without_majority=len(names))
        if not classes and odd:
            classes = {(): []}
        for keys in classes.values():
            rows = list(zip(*(made[at] for at in keys), strict=True))
            parts_of = [dict(zip(keys, row, strict=True)) for row in rows]
            is_cut = any(cuts[at] >= 0 for at in keys)
            if is_cut:
                parts_of += self._after_cut(modules, keys, cuts)
            calls = {at: modules[at] for at in keys}
            if len(keys) < SIBLINGS_MIN:
                calls, parts_of = {}, []
            yield _Same(odd, calls, parts_of, is_cut)
            odd = []

    def _after_cut(
        self, modules: Siblings, keys: list[int], cuts: Mapping[int, int]
    ) -> Iterator[Siblings]:
        """Aligns later calls of modules by their names."""
        found: dict[tuple[str, int], Siblings] = {}
        for at in keys:
            for each in modules[at].parts:
                if each.is_module and each.begin > cuts[at]:
                    name = _name_of(each, modules[at], self._roots[at])
                    found.setdefault((name, each.ordinal), {})[at] = each
        yield from found.values()

    def _other_calls(
        self,
        modules: Siblings,
        made: Mapping[int, list[Call]],
        names: Mapping[int, tuple[str, ...]],
    ) -> Iterator[Unlike]:
        odd = odd_ones(names)
        if odd is None:
            return
        common = odd.common
        assert isinstance(common, tuple)
        for at in odd.keys:
            mine = names[at]
            if sorted(mine) == sorted(common):
                wired = list(self._other_wiring(modules, made, names, at, common))
                if wired:
                    yield from wired
                    continue
            first = next(
                (
                    n
                    for n, (a, b) in enumerate(zip(mine, common, strict=False))
                    if a != b
                ),
                min(len(mine), len(common)),
            )
            here = mine[first] if first < len(mine) else "nothing"
            there = common[first] if first < len(common) else "nothing"
            after = f"after {short(mine[first - 1])} " if first else ""
            text = f"{after}it calls {short(here)}, {others(odd.common_count, there)}"
            place = _code_of(modules[at], made[at], first)
            end = modules[at].end
            sequence = made[at][first].begin if first < len(mine) else end
            key = (modules[at].op, "calls", here, there)
            yield Unlike(CALLS, sequence, place, text, key)

    def _other_wiring(
        self,
        modules: Siblings,
        made: Mapping[int, list[Call]],
        names: Mapping[int, tuple[str, ...]],
        odd: int,
        common: tuple[str, ...],
    ) -> Iterator[Unlike]:
        """Compares where the arguments are made, if the order of calls differs."""
        found: dict[tuple[str, int], Siblings] = {}
        for at, calls in made.items():
            if at == odd or names[at] == common:
                for name, each in zip(names[at], calls, strict=True):
                    found.setdefault((name, each.ordinal), {})[at] = each
        for aligned in found.values():
            for unlike in self._leaves(aligned, "input", False):
                if unlike.key[-2] == "source":
                    yield unlike

    def _leaves(self, calls: Siblings, io: str, same_shapes: bool) -> Iterator[Unlike]:
        """Compares the arguments or the results of one call of each sibling."""
        if len(calls) < SIBLINGS_MIN:
            return
        sides = {at: getattr(call, f"{io}s") for at, call in calls.items()}
        is_module = next(iter(calls.values())).is_module
        for index in dict.fromkeys(i for side in sides.values() for i in side):
            leaves = {at: side.get(index) for at, side in sides.items()}
            # Parts of an object, such as a cache, change from block to block.
            depth = index.count(".") if is_module else 0
            if depth > 1 or (depth and None in leaves.values()):
                continue
            found = self._first_difference(calls, leaves, io, index, same_shapes)
            if found is None:
                continue
            what, values, render = found
            odd = odd_ones(values)
            if odd is None:
                continue
            for at in odd.keys:
                call, leaf = calls[at], leaves[at]
                if what != "given" and leaf:
                    if (at, leaf.hash) in self._named:
                        continue
                    self._named.add((at, leaf.hash))
                here, there = render(values[at]), render(odd.common)
                parent = call.parent.op if call.parent else ""
                # The first block often has arguments of another kind.
                is_first = calls is self._roots and at == 0 and what in _KINDS
                place, name = _place_of(call, io, index)
                yield Unlike(
                    ENDS if is_first else CALLS,
                    call.begin if io == "input" else call.end,
                    place,
                    f"{name}{_PREFIXES.get(what, '')}{here}, "
                    f"{others(odd.common_count, there)}",
                    (
                        call.op,
                        parent,
                        call.ordinal,
                        io,
                        index,
                        what,
                        "" if what == "bytes" else here,
                    ),
                )

    def _first_difference(
        self,
        calls: Siblings,
        leaves: Mapping[int, Leaf | None],
        io: str,
        index: str,
        same_shapes: bool,
    ) -> tuple[str, dict[int, Hashable], Callable[[Hashable], str]] | None:
        """Returns the first property by which few siblings differ from the others."""
        values: dict[int, Hashable] = {
            at: _MISSING
            if leaf is None
            else (_TENSOR if leaf.is_tensor else leaf.value)
            for at, leaf in leaves.items()
        }
        if len(set(values.values())) > 1:
            if any(each in _EMPTY for each in values.values()):
                return None
            if self._are_sizes(calls, values, same_shapes) or io == "output":
                return None
            return "given", values, _given
        tensors = {at: leaf for at, leaf in leaves.items() if leaf and leaf.is_tensor}
        if len(tensors) < len(leaves):
            return None
        dtypes: dict[int, Hashable] = {at: each.dtype for at, each in tensors.items()}
        if odd_ones(dtypes):
            return "dtype", dtypes, _dtype
        is_fixed = same_shapes and self._has_fixed_shapes(calls)
        shapes: dict[int, Hashable] = {at: each.shape for at, each in tensors.items()}
        if is_fixed and odd_ones(shapes):
            return "shape", shapes, _shape
        sources = self._sources(calls, tensors, io, index)
        if odd_ones(sources):
            return "source", sources, _source
        constant: dict[int, Hashable] = {
            at: each.is_constant
            for at, each in tensors.items()
            if each.is_constant is not None and self._is_parameter(calls[at], each)
        }
        if io == "input" and odd_ones(constant):
            return "constant", constant, _constant
        if self._depends_on_data(calls):
            return None
        is_root = calls is self._roots
        hashes: dict[int, Hashable] = {
            at: each.hash
            for at, each in tensors.items()
            if each.hash and (each.is_telling or is_root)
        }
        if len(hashes) < len(tensors):
            return None
        copies = self._copies(calls, tensors, io)
        if copies:
            return "copy", copies, short
        if odd_ones(hashes):
            return "bytes", hashes, _bytes
        return None

    def _copies(
        self, calls: Siblings, leaves: Mapping[int, Leaf], io: str
    ) -> dict[int, Hashable]:
        """Returns whether a parameter or a result has the bytes of another sibling.

        Returns:
            Empty unless exactly two siblings have equal bytes, which differ in all
            others, and nothing explains that: equal arguments, or a parameter that the
            code outside of the blocks has already used.
        """
        counts = Counter(leaf.hash for leaf in leaves.values())
        shared = [each for each, count in counts.items() if count > 1]
        if len(shared) != 1 or counts[shared[0]] > 2:
            return {}
        first, second = (at for at, leaf in leaves.items() if leaf.hash == shared[0])
        if io == "input":
            is_own = self._is_parameter(calls[first], leaves[first])
            begin = min(root.begin for root in self._roots.values())
            if not is_own or self._comparer.is_known_before(shared[0], begin):
                return {}
        elif _hashes_of(calls[first]) == _hashes_of(calls[second]):
            return {}
        out: dict[int, Hashable] = dict.fromkeys(leaves, "bytes of its own")
        later = max(first, second, key=lambda at: calls[at].begin)
        earlier = first if later == second else second
        out[later] = f"the bytes of {self._roots[earlier].op}"
        return out

    def _is_parameter(self, call: Call, leaf: Leaf) -> bool:
        """Returns whether an argument of a function has the shape of a parameter of
        the module that calls it.
        """
        module = self._comparer.tree.get(call.parent.op) if call.parent else None
        about = f"{leaf.dtype} {list(leaf.shape)}"
        if call.is_module or module is None:
            return False
        return about in module.shapes.values()

    def _are_sizes(
        self, calls: Siblings, values: Mapping[int, Hashable], same_shapes: bool
    ) -> bool:
        """Returns whether values are integers that depend on sizes that differ."""
        if same_shapes and self._same_sizes and self._has_fixed_shapes(calls):
            return False
        return all(_SIZE.match(str(each)) for each in values.values())

    def _has_fixed_shapes(self, calls: Siblings) -> bool:
        return self._same_sizes and not self._depends_on_data(calls)

    def _depends_on_data(self, calls: Siblings) -> bool:
        """Returns whether a call is, or follows, one on whose result others depend."""
        return any(0 <= self._depends[at] <= c.begin for at, c in calls.items())

    def _sources(
        self, calls: Siblings, leaves: Mapping[int, Leaf], io: str, index: str
    ) -> dict[int, Hashable]:
        """Returns which result of the block has the bytes of a leaf. If several have,
        it is the one that most siblings name.
        """
        out: dict[int, list[str]] = {}
        for at, call in calls.items():
            leaf, root = leaves[at], self._roots[at]
            if not leaf.is_telling or (call is root and io == "input"):
                continue
            found = (call.sources if io == "input" else call.made_by).get(index)
            inner = call.parent if io == "input" else call
            first = inner.begin if inner else 0
            if 0 <= self._depends[at] <= call.begin and (
                first <= self._depends[at] or not found or found[0][0].begin < first
            ):
                # Which of several calls made it depends on data.
                continue
            names = [
                _source_name(maker, result, root)
                for maker, result in found or ()
                if root.begin < maker.begin and maker.end < root.end
            ]
            if leaf.hash in self._given[at]:
                names.append(f"input/{self._given[at][leaf.hash]} of the block")
            # Memory that was not written yet may have the bytes of any result.
            out[at] = names or ["no result of the block"]
        counts = Counter(
            name for names in out.values() for name in dict.fromkeys(names)
        )
        return {at: max(names, key=counts.__getitem__) for at, names in out.items()}


class _Same(NamedTuple):
    """Calls of a module that make the same calls."""

    # How others differ.
    odd: list[Unlike]
    calls: Siblings
    # The calls that they make, in the order of execution.
    parts: list[Siblings]
    # Whether later calls depend on data.
    is_cut: bool


def _hashes_of(call: Call) -> Hashable:
    return tuple(
        (index, leaf.value or leaf.hash) for index, leaf in call.inputs.items()
    )


def _first_indexes(call: Call) -> dict[str, str]:
    out: dict[str, str] = {}
    for index, leaf in call.inputs.items():
        if leaf.is_telling:
            out.setdefault(leaf.hash, index)
    return out


def _source_name(call: Call, index: str, root: Call) -> str:
    name = _relative(call.op, root.op)
    if call.is_module:
        return f"{name} output/{index}"
    parent = _relative(call.parent.op, root.op) if call.parent else ""
    return f"{name} {call.ordinal} of {parent or 'the block'} output/{index}"


def _relative(op: str, root: str) -> str:
    return op[len(root) + 1 :] if op == root or op.startswith(root + ".") else op


def _name_of(call: Call, module: Call, root: Call) -> str:
    """Returns the name of a call, which is the same in all siblings."""
    if not call.is_module:
        return call.op
    inner = _relative(call.op, module.op)
    return inner if inner != call.op else _relative(call.op, root.op)


def _code_of(module: Call, parts: Sequence[Call], at: int) -> str:
    """Returns the code of a module between two of its parts."""
    before = next((each for each in reversed(parts[:at]) if each.is_module), None)
    after = next((each for each in parts[at:] if each.is_module), None)
    place = f"{module.op} call {module.call}"
    place += f" after {before.op}" if before else ""
    place += f" before {after.op}" if after else ""
    return f"code of {place}" if before or after else place


def _place_of(call: Call, io: str, index: str) -> tuple[str, str]:
    """Returns where an argument or a result was made, and its name if the place is
    code: the arguments of a module are those of the code that calls it.
    """
    name = f"{io}/{short(index)}"
    parent = call.parent
    if call.is_module and io == "input" and parent:
        at = bisect.bisect_left(parent.parts, call.begin, key=lambda each: each.begin)
        return _code_of(parent, parent.parts, at), f"{name} of {call.op}: "
    place = f"{call.op} call {call.call}"
    if not call.is_module and parent:
        place += f" in {parent.op}"
    return f"{place}, {name}", ""


def _same(values: list[Hashable]) -> bool:
    return len(set(values)) <= 1


def _shapes_of(call: Call) -> Hashable:
    return tuple((i, leaf.shape) for i, leaf in call.inputs.items() if leaf.is_tensor)


def others(count: int, text: str) -> str:
    """Returns what the others have."""
    return f"in {count} siblings {short(text)}"


def short(text: object) -> str:
    """Returns a text that is cut if it is long."""
    whole = str(text)
    return whole if len(whole) <= _TEXT_MAX else whole[: _TEXT_MAX - 3] + "..."


def _given(value: Hashable) -> str:
    return short(value[0] if isinstance(value, tuple) else value)


def _dtype(value: Hashable) -> str:
    return f"a tensor of {value}"


def _shape(value: Hashable) -> str:
    return str(list(value) if isinstance(value, tuple) else value)


def _source(value: Hashable) -> str:
    return short(value)


def _constant(value: Hashable) -> str:
    return "all elements equal" if value else "different elements"


def _bytes(value: Hashable) -> str:
    return str(value)[:8]
