"""Comparisons of a local run with a run of another daemon."""

import time
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import node_runs
import pytest
import trustme
from msitd.v1 import comparison_matching_pb2 as matching_pb
from msitd.v1 import comparison_service_pb2 as pb
from msitd.v1 import comparison_service_pb2_grpc as pb_grpc
from msitd.v1 import filter_pb2 as filter_pb
from wire import refusal

from daemon import Daemon, stopped

FAILED, USAGE = 1, 2
TIMEOUT_S = 60
Daemons = tuple[Daemon, Daemon, Daemon]


def socket_of(daemon: Daemon) -> str:
    return f"unix:{daemon.socket_dir}/msitd.sock"


def service(daemon: Daemon) -> pb_grpc.ComparisonServiceStub:
    return pb_grpc.ComparisonServiceStub(daemon.channel())


def create(daemon: Daemon, **fields: Any) -> pb.Comparison:
    request = pb.CreateComparisonRequest(comparison=pb.Comparison(**fields))
    return service(daemon).CreateComparison(request, timeout=TIMEOUT_S)


def ended(daemon: Daemon, name: str) -> pb.Comparison:
    """Returns a comparison once it has ended."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        comparison = service(daemon).GetComparison(
            pb.GetComparisonRequest(comparison=name), timeout=TIMEOUT_S
        )
        if comparison.state not in (pb.Comparison.PENDING, pb.Comparison.RUNNING):
            return comparison
        assert time.monotonic() < deadline, comparison
        time.sleep(0.02)


def rows(daemon: Daemon, name: str) -> list[bytes]:
    """Returns the rows of a comparison with all of their fields."""
    request = pb.StreamComparisonRowsRequest(comparison=name)
    out = []
    for message in service(daemon).StreamComparisonRows(request, timeout=TIMEOUT_S):
        out.extend(row.SerializeToString(deterministic=True) for row in message.rows)
    return out


def header(comparison: pb.Comparison) -> pb.Comparison:
    """Returns a comparison without the place and time of its creation."""
    out = pb.Comparison()
    out.CopyFrom(comparison)
    for field in ("name", "create_time", "end_time", "read_bytes", "golden_source"):
        out.ClearField(field)
    for field in ("golden_run_id", "target_run_id", "stored_size_bytes"):
        out.ClearField(field)
    return out


def start_node(daemon: Daemon, peer: Daemon, *flags: str) -> None:
    daemon.start("--peers", socket_of(peer), "--peer-timeout-ms", "3000", *flags)


@pytest.fixture
def nodes(new_daemon: Callable[[], Daemon]) -> Daemons:
    """One daemon that has both runs, one that has the golden run, one the target."""
    whole, far, near = new_daemon(), new_daemon(), new_daemon()
    whole.start()
    far.start()
    start_node(near, far)
    return whole, far, near


def record(nodes: Daemons, golden: node_runs.Run, target: node_runs.Run) -> None:
    whole, far, near = nodes
    # Names have other internal numbers on the two daemons.
    node_runs.send(near, "before", node_runs.golden(999))
    for daemon in (whole, far):
        node_runs.send(daemon, "g", golden)
    for daemon in (whole, near):
        node_runs.send(daemon, "t", target)


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "every kind": {"filter": filter_pb.TensorFilter(kinds=range(6))},
    "one rank and token": {
        "filter": filter_pb.TensorFilter(
            ranks=[0, 2], tokens=[filter_pb.TokenRange(first=1, last=1)]
        )
    },
    "some ops": {"filter": filter_pb.TensorFilter(op_patterns=["layer.1.*", "sh*"])},
    # The golden bytes of equal groups are needed.
    "other pairs": {
        "matching": matching_pb.Matching(
            rewrites=[
                matching_pb.Matching.Rewrite(
                    regex=r"layer\.0\.(.*)", replacement=r"layer.1.\1"
                )
            ]
        )
    },
    "later tokens": {"matching": matching_pb.Matching(token_offset=1)},
    "no bytes of what is proven": {"reading": pb.Comparison.UNPROVEN},
    "samples": {"reading": pb.Comparison.SAMPLES},
}


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_those_of_one_store(nodes: Daemons, seed: int) -> None:
    whole, far, near = nodes
    golden = node_runs.golden(seed)
    record(nodes, golden, node_runs.target(golden, seed + 100))
    for case, fields in CASES.items():
        one = create(whole, golden_run="g", target_run="t", **fields)
        two = create(
            near, golden_run="g", target_run="t", golden_source=socket_of(far), **fields
        )
        end_of_one, end_of_two = ended(whole, one.name), ended(near, two.name)
        assert end_of_one.state == pb.Comparison.DONE, (case, end_of_one)
        assert header(end_of_two) == header(end_of_one), case
        expected = rows(whole, one.name)
        assert rows(near, two.name) == expected, case
        assert len(expected) > 5 or case == "one rank and token"


def test_rows_are_those_of_one_store_without_bytes(nodes: Daemons) -> None:
    whole, far, near = nodes
    golden = node_runs.golden(50)
    record(nodes, golden, node_runs.target(golden, 150))
    gone = []
    for daemon in (whole, far):
        # Nothing in the current segment is deleted.
        daemon.stop()
        daemon.start()
        daemon.ctl("run", "retain", "g", "--bytes", "1")
        deadline = time.monotonic() + TIMEOUT_S
        last, now = 0, 0
        while now == 0 or now != last:
            assert time.monotonic() < deadline
            time.sleep(1)
            counters = daemon.ctl_json("run", "get", "g")["counters"]
            last, now = now, int(counters.get("expired_size_bytes", 0))
        gone.append(now)
    assert gone[0] == gone[1]
    one = create(whole, golden_run="g", target_run="t")
    two = create(near, golden_run="g", target_run="t", golden_source=socket_of(far))
    assert header(ended(near, two.name)) == header(ended(whole, one.name))
    assert rows(near, two.name) == rows(whole, one.name)


def test_the_target_may_lie_elsewhere_or_both(nodes: Daemons) -> None:
    whole, far, near = nodes
    golden = node_runs.golden(60)
    target = node_runs.target(golden, 160)
    record(nodes, golden, target)
    node_runs.send(far, "t2", target)
    node_runs.send(whole, "t2", target)
    node_runs.send(near, "g", golden)
    one = create(whole, golden_run="g", target_run="t2")
    expected = rows(whole, one.name)
    for sources in ({"golden_source": socket_of(far)}, {}):
        two = create(
            near,
            golden_run="g",
            target_run="t2",
            target_source=socket_of(far),
            **sources,
        )
        assert rows(near, two.name) == expected
        assert ended(near, two.name).state == pb.Comparison.DONE
    # The comparison does not depend on a local run, so no deletion removes it.
    near.ctl("run", "delete", "before", "--yes")
    time.sleep(1)
    assert rows(near, two.name) == expected


def test_msitctl_says_where_the_golden_run_lies(nodes: Daemons, tmp_path: Path) -> None:
    _, far, near = nodes
    golden = node_runs.golden(70)
    record(nodes, golden, golden)
    flags = ("compare", "run", "g", "t", "--golden-endpoint", socket_of(far))
    answer = near.ctl(*flags, "--rows", "none").stdout
    assert f"golden g at {socket_of(far)}, target t" in answer
    name = answer.partition("comparison ")[2].split()[0].strip(":")
    got = near.ctl_json("compare", "get", name)
    assert got["golden_source"] == socket_of(far)
    assert socket_of(far) in near.ctl("compare", "list").stdout
    page = tmp_path / "page.html"
    near.ctl("compare", "report", name, "--out", str(page))
    assert f"g at {socket_of(far)}" in page.read_text()
    for refused in (("--follow",), ("--match", "msprobe"), ("--plugin", "x.py:f")):
        result = near.ctl(*flags, *refused, expect=USAGE)
        assert refused[0] in result.stderr
    result = near.ctl("compare", "metric", name, "--plugin", "x.py:f", expect=None)
    assert result.returncode != 0
    near.ctl("compare", "delete", name, "--yes")


def refused(daemon: Daemon, **fields: Any) -> Any:
    with pytest.raises(grpc.RpcError) as error:
        create(daemon, golden_run="g", target_run="t", **fields)
    return refusal(error.value)


def test_what_cannot_be_is_refused(nodes: Daemons) -> None:
    _, far, near = nodes
    golden = node_runs.golden(80)
    record(nodes, golden, golden)
    node_runs.send(far, "active", golden, seals=False)
    other = refused(near, golden_source="127.0.0.1:1")
    assert other.code == grpc.StatusCode.PERMISSION_DENIED
    assert "`peers`" in other.message
    # A daemon does not list itself as a peer by default.
    assert "`peers`" in refused(far, golden_source=socket_of(far)).message
    unknown = refused(near, golden_source="elsewhere")
    assert unknown.reason == "FIELD_INVALID"
    follow = refused(near, golden_source=socket_of(far), follow=True)
    assert (follow.reason, "followed" in follow.message) == ("FIELD_INVALID", True)
    mapping = refused(
        near,
        golden_source=socket_of(far),
        matching=matching_pb.Matching(
            mapping=matching_pb.Matching.Mapping(
                attachment="m", side=matching_pb.Matching.Mapping.GOLDEN
            )
        ),
    )
    assert "attach the mapping to the other run" in mapping.message
    with pytest.raises(grpc.RpcError) as error:
        create(near, golden_run="active", target_run="t", golden_source=socket_of(far))
    active = refusal(error.value)
    assert active.code == grpc.StatusCode.FAILED_PRECONDITION
    assert "not sealed" in active.message
    with pytest.raises(grpc.RpcError) as error:
        create(near, golden_run="none", target_run="t", golden_source=socket_of(far))
    absent = refusal(error.value)
    assert absent.reason == "RUN_NOT_FOUND"
    assert socket_of(far) in absent.message


def queue(near: Daemon, far: Daemon, count: int) -> list[str]:
    """Starts comparisons, only the first of which runs at once."""
    return [
        create(
            near,
            golden_run="g",
            target_run="t",
            golden_source=socket_of(far),
            detach=True,
        ).name
        for _ in range(count)
    ]


@pytest.fixture
def slow(new_daemon: Callable[[], Daemon]) -> Daemons:
    """Like `nodes`, with one thread for comparisons, which take some time."""
    whole, far, near = new_daemon(), new_daemon(), new_daemon()
    whole.start()
    far.start()
    start_node(near, far, "--comparison-threads", "1")
    golden = node_runs.golden(90)
    for rank in golden:
        golden[rank] *= 20
        for token, (flags, records) in enumerate(golden[rank]):
            records = [node_runs.copy.deepcopy(record) for record in records]
            for one in records:
                one.token = token
            golden[rank][token] = (flags, records)
    record((whole, far, near), golden, node_runs.target(golden, 190))
    return whole, far, near


def test_a_peer_that_stops_is_named(slow: Daemons) -> None:
    _, far, near = slow
    names = queue(near, far, 6)
    with stopped(far):
        begin = time.monotonic()
        states = [ended(near, name) for name in names]
        assert time.monotonic() - begin < 6 * 4 + 5
        late = refused(near, golden_source=socket_of(far))
        assert late.code == grpc.StatusCode.UNAVAILABLE
        assert socket_of(far) in late.message
    failed = [state for state in states if state.state == pb.Comparison.FAILED]
    assert failed
    for state in failed:
        assert socket_of(far) in state.error
        assert "3000 ms" in state.error
        assert state.error_code == grpc.StatusCode.UNAVAILABLE.value[0]
    again = queue(near, far, 1)
    assert ended(near, again[0]).state == pb.Comparison.DONE


def test_a_peer_that_comes_back_is_read_on(slow: Daemons) -> None:
    whole, far, near = slow
    expected = rows(whole, create(whole, golden_run="g", target_run="t").name)
    names = queue(near, far, 6)
    far.kill()
    time.sleep(0.3)
    far.start()
    for name in names:
        end = ended(near, name)
        assert end.state == pb.Comparison.DONE, end.error
        assert rows(near, name) == expected


def test_a_run_that_goes_meanwhile_is_named(slow: Daemons) -> None:
    _, far, near = slow
    names = queue(near, far, 6)
    far.ctl("run", "delete", "g", "--yes")
    states = [ended(near, name) for name in names]
    failed = [state for state in states if state.state == pb.Comparison.FAILED]
    assert failed
    for state in failed:
        assert state.error_reason == "RUN_NOT_FOUND"
        assert socket_of(far) in state.error


def test_daemons_of_other_kinds_are_told(new_daemon: Callable[[], Daemon]) -> None:
    near = new_daemon()
    garbage = f"unix:{near.socket_dir}/garbage.sock"
    old = f"unix:{near.socket_dir}/old.sock"
    near.start("--peers", garbage, "--peers", old, "--peer-timeout-ms", "1000")
    node_runs.send(near, "t", node_runs.golden(1))

    class Garbage(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return grpc.unary_stream_rpc_method_handler(
                lambda request, context: iter([b"\xff\xff garbage"])
            )

    for endpoint, handlers, words in (
        (garbage, [Garbage()], ""),
        (old, [], "of a version that lends no runs"),
    ):
        server = grpc.server(futures.ThreadPoolExecutor(2))
        server.add_generic_rpc_handlers(tuple(handlers))
        server.add_insecure_port(endpoint)
        server.start()
        answer = refused(near, golden_source=endpoint)
        assert endpoint in answer.message
        assert words in answer.message
        assert answer.reason in ("SOURCE_FAILED", "")
        server.stop(None)


def test_peers_show_certificates(
    new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    files = {}
    for who, identity in (("far", "127.0.0.1"), ("near", "node@example.org")):
        issued = authority.issue_cert(identity)
        files[who] = (str(tmp_path / f"{who}.pem"), str(tmp_path / f"{who}.key"))
        issued.cert_chain_pems[0].write_to_path(files[who][0])
        issued.private_key_pem.write_to_path(files[who][1])
    ca, other_ca = str(tmp_path / "ca.pem"), str(tmp_path / "other.pem")
    authority.cert_pem.write_to_path(ca)
    stranger.cert_pem.write_to_path(other_ca)

    far, near = new_daemon(), new_daemon()
    far.start()
    node_runs.send(far, "g", node_runs.golden(1))
    far.stop()
    tls = ("--tls-cert", files["far"][0], "--tls-key", files["far"][1])
    far.start(*tls, "--tls-client-ca", ca)
    near.start()
    node_runs.send(near, "t", node_runs.golden(1))
    near.stop()
    own = (
        "--peer-certificate-file",
        files["near"][0],
        "--peer-key-file",
        files["near"][1],
    )
    for flags, works in (
        (("--peer-ca-file", ca, *own), True),
        (("--peer-ca-file", ca), False),
        (("--peer-ca-file", other_ca, *own), False),
        ((), False),
    ):
        near.start("--peers", far.endpoint, "--peer-timeout-ms", "2000", *flags)
        if works:
            made = create(
                near, golden_run="g", target_run="t", golden_source=far.endpoint
            )
            assert ended(near, made.name).state == pb.Comparison.DONE
        else:
            answer = refused(near, golden_source=far.endpoint)
            assert answer.code == grpc.StatusCode.UNAVAILABLE
            assert far.endpoint in answer.message
        near.stop()
