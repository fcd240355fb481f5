"""msitd.engines.vllm: workers of vLLM, as stand-ins that are called as in vLLM.

tests/engines tests a real vLLM engine.
"""

import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import engine_vllm
import pytest
import torch
from engine_places import places, signature
from engine_vllm import (
    GPUModelRunner,
    GPUModelRunnerV2,
    Model,
    Worker,
    WorkerWrapperBase,
    batch,
    serve,
)
from msitd.engines.vllm import WorkerExtension, recorder, register

from daemon import ROOT, Daemon

GOLDEN = json.loads((ROOT / "tests/golden/engines/vllm.json").read_text())
RUNNERS = {"v1": GPUModelRunner, "v2": GPUModelRunnerV2}


class ExtendedWorker(Worker, WorkerExtension):
    """The class that vLLM builds from `worker_extension_cls`."""


@pytest.fixture(autouse=True)
def place(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A daemon at the default endpoint of clients."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{daemon.socket_dir}")
    monkeypatch.delenv("MSITD_RUN", raising=False)
    yield


def worker_of(kind: str, **options: int) -> ExtendedWorker:
    torch.manual_seed(0)
    return ExtendedWorker(RUNNERS[kind](Model()), **options)


def rows_of(daemon: Daemon, request: str) -> list[tuple[int, str]]:
    """Returns the tokens of a request, with its part of their batches."""
    flags = ("--request", request, "--ops", "root.embed", "--io", "output")
    listed = daemon.ctl_json("tensor", "list", "--run", "r", *flags)["tensors"]
    return [(int(row.get("token", 0)), row["requests"][0]["rows"]) for row in listed]


def test_stand_ins_and_uses_have_the_signatures_of_the_released_classes() -> None:
    for name, methods in GOLDEN["classes"].items():
        ours = getattr(engine_vllm, name)
        for method, parameters in methods.items():
            if method != "__init__":
                assert signature(getattr(ours, method)) == parameters, (name, method)
    assert set(vars(batch())) <= set(GOLDEN["scheduler_output"])
    # vLLM refuses an extension with a name that a worker already has.
    names = {name for name in vars(WorkerExtension) if not name.startswith("__")}
    assert names == {"msitd_start", "msitd_stop", "msitd_step", "msitd_status"}
    assert not names & set(GOLDEN["worker_names"])


@pytest.mark.parametrize("kind", RUNNERS)
def test_each_step_is_a_token_and_its_requests_have_their_rows(
    kind: str, daemon: Daemon
) -> None:
    plain = serve(WorkerWrapperBase(worker_of(kind)))
    worker = worker_of(kind)
    assert worker.msitd_status() == {}
    assert worker.msitd_start("r")["run"] == "r"
    recorded = serve(WorkerWrapperBase(worker))
    status = worker.msitd_stop()
    assert (status["token"], status["dropped"], status["skipped"]) == (3, 0, {})
    assert all(map(torch.equal, recorded, plain))
    found = places(daemon)
    assert {token for token, *_ in found} == {0, 1, 2}
    assert {op for _, _, op, _ in found} == {
        "root",
        "root.embed",
        "root.layers.0",
        "root.layers.1",
    }
    # b precedes a in the batch.
    assert rows_of(daemon, "a") == [(0, "2:5@0"), (1, "1:2@3")]
    assert rows_of(daemon, "b") == [(0, "0:2@0"), (1, "0:1@2"), (2, "0:1@3")]


def test_drafts_are_rows_of_their_request(daemon: Daemon) -> None:
    worker = worker_of("v1")
    worker.msitd_start("r")
    worker.execute_model(batch({"a": 7}, a=4, b=2))
    # Two of three drafts were accepted.
    worker.execute_model(batch({"a": 10, "b": 2}, a=4, b=1))
    # The scheduler does not wait for the number of accepted drafts.
    worker.model_runner.use_async_scheduling = True
    worker.model_runner.speculative_config = object()
    worker.execute_model(batch({"a": 14}, a=4, c=1))
    worker.msitd_stop()
    assert worker.msitd_status() == {}
    assert rows_of(daemon, "a") == [(0, "2:6@7"), (1, "1:5@10"), (2, "1:5")]
    assert rows_of(daemon, "c") == [(2, "0:1@0")]


@pytest.mark.parametrize("kind", RUNNERS)
def test_nothing_stays_behind(kind: str, daemon: Daemon) -> None:
    worker = worker_of(kind)
    before = dict(vars(worker)), dict(vars(worker.model_runner))
    for _ in range(2):
        worker.msitd_start("r")
        worker.msitd_start("r")
        worker.msitd_stop()
        assert worker.msitd_stop() == {}
    assert (vars(worker), vars(worker.model_runner)) == before
    runs = daemon.ctl_json("run", "list")["runs"]
    assert {run["name"] for run in runs} == {"r", "r-2", "r-3", "r-4"}
    hooks = [
        m._forward_hooks or m._forward_pre_hooks for m in worker.get_model().modules()
    ]
    assert not any(hooks)


def test_steps_by_hand_and_options_reach_the_hooks(daemon: Daemon) -> None:
    worker = worker_of("v1")
    with pytest.raises(RuntimeError, match="call msitd_start"):
        worker.msitd_step()
    worker.msitd_start("r", op_pattern="root.embed", weights=True)
    worker.execute_model(batch(a=1))
    assert worker.msitd_step() == 2
    worker.execute_model(batch(a=1))
    worker.msitd_stop()
    found = places(daemon)
    assert {op for _, _, op, _ in found} == {"root.embed"}
    assert {token for token, *_ in found} == {0, 2}
    assert (0, 0, "root.embed", "weight weight") in found


def test_requests_have_the_ids_that_callers_gave(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = worker_of("v1")
    worker.msitd_start("r")
    twins = {"x-00000001": 1, "x-00000002": 1, "0_chat-1a2b3c4d": 1, "plain": 1}
    worker.execute_model(batch(**twins))
    monkeypatch.setenv("VLLM_DISABLE_REQUEST_ID_RANDOMIZATION", "1")
    worker.execute_model(batch(**{"y-00000003": 1}))
    worker.msitd_stop()
    for token, ids in (
        (0, ("x-00000001", "x-00000002", "0_chat", "plain")),
        (1, ("y-00000003",)),
    ):
        for request in ids:
            rows = daemon.ctl_json("tensor", "list", "--run", "r", "--request", request)
            assert {int(row["token"]) for row in rows["tensors"]} == {token}, request


def test_ranks_are_those_of_all_engines(daemon: Daemon) -> None:
    for replica in (0, 1):
        for rank in (0, 1):
            worker = worker_of(
                "v1",
                rank=rank,
                world_size=2,
                data_parallel_size=2,
                data_parallel_rank=replica,
            )
            status = worker.msitd_start("r")
            assert (status["rank"], status["world_size"]) == (2 * replica + rank, 4)
            worker.execute_model(batch(a=1))
            worker.shutdown()
            assert worker.is_down
    run = daemon.ctl_json("run", "get", "r")
    assert run["world_size"] == 4


def test_the_plugin_records_in_each_process_if_a_run_is_named(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrapper(WorkerWrapperBase):
        """Is changed by the plugin."""

    module = types.ModuleType("vllm.v1.worker.worker_base")
    module.WorkerWrapperBase = Wrapper
    for name in ("vllm", "vllm.v1", "vllm.v1.worker"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    register()
    assert "initialize_from_config" not in vars(Wrapper)
    monkeypatch.setenv("MSITD_RUN", "named")
    register()
    changed = Wrapper.initialize_from_config
    register()
    assert Wrapper.initialize_from_config is changed
    wrapper = Wrapper(worker_of("v1"))
    wrapper.initialize_from_config([1])
    assert wrapper.configs == [1]
    first = recorder.of(wrapper.worker)
    # vLLM also wakes up in this way.
    wrapper.initialize_from_config([1])
    assert recorder.of(wrapper.worker) is first
    serve(wrapper)
    wrapper.worker.msitd_stop()
    # After a stop, vLLM does not restart the recording.
    wrapper.initialize_from_config([1])
    assert wrapper.worker.msitd_status() == {}
    wrapper.worker.shutdown()
    assert {token for token, *_ in places(daemon, "named")} == {0, 1, 2}


def test_a_runner_that_is_none_leaves_no_hooks() -> None:
    worker = worker_of("v1")
    model = worker.get_model()
    worker.get_model = lambda: model
    worker.model_runner = object()
    with pytest.raises(AttributeError, match="execute_model"):
        worker.msitd_start("r")
    assert not any(m._forward_hooks for m in model.modules())
    assert worker.msitd_status() == {}


def test_graphs_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    worker = worker_of("v1")
    worker.model_config.enforce_eager = False
    worker.msitd_start("r")
    worker.msitd_stop()
    assert "enforce_eager=True" in caplog.text


def test_a_step_that_raises_is_a_step(daemon: Daemon) -> None:
    worker = worker_of("v1")
    worker.msitd_start("r")
    worker.get_model().layers[1].register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        worker.execute_model(batch(a=2))
    worker.get_model().layers[1]._forward_hooks.popitem()
    worker.execute_model(batch(a=2))
    assert worker.msitd_status()["token"] == 2
    worker.msitd_stop()
    of_the_second = [op for token, _, op, _ in places(daemon) if token == 1]
    assert "root.layers.1" in of_the_second


def test_a_daemon_that_is_killed_ends_no_step(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    plain = serve(WorkerWrapperBase(worker_of("v1")))
    worker = worker_of("v1")
    worker.msitd_start("r")
    wrapper = WorkerWrapperBase(worker)
    worker.execute_model(batch(a=1))
    daemon.kill()
    assert all(map(torch.equal, serve(wrapper), plain))
    daemon.start()
    status = worker.msitd_stop()
    assert (status["token"], status["dropped"]) == (4, 0)
    # Records made while the daemon was down arrived later.
    assert {token for token, *_ in places(daemon)} == {0, 1, 2, 3}


def test_without_a_daemon_the_worker_is_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MSITD_ENDPOINT", "unix:/nowhere/msitd")
    worker = worker_of("v1")
    before = dict(vars(worker.model_runner))
    with pytest.raises(Exception, match="nowhere"):
        worker.msitd_start("r")
    assert vars(worker.model_runner) == before
    assert worker.msitd_status() == {}
