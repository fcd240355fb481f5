"""Compares what the module tree of a run says about siblings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msitd.verify.siblings import (
    Group,
    Kind,
    Odd,
    Siblings,
    Structure,
    Tree,
    odd_ones,
    of_one_structure,
)
from msitd.verify.unlike import (
    ATTRIBUTES,
    ENDS,
    NOT_GIVEN,
    STRUCTURE,
    Unlike,
    others,
    short,
)

_NOT_THERE = "not there"


def compare_attributes(group: Group, tree: Tree) -> Iterator[Unlike]:
    """Yields the siblings whose structure, attributes or parameters differ."""
    roots = dict(enumerate(group.calls.values()))
    structures = {at: tree.structure_of(call.op) for at, call in roots.items()}
    odd = odd_ones({at: found.kinds for at, found in structures.items()})
    if odd is not None:
        yield from _other_structures(roots, structures, odd)
    for mine in of_one_structure(roots, tree):
        yield from _attributes_of(mine, tree)


def _other_structures(
    roots: Siblings, structures: Mapping[int, Structure], odd: Odd
) -> Iterator[Unlike]:
    other = next(n for n, s in structures.items() if s.kinds == odd.common)
    for at in odd.keys:
        place, text = _structural(
            roots[at].op,
            dict(structures[at].kinds),
            dict(structures[other].kinds),
            odd.common_count,
        )
        is_end = at in (0, len(roots) - 1)
        yield Unlike(
            ENDS if is_end else STRUCTURE,
            0,
            place,
            text,
            # Blocks of the same pattern are listed once.
            (re.sub(r"\d+", "*", place), text),
        )


def _structural(
    op: str, here: Mapping[str, Kind], there: Mapping[str, Kind], count: int
) -> tuple[str, str]:
    """Returns the first module that differs, and how."""
    for name in sorted({*here, *there}):
        mine, common = here.get(name), there.get(name)
        place = f"{op}.{name}" if name else op
        if mine == common:
            continue
        if mine is None or common is None:
            texts = [_NOT_THERE if each is None else each[0] for each in (mine, common)]
        else:
            names = [n for n, _ in mine[1]] if mine[0] == common[0] else []
            texts = [
                " ".join(f"{n}={v}" for n, v in each[1] if n in names) or each[0]
                for each in (mine, common)
            ]
        return place, f"{short(texts[0])}, {others(count, texts[1])}"
    return op, f"its parts have another order than in {count} siblings"


def _attributes_of(roots: Siblings, tree: Tree) -> Iterator[Unlike]:
    parts = {at: list(tree.parts_of(call.op)) for at, call in roots.items()}
    # All have the same parts in the same order.
    for row in zip(*parts.values(), strict=True):
        modules = {at: tree.get(op) for at, op in zip(parts, row, strict=True)}
        ops = dict(zip(parts, row, strict=True))
        facts = {
            at: {
                **{key: repr(value) for key, value in each.attributes.items()},
                "training": str(each.training),
                **{f"parameter {n}": n for n in each.parameters},
            }
            for at, each in modules.items()
            if each is not None
        }
        for name in dict.fromkeys(n for each in facts.values() for n in each):
            values = {at: each.get(name, NOT_GIVEN) for at, each in facts.items()}
            odd = odd_ones(values)
            if odd is None:
                continue
            for at in odd.keys:
                here, there = str(values[at]), str(odd.common)
                text = f"{name} {short(here)}, {others(odd.common_count, there)}"
                if name.startswith("parameter "):
                    has = "not given" if here == NOT_GIVEN else "given"
                    text = f"{name} is {has}, other than in {odd.common_count} siblings"
                yield Unlike(ATTRIBUTES, 0, ops[at], text, (ops[at], text))
