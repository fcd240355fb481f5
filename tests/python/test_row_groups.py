"""Groups of rows that several answers of the daemon cover are merged."""

import math
from dataclasses import replace

import pytest
from msitd.query import RowGroup
from msitd.query.row_groups import merged_groups

GROUP = RowGroup(
    op="a",
    rank=0,
    token=0,
    pass_count=1,
    fail_count=0,
    unmatched_count=2,
    skipped_count=3,
    worst=0.5,
    worst_row=7,
    non_finite_count=4,
)


def test_counts_are_added_and_order_is_kept() -> None:
    other = replace(GROUP, op="b")
    later = replace(GROUP, worst=0.25, worst_row=9)
    merged = merged_groups([[GROUP, other], [], [later]], lowest_is_worst=False)
    assert [group.op for group in merged] == ["a", "b"]
    assert merged[0] == replace(
        GROUP, pass_count=2, unmatched_count=4, skipped_count=6, non_finite_count=8
    )
    assert merged[1] == other


@pytest.mark.parametrize(
    ("first", "second", "lowest", "worst", "row"),
    [
        (0.5, 0.75, False, 0.75, 9),
        (0.5, 0.75, True, 0.5, 7),
        (0.5, None, False, 0.5, 7),
        (None, 0.5, True, 0.5, 9),
        (math.nan, 9.0, False, math.nan, 7),
        (9.0, math.nan, True, math.nan, 9),
        (math.inf, 1.0, True, 1.0, 9),
    ],
)
def test_the_worse_value_has_the_row(
    first: float | None, second: float | None, lowest: bool, worst: float, row: int
) -> None:
    answers = [
        [replace(GROUP, worst=first)],
        [replace(GROUP, worst=second, worst_row=9)],
    ]
    (merged,) = merged_groups(answers, lowest_is_worst=lowest)
    assert merged.worst == pytest.approx(worst, nan_ok=True)
    assert merged.worst_row == row


def test_a_row_that_fails_is_worse_than_any_other() -> None:
    failing = replace(GROUP, fail_count=1, worst=0.1, worst_row=9)
    for answers in ([[GROUP], [failing]], [[failing], [GROUP]]):
        (merged,) = merged_groups(answers, lowest_is_worst=False)
        assert merged.worst_row == 9
        assert merged.worst == 0.5
