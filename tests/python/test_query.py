"""msitd.query: calls, errors, deadlines, pages and words."""

import copy
import dataclasses
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from datetime import datetime, timedelta, timezone
from typing import Any

import grpc
import pytest
from fake_queries import FakeQueries, fail
from msitd import query
from msitd.query import comparisons, connection, messages
from msitd.query.messages import from_message, message_class, new, to_message

GET_RUN = "RunService/GetRun"
LIST_RUNS = "RunService/ListRuns"
GET_COMPARISON = "ComparisonService/GetComparison"


@pytest.fixture
def fake() -> Iterator[FakeQueries]:
    fake = FakeQueries()
    yield fake
    fake.stop()


@pytest.fixture
def daemon(fake: FakeQueries) -> Iterator[query.Connection]:
    with query.connect(fake.endpoint) as daemon:
        yield daemon


@pytest.mark.parametrize(("message", "mirror"), messages.mirrored().items())
def test_every_field_of_a_message_has_a_field(message: str, mirror: type) -> None:
    fields = [f.name for f in message_class(message).DESCRIPTOR.fields]
    assert {f.name for f in dataclasses.fields(mirror)} == set(fields)


def test_messages_become_dataclasses() -> None:
    run = new("Run", name="r", world_size=2, labels={"k": "v"}, state="sealed")
    run.create_time.seconds, run.create_time.nanos = 1_000_000_000, 5_678
    run.counters.tensor_count = 3
    run.retention.age_max.seconds = 90
    run.ranks_lacking.add(first=1, last=1)
    assert from_message(run) == query.Run(
        name="r",
        world_size=2,
        labels={"k": "v"},
        state="sealed",
        create_time=datetime(2001, 9, 9, 1, 46, 40, 5, tzinfo=timezone.utc),
        counters=query.RunCounters(tensor_count=3),
        retention=query.Retention(age_max=timedelta(seconds=90)),
        ranks_lacking=(query.RankRange(1, 1),),
    )


def test_what_is_absent_is_none() -> None:
    row = from_message(new("ComparisonRow", verdict="unmatched"))
    assert (row.golden, row.rtol, row.amplification) == (None, None, None)
    assert (row.verdict, row.metrics, row.watches) == ("unmatched", {}, ())
    summary = from_message(new("Summary", max=0.0))
    assert (summary.min, summary.max, summary.sum) == (None, 0.0, 0.0)


@pytest.mark.parametrize("name", ["Run", "ComparisonRow", "Comparison", "Tensor"])
def test_dataclasses_of_messages_are_ordinary_objects(name: str) -> None:
    made = from_message(new(name))
    fields = {f.name: getattr(made, f.name) for f in dataclasses.fields(made)}
    assert type(made)(**fields) == made
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
    assert dataclasses.replace(made) == made
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "x"
    other = from_message(new(name))
    for key, value in fields.items():
        assert not isinstance(value, dict) or getattr(other, key) is not value


def test_metrics_are_found_by_name() -> None:
    row = new("ComparisonRow")
    row.metrics.add(metric="cosine", value=0.5)
    assert from_message(row).metrics == {"cosine": 0.5}


def test_a_number_of_a_newer_daemon_stays_one() -> None:
    assert from_message(message_class("msitd.v1.Tensor")(dtype=250)).dtype == "250"


def test_dataclasses_become_messages() -> None:
    policy = query.Policy(
        rules=[query.Rule("*.norm", rtol=1e-3), query.Rule("head", preset="torch")],
        metric_sets=("top-k", "msit", "ulp"),
        shape_rule="squeeze",
        allow_unmatched="*.dropout",
    )
    message = to_message(policy)
    assert [(r.op_pattern, r.rtol, r.HasField("atol")) for r in message.rules] == [
        ("*.norm", 1e-3, False),
        ("head", 0, False),
    ]
    assert message.rules[1].preset == 1
    assert list(message.metric_sets) == [6, 7, 1]
    assert list(message.allow_unmatched) == ["*.dropout"]
    known = from_message(message)
    assert known.metric_sets == ("top_k", "msit_metrics", "ulp")
    assert from_message(to_message(known)) == known


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (query.Policy(preset="pytorch"), ValueError, "none of torch, polygraphy"),
        (query.Policy(top_k=1 << 40), ValueError, "top_k: "),
        (query.Policy(rules=[3]), TypeError, "rules: "),
        (query.Rule(op_pattern=b"\xff"), (TypeError, ValueError), "op_pattern: "),
    ],
)
def test_what_no_message_holds_is_named(value: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        to_message(value)


def test_selections() -> None:
    assert query.select() == query.TensorFilter()
    assert query.select(
        ops="a.*", io=["input", "output"], tokens=[1, range(4, 7)], ranks=range(2)
    ) == query.TensorFilter(
        ranks=(0, 1),
        tokens=(query.TokenRange(1, 1), query.TokenRange(4, 6)),
        op_patterns=("a.*",),
        ios=("input", "output"),
    )
    assert query.select(tokens=range(3)).tokens == (query.TokenRange(0, 2),)
    assert query.select(ranks=5, tokens=7, devices="npu:0") == query.TensorFilter(
        ranks=(5,), devices=("npu:0",), tokens=(query.TokenRange(7, 7),)
    )
    for bad in (range(0), range(0, 9, 2)):
        with pytest.raises(ValueError, match="has no token"):
            query.select(tokens=bad)


def test_an_error_says_code_reason_and_message(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    def refuse(request: Any, context: grpc.ServicerContext) -> None:
        fail(context, grpc.StatusCode.NOT_FOUND, "RUN_NOT_FOUND", "there is no run x")

    fake.answer(GET_RUN, refuse)
    with pytest.raises(query.QueryError) as caught:
        daemon.runs.get("x")
    error = caught.value
    assert (error.code, error.reason) == ("NOT_FOUND", "RUN_NOT_FOUND")
    assert error.message == "there is no run x"
    assert str(error) == "NOT_FOUND (RUN_NOT_FOUND): there is no run x"


@pytest.mark.parametrize("details", [b"", b"\xff\xff\xff", None])
def test_an_error_without_details_has_no_reason(
    fake: FakeQueries, daemon: query.Connection, details: bytes | None
) -> None:
    def refuse(request: Any, context: grpc.ServicerContext) -> None:
        if details is not None:
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
        context.abort(grpc.StatusCode.INTERNAL, "of a proxy")

    fake.answer(GET_RUN, refuse)
    with pytest.raises(query.QueryError) as caught:
        daemon.runs.get("x")
    assert str(caught.value) == "INTERNAL: of a proxy"


def test_calls_have_the_deadlines_of_msitctl(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    left: list[float] = []

    def see(request: Any, context: grpc.ServicerContext) -> Any:
        left.append(context.time_remaining())
        return new("Tensor", name="t", dtype="uint8", shape=(1,), size_bytes=1)

    def stream(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        left.append(context.time_remaining())
        yield new("ReadTensorResponse", data=b"\0")

    fake.answer("TensorService/GetTensor", see)
    fake.answer("TensorService/ReadTensor", stream, streams=True)
    assert daemon.tensors.read_bytes("t") == b"\0"
    # gRPC rounds the deadlines that it sends.
    assert left == [pytest.approx(60, abs=10), pytest.approx(24 * 3600, abs=600)]


def test_a_call_ends_with_its_timeout(fake: FakeQueries) -> None:
    is_over = threading.Event()

    def wait(request: Any, context: grpc.ServicerContext) -> Any:
        is_over.wait(60)
        return new("Run")

    fake.answer(GET_RUN, wait)
    try:
        with (
            query.connect(fake.endpoint, timeout=0.2) as daemon,
            pytest.raises(query.QueryError) as caught,
        ):
            daemon.runs.get("x")
    finally:
        is_over.set()
    assert caught.value.code == "DEADLINE_EXCEEDED"


def test_nobody_there() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{reserved.getsockname()[1]}"
        with (
            query.connect(endpoint) as daemon,
            pytest.raises(query.QueryError, match=f"cannot reach {endpoint}: "),
        ):
            daemon.runs.get("x")


def test_a_connection_that_does_not_come_is_given_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        endpoint = f"127.0.0.1:{silent.getsockname()[1]}"
        with (
            query.connect(endpoint, connect_timeout=0.2) as daemon,
            pytest.raises(query.QueryError, match=f"cannot reach {endpoint}: "),
        ):
            start = time.monotonic()
            daemon.runs.get("x")
        assert time.monotonic() - start < 10


def test_a_closed_connection_says_so(fake: FakeQueries) -> None:
    daemon = query.connect(fake.endpoint)
    daemon.close()
    daemon.close()
    with pytest.raises(query.QueryError, match="is closed"):
        daemon.runs.get("x")


@pytest.mark.parametrize(
    ("endpoint", "target"),
    [
        ("node7:7741", "dns:///node7:7741"),
        ("127.0.0.1:1", "dns:///127.0.0.1:1"),
        ("[::1]:65535", "dns:///[::1]:65535"),
        ("unix:/run/msitd.sock", "unix:/run/msitd.sock"),
    ],
)
def test_endpoints(endpoint: str, target: str) -> None:
    assert connection.target_of(endpoint) == target


@pytest.mark.parametrize(
    "endpoint",
    ["node7", "node7:", ":1", "a:0", "a:65536", "::1:5", "a/b:1", "unix:"]
    + ["unix:/" + 107 * "x", "[]:1", "http://a:1"],
)
def test_what_is_no_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="endpoint"):
        query.connect(endpoint)


def test_variables_of_msitctl_are_taken(
    fake: FakeQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.answer(GET_RUN, lambda request, context: new("Run", name=request.run))
    monkeypatch.setenv("MSITCTL_ENDPOINT", fake.endpoint)
    with query.connect() as daemon:
        assert daemon.runs.get("x").name == "x"
    monkeypatch.setenv("MSITCTL_CA_FILE", "/nonexistent/ca.pem")
    with pytest.raises(FileNotFoundError, match="/nonexistent/ca.pem"):
        query.connect()
    monkeypatch.setenv("MSITCTL_ENDPOINT", "unix:/x.sock")
    with pytest.raises(ValueError, match="TLS does not go with unix:/x.sock"):
        query.connect()


@pytest.mark.parametrize(
    "arguments",
    [
        {"cert_file": "c.pem"},
        {"key_file": "k.pem", "tls": True},
        {"tls": False, "ca_file": "ca.pem"},
        {"timeout": 0},
        {"connect_timeout": timedelta(seconds=-1)},
    ],
)
def test_wrong_settings_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        query.connect("a:1", **arguments)


class Runs:
    """Answers ListRuns with that many runs."""

    def __init__(self, fake: FakeQueries, count: int) -> None:
        self.count = count
        self.sizes: list[int] = []
        fake.answer(LIST_RUNS, self.list)

    def list(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.sizes.append(request.page_size)
        first = int(request.page_token or 0)
        last = min(first + request.page_size, self.count)
        runs = [new("Run", name=f"r{i}") for i in range(first, last)]
        token = str(last) if last < self.count else ""
        return new("ListRunsResponse", runs=runs, next_page_token=token)


def test_pages_are_asked_for_as_rows_are_wanted(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    runs = Runs(fake, 2500)
    listing = daemon.runs.list()
    assert runs.sizes == []
    rows = iter(listing)
    assert [next(rows).name for _ in range(1000)][-1] == "r999"
    assert runs.sizes == [1000]
    assert next(rows).name == "r1000"
    assert runs.sizes == [1000, 1000]
    assert sum(1 for _ in listing) == 2500


@pytest.mark.parametrize(
    ("limit", "sizes"), [(0, []), (1, [1]), (1000, [1000]), (1001, [1000, 1])]
)
def test_no_more_is_asked_for_than_the_limit(
    fake: FakeQueries, daemon: query.Connection, limit: int, sizes: list[int]
) -> None:
    runs = Runs(fake, 5000)
    assert len(list(daemon.runs.list(limit=limit))) == limit
    assert runs.sizes == sizes


def test_a_negative_limit_is_refused(daemon: query.Connection) -> None:
    with pytest.raises(ValueError, match="a limit of -1 rows"):
        daemon.runs.list(limit=-1)


def test_a_list_that_does_not_go_on_ends(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    fake.answer(
        LIST_RUNS,
        lambda request, context: new("ListRunsResponse", next_page_token="again"),
    )
    with pytest.raises(query.QueryError, match="same page token twice"):
        list(daemon.runs.list())
    assert len(fake.requests) == 2


def answer_states(fake: FakeQueries, *states: str | grpc.StatusCode) -> None:
    """Answers GetComparison with these states, then repeats the last one."""
    left = list(states)

    def get(request: Any, context: grpc.ServicerContext) -> Any:
        state = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(state, grpc.StatusCode):
            context.abort(state, "")
        return new("Comparison", name=request.comparison, state=state, pass_count=1)

    fake.answer(GET_COMPARISON, get)


def test_waiting_survives_a_restart(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    lost = grpc.StatusCode.UNAVAILABLE
    answer_states(fake, "pending", lost, lost, "running", "done")
    assert daemon.comparisons.wait("c-000001").verdict == "pass"
    assert len(fake.requests) == 5


def test_waiting_for_a_daemon_that_stays_away_ends(
    fake: FakeQueries, daemon: query.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparisons, "_SLOWEST_POLL_S", 0.001)
    answer_states(fake, grpc.StatusCode.UNAVAILABLE)
    with pytest.raises(query.QueryError) as caught:
        daemon.comparisons.wait("c-000001")
    assert caught.value.code == "UNAVAILABLE"
    assert len(fake.requests) == 10


@pytest.mark.parametrize(
    ("comparison", "line"),
    [
        (
            {"state": "failed", "error": "it is gone", "error_code": 5}
            | {"error_reason": "RUN_NOT_FOUND"},
            "NOT_FOUND (RUN_NOT_FOUND): c failed: it is gone",
        ),
        ({"state": "failed", "error": "why"}, "INTERNAL: c failed: why"),
        ({"state": "cancelled"}, "CANCELLED: c: cancelled by another"),
    ],
)
def test_a_comparison_that_fails_raises(
    fake: FakeQueries,
    daemon: query.Connection,
    comparison: dict[str, Any],
    line: str,
) -> None:
    fake.answer(
        GET_COMPARISON,
        lambda request, context: new("Comparison", **comparison, name="c"),
    )
    with pytest.raises(query.QueryError) as caught:
        daemon.comparisons.wait("c")
    assert str(caught.value) == line


def test_a_comparison_that_is_not_waited_for_is_cancelled(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    cancelled: list[str] = []

    def cancel(request: Any, context: grpc.ServicerContext) -> Any:
        cancelled.append(request.comparison)
        return new("Comparison", name=request.comparison, state="cancelled")

    fake.answer(
        "ComparisonService/CreateComparison",
        lambda request, context: new("Comparison", name="c-000007", state="pending"),
    )
    fake.answer("ComparisonService/CancelComparison", cancel)
    answer_states(fake, "running")
    with pytest.raises(query.QueryError, match="c-000007 has not ended in time"):
        daemon.comparisons.run("g", "t", timeout=0.05)
    assert cancelled == ["c-000007"]


def test_what_ended_the_wait_is_told_though_nothing_can_be_cancelled(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    fake.answer(
        "ComparisonService/CreateComparison",
        lambda request, context: new("Comparison", name="c-000007", state="pending"),
    )
    answer_states(fake, "running")
    with pytest.raises(query.QueryError) as caught:
        daemon.comparisons.run("g", "t", timeout=0.05)
    assert caught.value.code == "DEADLINE_EXCEEDED"


def test_metrics_are_added_in_bounded_calls(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    fake.answer(
        "ComparisonService/AddRowMetrics",
        lambda request, context: new("Comparison", name=request.comparison),
    )
    metric = query.CustomMetric("angle", 0.5)
    daemon.comparisons.add_metrics("c", {row: [metric] for row in range(599, -1, -1)})
    assert [len(request.rows) for request in fake.requests] == [256, 256, 88]
    rows = [row for request in fake.requests for row in request.rows]
    assert [row.row for row in rows] == list(range(600))
    assert {from_message(m) for row in rows for m in row.metrics} == {metric}


def test_a_daemon_that_comes_later_is_found(fake: FakeQueries) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        reserved_endpoint = f"127.0.0.1:{reserved.getsockname()[1]}"
        daemon = query.connect(reserved_endpoint)
        with pytest.raises(query.QueryError):
            daemon.runs.get("x")
    later = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    later.add_generic_rpc_handlers((fake,))
    fake.answer(GET_RUN, lambda request, context: new("Run", name=request.run))
    assert later.add_insecure_port(reserved_endpoint)
    later.start()
    deadline = time.monotonic() + 30
    try:
        while True:
            try:
                assert daemon.runs.get("x").name == "x"
                break
            except query.QueryError as error:
                assert error.code == "UNAVAILABLE"
                assert time.monotonic() < deadline
                time.sleep(0.01)
    finally:
        later.stop(None).wait()
        daemon.close()


def test_following_goes_on_behind_the_last_row(
    fake: FakeQueries, daemon: query.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparisons, "_RETRY_DELAY_S", 0)

    def stream(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        first = request.first_row
        rows = [new("ComparisonRow", row=i) for i in (first, first + 1)]
        yield new("StreamComparisonRowsResponse", rows=rows)
        if first < 4:
            context.abort(grpc.StatusCode.UNAVAILABLE, "going down")

    fake.answer("ComparisonService/StreamComparisonRows", stream, streams=True)
    assert [row.row for row in daemon.comparisons.follow("c")] == list(range(6))
    assert [request.first_row for request in fake.requests] == [0, 2, 4]


def test_rows_are_chosen_by_the_daemon(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    fake.answer(
        "ComparisonService/ListComparisonRows",
        lambda request, context: new("ListComparisonRowsResponse"),
    )
    rows = daemon.comparisons.rows(
        "c", verdicts=["fail", "skipped"], ops="*.mlp", rows=[3, 5], limit=7
    )
    assert list(rows) == []
    [request] = fake.requests
    assert (request.comparison, request.page_size) == ("c", 7)
    assert (list(request.verdicts), list(request.rows)) == ([2, 4], [3, 5])
    assert list(request.op_patterns) == ["*.mlp"]


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"pass_count": 2}, "pass"),
        ({"pass_count": 2, "fail_count": 1}, "fail"),
        ({"pass_count": 2, "unmatched_count": 1}, "fail"),
        ({}, "fail"),
        ({"pass_count": 2, "state": "running"}, "fail"),
        ({"pass_count": 2, "partial": True}, "partial"),
        (
            {"unmatched_count": 1, "for_want_of_ranks_count": 1, "partial": True},
            "partial",
        ),
        (
            {"pass_count": 1, "unmatched_count": 1, "for_want_of_ranks_count": 1},
            "partial",
        ),
        ({"fail_count": 1, "partial": True}, "fail"),
    ],
)
def test_verdicts(fields: dict[str, Any], verdict: str) -> None:
    assert query.Comparison(**{"state": "done", **fields}).verdict == verdict


PROBE = """
import sys
sys.modules.update(dict.fromkeys({hidden!r}))
import msitd
from msitd import query
loaded = {{name.partition(".")[0] for name in sys.modules}}
print(sorted(loaded & {{"grpc", "google", "numpy", "torch", "pandas", "pyarrow"}}))
try:
    query.connect("a:1")
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("hidden", "needs"),
    [([], ""), (["grpc"], "grpcio"), (["google", "google.protobuf"], "protobuf")],
)
def test_nothing_is_imported_before_it_is_needed(hidden: list[str], needs: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(hidden=hidden)],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded, _, said = done.stdout.partition("\n")
    assert loaded == str([name for name in hidden if name in ("grpc", "google")])
    wanted = f"msitd.query needs {needs}: pip install 'msitd[query]'"
    assert said.strip() == (wanted if needs else "")
