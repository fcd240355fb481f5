"""Writes the run in float64 that a run is compared with.

The golden run has the ranks, tokens, ops, calls and indexes of the run, in the same
order of execution. Inputs are the recorded bytes, of which only the summaries and
hashes are stored: a comparison then finds that the inputs of each op are equal, so
that only the op itself can be wrong. Results are the exact ones, and for each of them
the run states what a correct result may differ by. docs/verify.md has the details.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msitd._core.client import Client
from msitd.query import CaptureRule, select
from msitd.query.errors import QueryError
from msitd.verify.records import INPUTS, CallKey
from msitd.verify.unchecked import Unchecked

if TYPE_CHECKING:
    from typing_extensions import Self

    from msitd.query import Connection, Run, Tensor
    from msitd.verify.scores import Checked, Score

SUFFIX = ".float64"
_RUN_NAME_MAX = 128
_INDEX_MAX = 128
# Texts of this size are never cut.
_TEXT_MAX = 900

# The labels of the golden run. `tolerances` is that of protos/base/tolerance_record.h.
_SOURCE = "float64_of"
_SOURCE_ID = "float64_of_id"
_LABELS = {"tolerances": "stated", "source": "float64"}

PASS_IF = "pass if "
NOT_CHECKED = "not checked: "
COVERED = "covered: "
UNITS = "units."
TOLERANCE = "tolerance."

# Maximum time in seconds that a record waits for memory.
_MAX_BLOCK_S = 300.0


class WrongGolden(ValueError):
    """The name of the golden run is that of another run."""


def name_of(run: str, given: str | None) -> str:
    """Returns the name of the golden run.

    Raises:
        ValueError: It would be too long.
    """
    name = given or run + SUFFIX
    if len(name.encode()) > _RUN_NAME_MAX:
        raise ValueError(
            "the name of the run in float64 is too long: give it with --as"
        )
    return name


def prepare(daemon: Connection, run: Run, name: str) -> bool:
    """Creates the golden run, or finds that of an earlier call.

    Returns:
        Whether it is complete.

    Raises:
        WrongGolden: There is another run of that name.
    """
    labels = {**_LABELS, _SOURCE: run.name, _SOURCE_ID: run.id}
    try:
        daemon.runs.create(name, world_size=run.world_size, labels=labels)
    except QueryError as error:
        if error.code != "ALREADY_EXISTS":
            raise
        found = daemon.runs.get(name)
        if any(found.labels.get(key) != value for key, value in labels.items()):
            raise WrongGolden(
                f"run {name} exists and is not {run.name} in float64: delete it, or "
                f"give another name with --as"
            ) from error
        return found.state == "sealed"
    inputs = select(io=INPUTS)
    rules = [CaptureRule(inputs, "summary"), CaptureRule(None, "full")]
    daemon.captures.set(name, rules=rules, first_token=0)
    return False


class GoldenWriter:
    """Writes one rank of the golden run. A context manager."""

    def __init__(self, name: str, rank: int, world_size: int) -> None:
        self._client = Client(
            name,
            rank,
            max(world_size, rank + 1),
            if_exists="append",
            max_block=_MAX_BLOCK_S,
            on_drop="raise",
            job="msitd.verify",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._client.close(check=kind is None)

    def flush(self) -> None:
        """Waits until everything is stored."""
        self._client.flush(timeout=_MAX_BLOCK_S)

    def write_input(self, record: Tensor, tensor: Any) -> None:
        """Writes a tensor that the op was given."""
        self._record(record, tensor)

    def write_result(self, record: Tensor, outcome: Checked | Unchecked) -> None:
        """Writes what is known about a result. The statement on it is written last, so that
        a result that has one is complete.
        """
        if isinstance(outcome, Unchecked):
            detail = f" ({outcome.detail})" if outcome.detail else ""
            self.state(record, NOT_CHECKED + outcome.reason + detail)
            return
        if len(_index_of(record, TOLERANCE).encode()) > _INDEX_MAX:
            # Without its statement, the default policy would judge the result. The
            # row is unmatched instead.
            return
        self._record(record, outcome.golden)
        self._text(record, UNITS, units_text(outcome.score))
        self.state(record, PASS_IF + outcome.score.predicate)

    def state(self, record: Tensor, text: str) -> None:
        """States what the result at the place of `record` may differ by."""
        self._text(record, TOLERANCE, text)

    def _record(self, record: Tensor, tensor: Any) -> None:
        self._client.record(
            tensor.detach().contiguous(),
            op=record.op,
            io=record.io,
            index=record.index,
            token=record.token,
            call=record.call,
            device=record.device,
            requires_grad=record.requires_grad,
        )

    def _text(self, record: Tensor, prefix: str, text: str) -> None:
        index = _index_of(record, prefix)
        if len(index.encode()) > _INDEX_MAX:
            return
        encoded = text.replace("\0", " ").encode(errors="replace")[:_TEXT_MAX]
        self._client.record_value(
            encoded.decode(errors="ignore"),
            op=record.op,
            io="state",
            index=index,
            token=record.token,
            call=record.call,
            device=record.device,
        )


def _index_of(record: Tensor, prefix: str) -> str:
    """Returns the index of a text about a result."""
    return f"{prefix}{record.io}/{record.index}"


def units_text(score: Score) -> str:
    """Returns the scores of a result as text, for `parse_units`."""
    place = ",".join(map(str, score.place))
    text = f"{score.norm:.4g} {score.worst:.4g} [{place}]"
    return f"{text} {score.problem}" if score.problem else text


def parse_units(text: str) -> tuple[float, float, str]:
    """Returns the norm, the worst element, and a description, from `units_text`."""
    norm, _, rest = text.partition(" ")
    worst, _, rest = rest.partition(" ")
    place, _, problem = rest.partition(" ")
    try:
        values = float(norm), float(worst)
    except ValueError:
        return float("nan"), float("nan"), ""
    at = f"at {place}" if place != "[]" else ""
    return *values, problem or at


def done_in(
    daemon: Connection, name: str, rank: int, token: int
) -> set[tuple[CallKey, str, str]]:
    """Returns the results and inputs of a rank and token that the golden run has, by
    call, io and index.
    """
    out = set()
    chosen = select(ranks=rank, tokens=token, kinds=("tensor", "text"))
    for record in daemon.tensors.list(name, chosen):
        key = CallKey(record.op, record.call)
        if record.kind == "tensor":
            if record.io in INPUTS:
                out.add((key, record.io, record.index))
            continue
        if record.io == "state" and record.index.startswith(TOLERANCE):
            io, _, index = record.index.removeprefix(TOLERANCE).partition("/")
            out.add((key, io, index))
    return out
