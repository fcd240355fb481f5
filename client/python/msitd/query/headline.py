"""The result of a comparison in a sentence.

This is `Headline` of client/ask/text/headline.h in Python, so that a notebook and
a terminal say the same. The package links none of the code of msitctl, and
linking it would add protobuf and gRPC to a native module of processes that use
their own. So the sentence is written a second time. The test
test_query_headline.py has msitctl print the same comparisons and compares both
texts.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple, cast

from msitd.query.comparison_types import Comparison, ComparisonRow, Maker
from msitd.query.messages import from_message, new
from msitd.query.text import printable, ranks_text


class _Sides(NamedTuple):
    """The names of both runs in a sentence."""

    golden: str
    target: str


def headline(comparison: Comparison) -> str:
    """Returns the result of a comparison in one or two sentences; "" until it is done.

    The result is printable.
    """
    if comparison.state != "done":
        return ""
    sides = _Sides(
        _run_place(comparison.golden_run, comparison.golden_source),
        _run_place(comparison.target_run, comparison.target_source),
    )
    verdict = comparison.verdict
    if verdict == "pass":
        text = _pass_text(sides, comparison)
    elif verdict == "partial":
        text = (
            f"{sides.target} agrees with {sides.golden} as far as they could be "
            f"compared, which is not everything: {_tensors(comparison.pass_count)} "
            "within tolerance"
        )
    else:
        text = _failure_text(sides, comparison) + _counts_text(comparison)
    return printable(f"{text}.")


def row_count(comparison: Comparison) -> int:
    """Returns the number of rows with any verdict."""
    return (
        comparison.pass_count
        + comparison.fail_count
        + comparison.unmatched_count
        + comparison.skipped_count
    )


@functools.cache
def _no_row() -> ComparisonRow:
    return cast(ComparisonRow, from_message(new("ComparisonRow")))


def _run_place(run: str, source: str) -> str:
    return f"{run} at {source}" if source else run


def _tensors(count: int) -> str:
    return f"{count} tensor{'' if count == 1 else 's'}"


def _ranks_of(row: ComparisonRow) -> str:
    """Returns the rank of a row, or the ranks of all shards of both sides."""
    target = row.target.ranks if row.target is not None else ()
    golden = row.golden.ranks if row.golden is not None else ()
    ranks = target or golden
    if not ranks:
        return f"rank {row.rank}"
    out = f"rank{'' if len(ranks) == 1 else 's'} {ranks_text(ranks)}"
    if golden and golden != ranks:
        out += f" (golden {ranks_text(golden)})"
    return out


def _when(row: ComparisonRow) -> str:
    call = "" if row.call == 0 else f"call {row.call}, "
    return f"({call}{_ranks_of(row)}, token {row.token})"


def _percent(error: float) -> str:
    return f"{100 * error:.2g} %" if math.isfinite(error) else ""


def _errors(maker: Maker) -> str:
    output, inputs = _percent(maker.output_error), _percent(maker.input_error)
    if not output or not inputs or maker.output_error == 0:
        return ""
    if maker.input_error == 0:
        return f": its inputs are equal, its output differs by {output}"
    return f": its inputs differ by {inputs}, its output by {output}"


def _own_code(maker: Maker) -> str:
    out = f"the own code of {maker.op}" if maker.op else "the code"
    if maker.after:
        out += f" after {maker.after}"
    if maker.before:
        out += (
            f" and before {maker.before}" if maker.after else f" before {maker.before}"
        )
    return out


def _copies(maker: Maker, row: ComparisonRow) -> str:
    out = f"the copies of {row.op} differ between ranks"
    if maker.ranks:
        one = len(maker.ranks) == 1
        out += f": rank{'' if one else 's'} {ranks_text(maker.ranks)} "
        out += f"{'is' if one else 'are'} not like the others"
    return out


def _from_op(sides: _Sides, comparison: Comparison, op: str, row: ComparisonRow) -> str:
    if comparison.may_diverge_before:
        return (
            f"{sides.target} differs from {sides.golden} at or before {op} {_when(row)}"
        )
    return f"{sides.target} differs from {sides.golden} from {op} on {_when(row)}"


def _cause_text(sides: _Sides, comparison: Comparison, maker: Maker) -> str:
    row = maker.row or _no_row()
    golden, target = sides
    if maker.kind == "op":
        return _from_op(sides, comparison, maker.op, row) + _errors(maker)
    if maker.kind == "weight":
        weight = f": its weight {row.index} is another one"
        return _from_op(sides, comparison, maker.op, row) + weight
    if maker.kind == "own_code":
        return _from_op(sides, comparison, _own_code(maker), row)
    if maker.kind == "model_inputs":
        whose = _ranks_of(row) if comparison.may_diverge_before else "the model"
        return f"{target} differs from {golden}: the inputs of {whose} differ already"
    if maker.kind == "drift":
        return (
            f"{target} drifts away from {golden}: rounding errors add up until "
            f"{row.op} fails {_when(row)}; no single op is to blame"
        )
    if maker.kind == "flip":
        return (
            f"{target} parts from {golden} at {row.op} {_when(row)}, where a choice "
            "differs within the noise of its scores; no op is to blame"
        )
    if maker.kind == "copies":
        return f"{target} differs from {golden}: {_copies(maker, row)}"
    unknown = "; which op made the difference is not known"
    return _from_op(sides, comparison, row.op, row) + unknown


def _failure_text(sides: _Sides, comparison: Comparison) -> str:
    golden, target = sides
    compared = comparison.pass_count + comparison.fail_count
    unmatched = comparison.unmatched_count - comparison.allowed_unmatched_count
    are_unmatched = f"{_tensors(unmatched)} {'is' if unmatched == 1 else 'are'}"
    if comparison.input_difference is not None:
        difference = comparison.input_difference
        token = (difference.row or _no_row()).token
        return (
            f"{target} and {golden} got different inputs from token {token} on "
            f"({difference.difference}); what the model computed from them differs "
            "as a result"
        )
    if compared == 0 and unmatched > 0:
        none = f"{target} and {golden} have no tensor in common"
        return f"{none}: {are_unmatched} in only one of them"
    if compared == 0 and row_count(comparison) == 0:
        return f"{target} and {golden} have no tensors to compare"
    if compared == 0:
        return f"nothing of {target} and {golden} could be compared"
    if comparison.fail_count == 0:
        agrees = f"{target} agrees with {golden} in {_tensors(comparison.pass_count)}"
        return f"{agrees}, but {are_unmatched} in only one of them"
    first = comparison.first_divergence
    makers = comparison.makers
    # An unknown cause that names no op says that the order is not known.
    if makers and makers[0].kind == "not_known" and not makers[0].op:
        return (
            f"{target} differs from {golden} from token {(first or _no_row()).token} "
            "on; the order of execution is not known, so the first op that differs "
            "is one of several"
        )
    if makers:
        return _cause_text(sides, comparison, makers[0])
    if first is None:
        return f"{target} differs from {golden}"
    return _from_op(sides, comparison, first.op, first)


def _counts_text(comparison: Comparison) -> str:
    if comparison.fail_count == 0:
        return ""
    compared = comparison.pass_count + comparison.fail_count
    fails = "fails" if comparison.fail_count == 1 else "fail"
    out = f". {comparison.fail_count} of {_tensors(compared)} {fails}"
    unmatched = comparison.unmatched_count - comparison.allowed_unmatched_count
    return f"{out}, {unmatched} without a counterpart" if unmatched > 0 else out


def _any_order_text(comparison: Comparison) -> str:
    """Returns a remark for runs that are equal only if rows may be in any order."""
    matching = comparison.matching
    views = (*matching.golden_views, *matching.target_views) if matching else ()
    is_permitted = any("any_order(" in view.view for view in views)
    return ", in any order of rows where views permit it" if is_permitted else ""


def _pass_text(sides: _Sides, comparison: Comparison) -> str:
    golden, target = sides
    others = row_count(comparison) - comparison.pass_count
    tensors = _tensors(comparison.pass_count)
    # Missing data may differ, even if the user allows that it is missing.
    is_equal = (
        not comparison.partial
        and comparison.first_inequality is None
        and others == 0
        and comparison.sampled_count == 0
        and comparison.statistics_count == 0
    )
    if is_equal:
        order = _any_order_text(comparison)
        return f"{target} equals {golden}: the same values in {tensors}{order}"
    out = f"{target} agrees with {golden}: {tensors} within tolerance"
    return f"{out}, {others} not compared" if others > 0 else out
