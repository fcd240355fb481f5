"""Finds the ops that a comparison suspects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msitd.verify import table
from msitd.verify.records import Selection

if TYPE_CHECKING:
    from msitd.query import Connection

_FUNCTIONS = ("Functional.*", "Torch.*", "Tensor.*", "Aten.*")


def selection_of(daemon: Connection, comparison: str, run: str) -> Selection:
    """Returns the first divergence and the causes of a comparison as a selection.

    Args:
        daemon: The daemon that has the comparison.
        comparison: Its name, such as `c-000001` or `latest`.
        run: The run that is checked. It must be one of those that were compared.

    Raises:
        ValueError: The comparison is of other runs, or suspects nothing.
        QueryError: The comparison does not exist.
    """
    found = daemon.comparisons.get(comparison)
    if run not in (found.golden_run, found.target_run):
        raise ValueError(f"comparison {found.name} does not compare run {run}")
    ops: dict[str, None] = {}
    ranks: dict[int, None] = {}
    tokens: dict[int, None] = {}
    rows = [found.first_divergence, found.first_origin]
    rows += [maker.row for maker in found.makers]
    for row in rows:
        if row is None or not row.op:
            continue
        ops[row.op] = None
        if not table.is_function(row.op):
            # The parts of a module, which may be wrong instead of it.
            ops[f"{row.op}.*"] = None
            ops.update(dict.fromkeys(_FUNCTIONS))
        ranks[row.rank] = None
        tokens[row.token] = None
    if not ops:
        raise ValueError(f"comparison {found.name} suspects no op")
    return Selection(
        tuple(ops)[:64], tuple(ranks), tuple((token, token) for token in tokens)
    )
