"""The result of a comparison, and whether it is correct."""

import fnmatch
from collections.abc import Sequence
from typing import Any

from anatomy import Place

HEALTHY = ("passed", "partial", "failed")
FAULTY = ("right", "wrong", "not known", "drift", "unnoticed")
INFORMATIONAL = ("passed", "partial", "failed")
_END = 2**62
# Positions of an op's records in the golden run, by token, op and io.
Positions = dict[tuple[int, str, str], list[int]]


def root(name: str) -> str:
    """Returns the op for a path in a model."""
    return f"root.{name}" if name else "root"


def _span(place: Place, token: int, positions: Positions) -> tuple[int, int] | None:
    """Returns the records of a token between which a place lies."""

    def ends(op: str, io: str) -> list[int]:
        return positions.get((token, root(op), io), [])

    if place.is_outside:
        ended = ends("", "output")
        return (max(ended), _END) if ended else None
    if place.after is None or place.before is None:
        begins, stops = ends(place.op, "input"), ends(place.op, "output")
    else:
        begins = [
            at
            for name in place.after
            for at in (ends(name, "output") if name else ends(place.op, "input"))
        ]
        stops = [
            at
            for name in place.before
            for at in (ends(name, "input") if name else ends(place.op, "output"))
        ]
    return (min(begins), max(stops)) if begins and stops else None


def names(maker: dict[str, Any], place: Place) -> bool:
    """Returns whether a maker is this place, by the names of modules."""
    if maker["kind"] not in ("OP", "WEIGHT", "OWN_CODE"):
        return False
    row = maker["row"]
    if int(row["token"]) < place.token or place.is_outside:
        return False
    if place.io and row["io"] != f"IO_{place.io.upper()}":
        return False
    if place.after is None or place.before is None:
        # With a pattern, code of any op that matches it also counts.
        is_code = maker["kind"] == "OWN_CODE"
        if is_code and not place.io and "*" not in place.op:
            return False
        return fnmatch.fnmatchcase(maker["op"], root(place.op))
    if maker["kind"] != "OWN_CODE" or maker["op"] != root(place.op):
        return False
    after = {root(name) if name else "" for name in place.after}
    before = {root(name) if name else "" for name in place.before}
    return maker["after"] in after and maker["before"] in before


def spans(maker: dict[str, Any], place: Place, positions: Positions) -> bool:
    """Returns whether a maker that is a function lies within this place."""
    if maker["kind"] not in ("OP", "WEIGHT", "OWN_CODE"):
        return False
    is_function = not maker["op"].startswith("root")
    if "*" in place.op:
        return False
    parts = [part for part in (maker["after"], maker["before"]) if part]
    is_beside_functions = maker["kind"] == "OWN_CODE" and any(
        not part.startswith("root") for part in parts
    )
    row = maker["row"]
    token = int(row["token"])
    if not (is_function or is_beside_functions) or token < place.token:
        return False
    span = _span(place, token, positions)
    return span is not None and span[0] <= int(row["sequence"]) <= span[1]


def judge_fault(
    answer: dict[str, Any], truth: Sequence[Place], positions: Positions
) -> str:
    """Returns the outcome, one of FAULTY, for the JSON of a comparison."""
    if answer["verdict"] == "PASS":
        return "unnoticed"
    makers = answer["comparison"]["makers"]
    if not makers:
        # A difference that the caller of the model would have caused.
        is_blamed = answer["comparison"].get("input_difference") is not None
        return "wrong" if is_blamed else "not known"
    maker = makers[0]
    if maker["kind"] == "NOT_KNOWN":
        return "not known"
    if maker["kind"] in ("DRIFT", "FLIP"):
        return "drift"
    is_right = any(
        names(maker, place) or spans(maker, place, positions) for place in truth
    )
    return "right" if is_right else "wrong"


def judge_healthy(answer: dict[str, Any]) -> str:
    """Returns the outcome, one of HEALTHY, for the JSON of a comparison.

    A comparison that blames something fails, even if its verdict is partial.
    """
    if answer["verdict"] == "PARTIAL" and not answer["comparison"]["makers"]:
        return "partial"
    return "passed" if answer["verdict"] == "PASS" else "failed"


def header(answer: dict[str, Any]) -> str:
    """Returns a summary of a comparison in a few lines."""
    comparison = answer["comparison"]
    lines = [
        (
            f"verdict {answer['verdict']}: {comparison['pass_count']} pass, "
            f"{comparison['fail_count']} fail, "
            f"{comparison['unmatched_count']} unmatched, "
            f"{comparison['skipped_count']} skipped"
        )
    ]
    first = comparison.get("first_divergence")
    if first:
        lines.append(f"first divergence {_row(first)}: {first['reason']}")
    for maker in comparison["makers"]:
        lines.append(
            f"made by {maker['kind']} {maker['op']}"
            + (f" after {maker['after']}" if maker["after"] else "")
            + (f" before {maker['before']}" if maker["before"] else "")
            + f", row {_row(maker['row'])}; error {maker['output_error']} from "
            f"{maker['input_error']}; {maker['note']}"
        )
        lines += [
            f"explained by {one['kind']} {one['where']}: {one['text']}, "
            f"residual {one['residual']} from {one['residual_without']}"
            for one in maker.get("explanations", [])
        ]
    return "\n".join(lines)


def _row(row: dict[str, Any]) -> str:
    io = row["io"].removeprefix("IO_").lower()
    return f"{row['op']} {io}/{row['index']}, token {row['token']}, call {row['call']}"
