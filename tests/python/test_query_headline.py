"""The sentence of a comparison, in Python and as msitctl prints it."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_queries import FakeQueries
from msitd import query
from msitd.query.headline import headline
from msitd.query.messages import from_message, new

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("MSITD_BIN_DIR", ROOT / "build/release/bin"))
MSITCTL = BIN / "msitctl"

pytestmark = pytest.mark.skipif(not MSITCTL.exists(), reason="no msitctl is built")


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeQueries]:
    fake = FakeQueries()
    yield fake
    fake.stop()


def finished(passed: int, failed: int, unmatched: int = 0, **fields: Any) -> Any:
    return new(
        "Comparison",
        **{
            "name": "c-000001",
            "golden_run": "good",
            "target_run": "bad",
            "state": "done",
            "pass_count": passed,
            "fail_count": failed,
            "unmatched_count": unmatched,
        }
        | fields,
    )


def row(op: str = "a.b", **fields: Any) -> Any:
    known = {"io": "output", "index": "0", "rank": 1, "token": 3, "verdict": "fail"}
    return new("ComparisonRow", **known | {"op": op} | fields)


def failed_by(kind: str, place: Any = None, **maker: Any) -> Any:
    place = place or row()
    maker = {"kind": kind, "op": "a.b", "row": place} | maker
    return finished(
        7,
        2,
        first_divergence=place,
        first_inequality=place,
        makers=[new("Maker", **maker)],
    )


def changed(comparison: Any, **fields: Any) -> Any:
    other = type(comparison)()
    other.CopyFrom(comparison)
    other.MergeFrom(new("Comparison", **fields))
    return other


def sharded(golden: tuple[int, ...], target: tuple[int, ...]) -> Any:
    return row(
        golden=new("ComparedTensor", ranks=golden),
        target=new("ComparedTensor", ranks=target),
    )


NO_ORDER = {"kind": "not_known", "note": "no order"}

CASES = {
    "equal": finished(3, 0),
    "equal, one tensor": finished(1, 0),
    "sampled": finished(3, 0, sampled_count=1),
    "statistics": finished(3, 0, statistics_count=1),
    "within tolerance": finished(3, 0, first_inequality=row(), skipped_count=2),
    "partial": finished(3, 0, partial=True),
    "for want of ranks": finished(3, 0, 2, for_want_of_ranks_count=2),
    "nothing in common": finished(0, 0, 5),
    "one, and nothing in common": finished(0, 0, 1),
    "no tensors": finished(0, 0),
    "nothing compared": finished(0, 0, skipped_count=4, not_compared_count=4),
    "unmatched": finished(4, 0, 1),
    "several unmatched": finished(4, 0, 3),
    "allowed unmatched": finished(4, 0, skipped_count=3, allowed_unmatched_count=3),
    "fails, without a cause": finished(4, 1, first_divergence=row()),
    "fails, without a row": finished(4, 1),
    "fails, with unmatched": changed(failed_by("op"), unmatched_count=4),
    "op": failed_by("op"),
    "op, equal inputs": failed_by("op", output_error=0.0886),
    "op, inputs differ": failed_by("op", input_error=0.00652, output_error=0.0886),
    "op, large": failed_by("op", input_error=1e-9, output_error=12345.6),
    "op, infinite": failed_by("op", output_error=float("inf")),
    "op, NaN": failed_by("op", input_error=float("nan"), output_error=0.5),
    "op, second call": failed_by("op", row(call=2)),
    "op, may diverge before": changed(failed_by("op"), may_diverge_before=True),
    "shards": failed_by("op", sharded((0, 1, 2, 5), (0, 1, 2, 5))),
    "other shards": failed_by("op", sharded((0,), (3, 1, 2))),
    "one shard": failed_by("op", sharded((), (4,))),
    "weight": failed_by("weight"),
    "own code": failed_by("own_code"),
    "own code, no op": failed_by("own_code", op="", before="a.b.y"),
    "own code, after": failed_by("own_code", after="a.b.x"),
    "own code, between": failed_by("own_code", after="a.b.x", before="a.b.y"),
    "model inputs": failed_by("model_inputs"),
    "model inputs, of a rank": changed(
        failed_by("model_inputs"), may_diverge_before=True
    ),
    "drift": failed_by("drift"),
    "flip": failed_by("flip"),
    "copies": failed_by("copies"),
    "copies of a rank": failed_by("copies", ranks=[3]),
    "copies of ranks": failed_by("copies", ranks=[3, 4, 7]),
    "not known": failed_by("not_known"),
    "no order": finished(
        7, 2, first_divergence=row(), makers=[new("Maker", **NO_ORDER)]
    ),
    "other inputs": changed(
        failed_by("op"),
        input_difference=new("InputDifference", row=row(), difference="4 against 3"),
    ),
    "elsewhere": finished(3, 0, golden_source="node2:7741", target_source="s3://x/y"),
    "control characters": finished(3, 0, target_run="a\x1b[31m\n\u202e\u0301é中<b>"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_sentence_is_that_of_msitctl(fake: FakeQueries, name: str) -> None:
    comparison = CASES[name]
    fake.answer("ComparisonService/GetComparison", lambda *_: comparison)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MSITCTL_")}
    command = [MSITCTL, "--endpoint", fake.endpoint, "compare", "get", "c-000001"]
    printed = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    sentence = headline(from_message(comparison))
    assert sentence
    assert printed.stdout.splitlines()[:1] == [sentence], printed.stderr


@pytest.mark.parametrize("state", ["pending", "running", "cancelled", "failed"])
def test_a_comparison_that_has_not_finished_has_none(state: str) -> None:
    comparison = from_message(changed(failed_by("op"), state=state))
    assert headline(comparison) == ""
    assert repr(comparison).startswith("<Comparison name=c-000001")


def test_a_comparison_begins_with_its_sentence() -> None:
    comparison = from_message(failed_by("op"))
    lines = repr(comparison).splitlines()
    assert lines[0] == (
        "bad differs from good from a.b on (rank 1, token 3). 2 of 9 tensors fail."
    )
    assert len(lines) == 2
    assert isinstance(comparison, query.Comparison)
