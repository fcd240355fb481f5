"""Queries with slow patterns that scan every name and match none."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
import msitd
import numpy as np
from msitd.v1 import capture_service_pb2 as capture_pb
from msitd.v1 import capture_service_pb2_grpc as capture_grpc
from msitd.v1 import comparison_service_pb2 as compare_pb
from msitd.v1 import comparison_service_pb2_grpc as compare_grpc
from msitd.v1 import filter_pb2
from msitd.v1 import node_service_pb2 as node_pb
from msitd.v1 import node_service_pb2_grpc as node_grpc
from msitd.v1 import run_service_pb2 as run_pb
from msitd.v1 import run_service_pb2_grpc as run_grpc
from msitd.v1 import tensor_service_pb2 as pb
from msitd.v1 import tensor_service_pb2_grpc as pb_grpc

from daemon import Daemon

RUN = "many-names"
NAMES = 5000
STEM = "a" * 400
# Each pattern takes some ten thousand steps per name, and matches none.
PATTERNS = [f"*{'a' * 60}b{i}" for i in range(64)]
QUERIES = 4
# Limit of a call; without a bound, a query scans all names many times as long.
SOON_S = 2.0


def channel_to(daemon: Daemon) -> grpc.Channel:
    """Returns a connection that no other channel shares."""
    return grpc.insecure_channel(
        daemon.endpoint, options=[("grpc.use_local_subchannel_pool", 1)]
    )


def record(daemon: Daemon, count: int = NAMES) -> None:
    tensor = np.zeros(4, dtype=np.float32)
    endpoint = f"unix:{daemon.socket_dir}"
    with msitd.Client(RUN, endpoint=endpoint, max_block=30) as client:
        for i in range(count):
            client.record(tensor, op=f"{STEM}{i}", token=0, call=0)
        client.flush(30)


def hostile(*more: str) -> filter_pb2.TensorFilter:
    return filter_pb2.TensorFilter(op_patterns=[*PATTERNS[: 64 - len(more)], *more])


@contextmanager
def slow_queries(daemon: Daemon) -> Iterator[Callable[[], int]]:
    """Lists page after page in parallel; yields a function that counts the
    calls begun.
    """
    done = threading.Event()
    begun = [0] * QUERIES
    channels = [channel_to(daemon) for _ in range(QUERIES)]

    def ask(number: int) -> None:
        stub = pb_grpc.TensorServiceStub(channels[number])
        request = pb.ListTensorsRequest(run=RUN, filter=hostile())
        while not done.is_set():
            begun[number] += 1
            call = stub.ListTensors.future(request, timeout=60)
            while not call.done():
                if done.wait(0.01):
                    call.cancel()
                    return
            request.page_token = call.result().next_page_token

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(QUERIES)]
    for thread in threads:
        thread.start()
    try:
        yield lambda: sum(count > 0 for count in begun)
    finally:
        done.set()
        for thread in threads:
            thread.join()
        for channel in channels:
            channel.close()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def is_busy(stub: pb_grpc.TensorServiceStub, name: str) -> bool:
    """Returns true if no reduction thread accepts a call."""
    try:
        stub.ComputeHistogram(pb.ComputeHistogramRequest(name=name), timeout=0.3)
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED, error
        return True
    return False


def test_control_calls_do_not_wait_for_queries(daemon: Daemon) -> None:
    record(daemon)
    channel = channel_to(daemon)
    node = node_grpc.NodeServiceStub(channel)
    runs = run_grpc.RunServiceStub(channel)
    captures = capture_grpc.CaptureServiceStub(channel)
    comparisons = compare_grpc.ComparisonServiceStub(channel)
    rules = [capture_pb.CaptureRule(level=capture_pb.CAPTURE_LEVEL_FULL)]
    policy = capture_pb.CapturePolicy(rules=rules)
    compared = compare_pb.Comparison(golden_run="own", target_run="own")
    calls: list[tuple[Callable[..., object], object]] = [
        (node.GetNodeStatus, node_pb.GetNodeStatusRequest()),
        (node.GetCapabilities, node_pb.GetCapabilitiesRequest()),
        (runs.CreateRun, run_pb.CreateRunRequest(run=run_pb.Run(name="own"))),
        (runs.GetRun, run_pb.GetRunRequest(run="own")),
        (runs.ListRuns, run_pb.ListRunsRequest()),
        (
            captures.SetCapturePolicy,
            capture_pb.SetCapturePolicyRequest(run="own", policy=policy),
        ),
        (captures.GetCapturePolicy, capture_pb.GetCapturePolicyRequest(run="own")),
        (runs.SealRun, run_pb.SealRunRequest(run="own")),
        (
            comparisons.CreateComparison,
            compare_pb.CreateComparisonRequest(comparison=compared),
        ),
        (
            comparisons.GetComparison,
            compare_pb.GetComparisonRequest(comparison="c-000001"),
        ),
        (comparisons.ListComparisons, compare_pb.ListComparisonsRequest()),
        (
            comparisons.CancelComparison,
            compare_pb.CancelComparisonRequest(comparison="c-000001"),
        ),
        (
            comparisons.DeleteComparison,
            compare_pb.DeleteComparisonRequest(comparison="c-000001"),
        ),
        (runs.DeleteRun, run_pb.DeleteRunRequest(run="own")),
    ]
    with slow_queries(daemon) as begun_count:
        wait_until(lambda: begun_count() == QUERIES)
        for call, request in calls:
            call(request, timeout=SOON_S)
    channel.close()


def test_pages_are_short_in_time_and_lead_to_the_end(daemon: Daemon) -> None:
    count = 1200
    record(daemon, count)
    stub = pb_grpc.TensorServiceStub(daemon.channel())
    request = pb.ListTensorsRequest(run=RUN, filter=hostile("*7", "*1?"))
    found: list[str] = []
    tokens = {""}
    while True:
        page = stub.ListTensors(request, timeout=SOON_S)
        found += [tensor.op for tensor in page.tensors]
        if not page.next_page_token:
            break
        assert page.next_page_token not in tokens
        tokens.add(page.next_page_token)
        request.page_token = page.next_page_token
    assert found == [
        f"{STEM}{i}" for i in range(count) if i % 10 == 7 or i // 10 % 10 == 1
    ]


def test_a_list_is_whole_though_its_pages_are_empty(daemon: Daemon) -> None:
    record(daemon, 1000)
    flags = [flag for pattern in PATTERNS[:63] for flag in ("--ops", pattern)]
    listed = daemon.ctl(
        *("-o", "name", "tensor", "list", "--run", RUN, *flags, "--ops", "*99")
    )
    assert len(listed.stdout.splitlines()) == 10


def test_a_cancelled_query_gives_its_thread_back(
    new_daemon: Callable[[], Daemon],
) -> None:
    daemon = new_daemon()
    daemon.start("--query-threads", "1")
    record(daemon)
    stub = pb_grpc.TensorServiceStub(daemon.channel())
    name = stub.ListTensors(pb.ListTensorsRequest(run=RUN)).tensors[0].name
    request = pb.SummarizeTensorsRequest(run=RUN, filter=hostile())
    call = stub.SummarizeTensors.future(request, timeout=60)
    wait_until(lambda: is_busy(stub, name))
    start = time.monotonic()
    call.cancel()
    stub.ComputeHistogram(pb.ComputeHistogramRequest(name=name), timeout=SOON_S)
    assert time.monotonic() - start < SOON_S / 4


def test_queries_do_not_wait_for_reductions(new_daemon: Callable[[], Daemon]) -> None:
    daemon = new_daemon()
    daemon.start("--query-threads", "1")
    record(daemon)
    stub = pb_grpc.TensorServiceStub(daemon.channel())
    listing = pb.ListTensorsRequest(run=RUN, page_size=10)
    name = stub.ListTensors(listing).tensors[0].name
    request = pb.SummarizeTensorsRequest(run=RUN, filter=hostile())
    calls = [stub.SummarizeTensors.future(request, timeout=60) for _ in range(QUERIES)]
    wait_until(lambda: is_busy(stub, name))
    stub.ListTensors(listing, timeout=SOON_S)
    stub.GetTensor(pb.GetTensorRequest(name=name), timeout=SOON_S)
    assert not any(call.done() for call in calls)
    for call in calls:
        call.cancel()
