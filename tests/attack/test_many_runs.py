"""Thousands of runs with the maximum number of labels."""

import os
import threading
import time
from pathlib import Path

import grpc
from msitd.v1 import run_service_pb2 as run_pb2
from msitd.v1 import run_service_pb2_grpc as run_grpc

from daemon import Daemon

# A reduced number; 4,000 for the full attack.
RUNS = int(os.environ.get("MSITD_ATTACK_RUNS", "1000"))
LABELS = {f"label-{i:02}": "v" * 1000 for i in range(64)}
IDLE_S = 5

# Memory of a store for labels, plus some for the objects that hold them.
RSS_BYTES_MAX = 128 << 20
# An idle daemon wakes once a second; a core has 100 ticks a second.
CPU_SHARE_MAX = 0.02
MESSAGE_BYTES_MAX = 2 << 20


def rss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmRSS")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def create_runs(stub: run_grpc.RunServiceStub) -> tuple[int, list[grpc.RpcError]]:
    """Creates runs until they are refused; returns their number and the errors."""
    made = 0
    refusals: list[grpc.RpcError] = []
    pending = []
    for i in range(RUNS):
        run = run_pb2.Run(name=f"run-{i:05}", labels=LABELS)
        pending.append(stub.CreateRun.future(run_pb2.CreateRunRequest(run=run)))
        if len(pending) < 16 and i + 1 < RUNS:
            continue
        for call in pending:
            error = call.exception(timeout=30)
            made += error is None
            refusals += [error] if error is not None else []
        pending.clear()
    return made, refusals


def test_labels_are_bounded_and_cost_nothing_when_idle(daemon: Daemon) -> None:
    assert daemon.process is not None
    pid = daemon.process.pid
    before = rss_bytes(pid)
    stub = run_grpc.RunServiceStub(daemon.channel())
    made, refusals = create_runs(stub)
    # Runs without labels cost little.
    for i in range(50):
        run = run_pb2.Run(name=f"bare-{i:05}")
        stub.CreateRun(run_pb2.CreateRunRequest(run=run), timeout=30)
    begin = cpu_seconds(pid)
    threading.Event().wait(IDLE_S)
    share = (cpu_seconds(pid) - begin) / IDLE_S
    grown = rss_bytes(pid) - before
    print(f"runs={made} rss={grown >> 20} MiB cpu={share:.3f}")
    assert share <= CPU_SHARE_MAX
    assert grown <= RSS_BYTES_MAX
    # One caller gets eleven sixteenths of the space for labels.
    assert made >= 330
    assert all(e.code() == grpc.StatusCode.RESOURCE_EXHAUSTED for e in refusals)
    assert all(
        b"RUNS_EXHAUSTED" in value
        for e in refusals
        for key, value in e.trailing_metadata()
        if key == "grpc-status-details-bin"
    )
    assert len(refusals) == RUNS - made


def test_pages_of_runs_are_bounded_in_bytes(daemon: Daemon) -> None:
    stub = run_grpc.RunServiceStub(daemon.channel())
    for i in range(40):
        run = run_pb2.Run(name=f"run-{i:05}", labels=LABELS)
        stub.CreateRun(run_pb2.CreateRunRequest(run=run), timeout=30)
    names: list[str] = []
    token = ""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        page = stub.ListRuns(
            run_pb2.ListRunsRequest(page_size=1000, page_token=token), timeout=30
        )
        assert page.ByteSize() <= MESSAGE_BYTES_MAX
        names += [run.name for run in page.runs]
        token = page.next_page_token
        if not token:
            break
    assert names == [f"run-{i:05}" for i in range(40)]
