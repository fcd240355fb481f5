"""msitd.query: arguments that are refused where they are passed, and orders."""

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy
import pytest
from fake_queries import FakeQueries
from msitd import fleet, query
from msitd.query import tensors
from msitd.query.messages import new, to_message

Ask = Callable[[query.Connection], Any]


@pytest.fixture
def fake() -> Iterator[FakeQueries]:
    fake = FakeQueries()
    yield fake
    fake.stop()


@pytest.fixture
def daemon(fake: FakeQueries) -> Iterator[query.Connection]:
    with query.connect(fake.endpoint) as daemon:
        yield daemon


@pytest.mark.parametrize(
    "name", ["ops", "io", "tokens", "ranks", "devices", "kinds", "requests"]
)
@pytest.mark.parametrize("empty", [(), [], set(), iter([])])
def test_an_empty_selection_is_not_everything(name: str, empty: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name}: nothing is selected"):
        query.select(**{name: empty})
    assert query.select(**{name: None}) == query.TensorFilter()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tokens": "0-3"}, "^tokens: expected ints.*got str '0-3'"),
        ({"tokens": ["0"]}, "^tokens: expected an int, got str '0'"),
        ({"tokens": 1.5}, "^tokens: expected an int, got float 1.5"),
        ({"tokens": [True]}, "^tokens: expected an int, got bool True"),
        ({"ranks": "01"}, "^ranks: expected ints, got str '01'"),
        ({"ranks": b"01"}, "^ranks: expected ints, got bytes"),
        ({"ranks": [0, None]}, "^ranks: expected an int, got NoneType None"),
        ({"ops": 5}, "^ops: expected a str, got int 5"),
        ({"ops": b"a"}, "^ops: expected strs, got bytes"),
        ({"io": ["input", 3]}, "^io: expected a str, got int 3"),
    ],
)
def test_what_is_no_selection_is_named(arguments: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        query.select(**arguments)


def test_integers_of_any_type_select() -> None:
    assert query.select(
        tokens=numpy.arange(2), ranks=numpy.int64(3)
    ) == query.TensorFilter(
        ranks=(3,), tokens=(query.TokenRange(0, 0), query.TokenRange(1, 1))
    )
    assert query.select(tokens=numpy.array(4)).tokens == (query.TokenRange(4, 4),)


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda d: d.tensors.list("r", "*.mlp"), TypeError, "^select: expected a Te"),
        (lambda d: d.tensors.find("r", "max > 1", "a"), TypeError, "^select: "),
        (lambda d: d.tensors.find("r", query.select()), TypeError, "^where: "),
        (lambda d: d.tensors.find("r", " "), ValueError, "^where: it is empty"),
        (lambda d: d.tensors.list("r", order="name"), ValueError, "^order: 'name'"),
        (lambda d: d.tensors.list(7), TypeError, "^run: expected a str, got int 7"),
        (lambda d: d.tensors.list("r", limit="5"), TypeError, "^limit: "),
        (lambda d: d.tensors.stats("r", "op"), TypeError, "^select: "),
        (lambda d: d.tensors.stats("r", by=""), ValueError, "^by: it is empty"),
        (lambda d: d.tensors.stats("r", by="layer"), ValueError, "^group_by: 'layer'"),
        (lambda d: d.tensors.histogram("t", bins=0), ValueError, "^bins: 0 is not in"),
        (lambda d: d.tensors.histogram("t", bins=-1), ValueError, "^bins: -1"),
        (lambda d: d.tensors.histogram("t", bins="9"), TypeError, "^bins: "),
        (lambda d: d.tensors.histogram("t", low="0"), TypeError, "^low: expected a nu"),
        (lambda d: d.tensors.read(3), TypeError, "^tensor: expected a str, got int"),
        (lambda d: d.comparisons.run("g", "t", "*"), TypeError, "^select: "),
        (lambda d: d.comparisons.run("g", "t", policy="msit"), TypeError, "^policy: "),
        (lambda d: d.comparisons.run("g", "t", matching={}), TypeError, "^matching: "),
        (lambda d: d.comparisons.create("g", "t", follow=1), TypeError, "follow: "),
        (lambda d: d.comparisons.rows("c", verdicts=[]), ValueError, "^verdicts: "),
        (lambda d: d.comparisons.rows("c", ops=[]), ValueError, "^ops: "),
        (lambda d: d.comparisons.rows("c", rows=[]), ValueError, "^rows: nothing"),
        (lambda d: d.comparisons.rows("c", rows="12"), TypeError, "^rows: "),
        (lambda d: d.comparisons.rows("c", verdicts="red"), ValueError, "none of pass"),
        (lambda d: d.comparisons.get(1), TypeError, "^comparison: "),
        (lambda d: d.comparisons.get(""), ValueError, "^comparison: "),
        (lambda d: d.comparisons.wait("c", timeout="5"), TypeError, "^timeout: "),
        (lambda d: d.captures.set("r", "*"), TypeError, "^select: "),
        (lambda d: d.captures.set("r", rules=[]), ValueError, "^rules: nothing"),
        (lambda d: d.captures.set("r", rules=["off"]), TypeError, "rules: expected a"),
        (lambda d: d.runs.create("r", labels="a=b"), TypeError, "^labels: expected"),
        (lambda d: d.runs.list(limit=2.5), TypeError, "^limit: "),
        (lambda d: fleet.compare(golden="g", target="t", select="x"), TypeError, "sel"),
    ],
)
def test_wrong_arguments_are_refused_before_a_call(
    fake: FakeQueries, daemon: query.Connection, ask: Ask, error: Any, words: str
) -> None:
    with pytest.raises(error, match=words):
        ask(daemon)
    assert fake.requests == []


def test_nodes_refuse_what_one_daemon_refuses(fake: FakeQueries) -> None:
    with query.connect_fleet(fake.endpoint) as nodes:
        with pytest.raises(TypeError, match="^select: "):
            nodes.tensors.list("r", "*.mlp")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="^where: "):
            nodes.tensors.find("r", "")
        with pytest.raises(TypeError, match="^limit: "):
            nodes.runs.list(limit="1")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="^select: "):
            nodes.tensors.stats("r", "op")  # type: ignore[arg-type]
    assert fake.requests == []


def test_none_and_no_watch_are_no_selection(daemon: query.Connection) -> None:
    daemon.comparisons.rows("c", verdicts=None, ops=None, rows=None)
    with pytest.raises(query.QueryError, match="UNIMPLEMENTED"):
        daemon.comparisons.create("g", "t", watches=[])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (query.TensorFilter(ranks=3), "^ranks: expected several values, got int 3"),
        (query.TensorFilter(ranks="01"), "^ranks: expected an int, got str '01'"),
        (query.TensorFilter(tokens=(4,)), "^tokens: expected a TokenRange, got int 4"),
        (query.Rule(rtol="1e-3"), "^rtol: expected a number, got str"),
        (query.Matching(ignore_case="no"), "^ignore_case: expected a bool, got str"),
        (query.CaptureRule(filter="*"), "^filter: expected a TensorFilter, got str"),
        ("*", "expected a class of msitd.query, got str"),
    ],
)
def test_a_field_of_another_type_is_named(value: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        to_message(value)


class Listed:
    """Answers ListTensors with tensors in index order, two per page."""

    def __init__(self, fake: FakeQueries, places: list[tuple[int, int, int]]) -> None:
        self.places = sorted(places)  # Rank, token, position in execution.
        self.asked: list[int] = []
        fake.answer("TensorService/ListTensors", self.list)

    def list(self, request: Any, context: grpc.ServicerContext) -> Any:
        tokens = request.filter.tokens
        self.asked.append(tokens[0].last if tokens else -1)
        found = [
            (rank, token, sequence)
            for rank, token, sequence in self.places
            if not tokens or any(t.first <= token <= t.last for t in tokens)
        ]
        first = int(request.page_token or 0)
        last = first + min(request.page_size, 2)
        out = new(
            "ListTensorsResponse", next_page_token=str(last) if found[last:] else ""
        )
        for rank, token, sequence in found[first:last]:
            name = f"{rank}/{token}/{sequence}"
            out.tensors.add(name=name, rank=rank, token=token, sequence=sequence)
        return out


# Ranks 0 and 1. On rank 1, some records belong to an earlier token.
PLACES = [(0, 1, 9), (0, 1, 7), (0, 2, 30), (1, 0, 4), (1, 1, 8), (1, 2, 2)]


@pytest.mark.parametrize("limit", [None, 1, 2, 5, 6, 7])
def test_found_tensors_are_in_execution_order(
    fake: FakeQueries, daemon: query.Connection, limit: int | None
) -> None:
    Listed(fake, PLACES)
    names = [t.name for t in daemon.tensors.find("r", "nan_count > 0", limit=limit)]
    wanted = ["1/0/4", "0/1/7", "1/1/8", "0/1/9", "1/2/2", "0/2/30"]
    assert names == wanted[:limit]
    assert [t.name for t in daemon.tensors.list("r", limit=2)] == ["0/1/7", "0/1/9"]


def test_later_tokens_are_not_read_behind_a_limit(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    listed = Listed(fake, PLACES)
    chosen = query.select(tokens=range(1, 9))
    [first] = daemon.tensors.find("r", "max > 0", chosen, limit=1)
    assert first.name == "0/1/7"
    assert listed.asked == [8, 1, 1]
    assert next(iter(daemon.tensors.find("r", "max > 0", limit=0)), None) is None


def test_too_many_to_put_in_order_is_said(
    fake: FakeQueries, daemon: query.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    Listed(fake, PLACES)
    monkeypatch.setattr(tensors, "_ORDERED_MAX", len(PLACES) - 1)
    with pytest.raises(query.QueryError, match="more than 5 tensors to put in order"):
        list(daemon.tensors.find("r", "max > 0"))
    monkeypatch.setattr(tensors, "_ORDERED_MAX", len(PLACES))
    assert len(list(daemon.tensors.find("r", "max > 0"))) == len(PLACES)
