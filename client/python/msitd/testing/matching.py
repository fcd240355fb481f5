"""Assertions on comparisons."""

from __future__ import annotations

from msitd import query
from msitd.query.connection import seconds_of
from msitd.query.headline import headline

# Rows that the message of a failed assertion lists.
_ROWS_MAX = 5


def assert_runs_match(
    golden: str,
    target: str,
    select: query.TensorFilter | None = None,
    *,
    policy: query.Policy | None = None,
    matching: query.Matching | None = None,
    allow_partial: bool = False,
    daemon: query.Connection | None = None,
    timeout: float = 600.0,
    golden_source: str = "",
) -> query.Comparison:
    """Compares two runs, and fails unless the verdict is `pass`.

    Args:
        golden: The reference run.
        target: The run under test.
        select: Tensors to compare, in both runs; None: all.
        policy: Which pairs pass; None: the defaults.
        matching: How tensors are paired; None: by equal names.
        allow_partial: The verdict may also be `partial`: nothing differs, but not
            everything could be compared.
        daemon: The connection to use; None: a new one to the default daemon.
        timeout: Time limit of the comparison, in seconds.
        golden_source: Where the golden run is; see `Comparisons.create`.

    Returns:
        The comparison.

    Raises:
        AssertionError: The verdict is another. The text has the result in a
            sentence, and the first rows that do not pass.
        QueryError: The comparison could not be made.
        ValueError: `timeout` is not positive.
    """
    __tracebackhide__ = True
    seconds_of(timeout)
    if daemon is None:
        with query.connect() as connection:
            return assert_runs_match(
                golden,
                target,
                select,
                policy=policy,
                matching=matching,
                allow_partial=allow_partial,
                daemon=connection,
                timeout=timeout,
                golden_source=golden_source,
            )
    comparison = daemon.comparisons.run(
        golden,
        target,
        select,
        policy=policy,
        matching=matching,
        timeout=timeout,
        golden_source=golden_source,
    )
    assert_comparison_passes(daemon, comparison, allow_partial=allow_partial)
    return comparison


def assert_comparison_passes(
    daemon: query.Connection,
    comparison: query.Comparison,
    *,
    allow_partial: bool = False,
) -> None:
    """Fails unless the verdict of a finished comparison is `pass`.

    Raises:
        AssertionError: The verdict is another.
    """
    __tracebackhide__ = True
    accepted = ("pass", "partial") if allow_partial else ("pass",)
    if comparison.verdict in accepted:
        return
    lines = [headline(comparison) or f"{comparison.name} is {comparison.state}"]
    # The rows that fail first, however many were not compared.
    wanted: tuple[query.Verdict, ...]
    for wanted in (("fail",), ("unmatched",), ("skipped",)):
        left = _ROWS_MAX - (len(lines) - 1)
        if left <= 0:
            break
        rows = daemon.comparisons.rows(comparison, verdicts=wanted, limit=left)
        lines += [f"  {row}" for row in rows]
    raise AssertionError("\n".join(lines))
