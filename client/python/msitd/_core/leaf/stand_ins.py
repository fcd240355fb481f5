"""Tensors that are recorded in the place of others.

Teacher forcing hands a program scores that leave it no choice. The scores that
the model has computed are recorded nevertheless, as the argument of the function
that chooses.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

# The scores that the model computed, by the id of the tensor that stands in for
# them.
_computed: dict[int, tuple[weakref.ref[Any], Any]] = {}


def record_instead(given: Any, computed: Any) -> None:
    """Has calls that are given the tensor `given` recorded as if it were `computed`."""
    key = id(given)

    def forget(_: weakref.ref[Any]) -> None:
        _computed.pop(key, None)

    _computed[key] = (weakref.ref(given, forget), computed)


def are_in_use() -> bool:
    """Returns whether a tensor is recorded in the place of another."""
    return bool(_computed)


def recorded_leaves(
    leaves: Iterable[tuple[str, Any]],
) -> Iterable[tuple[str, Any]]:
    """Puts in what is to be recorded."""
    return _replaced(leaves) if _computed else leaves


def _replaced(leaves: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for index, leaf in leaves:
        found = _computed.get(id(leaf))
        yield index, leaf if found is None or found[0]() is not leaf else found[1]
