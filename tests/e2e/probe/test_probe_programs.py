"""msitd.probe: programs that dump: loaded inputs, seeds, their end, lost daemons."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from msitd import probe
from msitd.probe import debugger as debuggers
from probe_dumps import (
    Net,
    config,
    debugger_of,
    load,
    names,
    probe_place,  # noqa: F401
    run,
    steps_of,
)
from probe_models import entries, make, train
from torch import nn

from daemon import Daemon


def test_a_backward_behind_the_end_of_a_debugger_runs() -> None:
    debugger = debugger_of("debug")
    x = torch.ones(2, requires_grad=True)
    debugger.save(x, "x")
    debugger.close()
    (x * 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2]


def test_the_file_is_looked_at_while_the_program_runs(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msitd.probe.reloading._ENABLED_S", 0.0)
    monkeypatch.setattr("msitd.probe.reloading._DISABLED_S", 0.0)
    file = config(place, level="L0", dump_enable=False)
    debugger = probe.PrecisionDebugger(str(file))
    model = Net()
    run(debugger, model)
    config(place, level="L0", dump_enable=True, block_data_mode=["forward"])
    run(debugger, model)
    # An invalid file changes nothing.
    file.write_text("{")
    run(debugger, model)
    config(place, level="L1", dump_enable=True)
    run(debugger, model)
    config(place, level="L1", dump_enable=False)
    run(debugger, model)
    assert steps_of(Path("dump")) == {"step1", "step2", "step3"}
    assert names(Path("dump/step1")) == names(Path("dump/step2"))
    assert all("forward" in name for name in names(Path("dump/step1")))
    assert "Functional.linear.0.forward" in names(Path("dump/step3"))


def test_without_dump_enable_the_file_is_not_looked_at(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msitd.probe.reloading._ENABLED_S", 0.0)
    debugger = probe.PrecisionDebugger(str(config(place, level="L0")))
    model = Net()
    run(debugger, model)
    config(place, level="L0", dump_enable=False)
    run(debugger, model)
    assert steps_of(Path("dump")) == {"step0", "step1"}


def loaded(place: Path, begins_at: int = 0, **keys: Any) -> dict[str, torch.Tensor]:
    """Runs a step of a disturbed model with inputs of a dump. Returns its tensors."""
    run(debugger_of("L0"), steps=2)
    debuggers.forget_all()
    said = {"path": "dump", "modules": ["Module.act.ReLU.forward.0"], **keys}
    file = config(place, level="L0", dump_path="again", load=said)
    debugger = probe.PrecisionDebugger(str(file))
    torch.manual_seed(0)
    model = Net()
    with torch.no_grad():
        model.fc.weight.mul_(1.1)
    debugger.set_init_step(begins_at)
    debugger.start(model)
    result = model(torch.ones(2, 4))
    debugger.stop()
    result.square().sum().backward()
    debugger.step()
    gradient = model.fc.weight.grad
    return {
        "result": result.detach(),
        "gradient": torch.zeros(1) if gradient is None else gradient,
    }


def test_inputs_of_a_dump_take_the_place_of_others(place: Path) -> None:
    found = loaded(place)
    torch.manual_seed(0)
    # The disturbed layers have no effect any more, and get no gradients.
    assert found["result"].equal(Net()(torch.ones(2, 4)))
    assert not found["gradient"].any()
    assert not Path("again").exists()


def test_gradients_may_go_on_behind_a_loaded_input(place: Path) -> None:
    found = loaded(place, keep_gradients=True, dump_after_load=True)
    torch.manual_seed(0)
    assert found["result"].equal(Net()(torch.ones(2, 4)))
    assert found["gradient"].any()
    # The dump has the inputs that the module received.
    name = "dump_tensor_data/Module.act.ReLU.forward.0.input.0.pt"
    again, before = (
        load(Path(root) / "step0/rank" / name) for root in ("again", "dump")
    )
    assert again.equal(before)


@pytest.mark.parametrize("step, is_loaded", [(0, False), (1, True)])
def test_steps_of_a_load_are_chosen(step: int, is_loaded: bool, place: Path) -> None:
    found = loaded(place, step, step=[1])
    torch.manual_seed(0)
    assert found["result"].equal(Net()(torch.ones(2, 4))) == is_loaded


def test_what_cannot_be_loaded_is_told_and_stays(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = loaded(
        place, modules=["Module.act.ReLU.forward.3", "Module.no.X.forward.0"]
    )
    torch.manual_seed(0)
    assert not found["result"].equal(Net()(torch.ones(2, 4)))
    assert "step 0: Module.act.ReLU.forward.3 has not run" in caplog.text
    assert "step 0: Module.no.X.forward.0 has not run" in caplog.text
    debuggers.forget_all()
    # Another shape is refused.
    file = Path("dump/step0/rank/dump_tensor_data/Module.act.ReLU.forward.0.input.0.pt")
    torch.save(torch.ones(1, 4), file)
    said = {"path": "dump", "modules": ["Module.act.ReLU.forward.0"]}
    debugger = probe.PrecisionDebugger(str(config(place, level="L0", load=said)))
    model = Net()
    debugger.start(model)
    expected = model(torch.ones(2, 4))
    debugger.stop()
    assert "is not replaced: it was torch.float32 (1, 4)" in caplog.text
    assert model(torch.ones(2, 4)).equal(expected)


@pytest.mark.parametrize(
    "said",
    [
        None,
        {},
        {"path": "none", "modules": ["Module.a.B.forward.0"]},
        {"path": ".", "modules": ["fc"]},
        {"path": ".", "modules": ["Module.a.B.backward.0"]},
        {"path": ".", "modules": ["Module.a.B.forward.0"] * 2},
    ],
)
def test_bad_loads_are_refused(said: Any, place: Path) -> None:
    with pytest.raises(ValueError, match="load"):
        probe.PrecisionDebugger(str(config(place, load=said)))


def test_seeds_make_programs_alike() -> None:
    probe.seed_all(7, mode=True)
    first = torch.rand(3)
    probe.seed_all(7)
    assert torch.rand(3).equal(first)
    assert not torch.are_deterministic_algorithms_enabled()
    for bad in (-1, True, "1"):
        with pytest.raises(ValueError, match="seed"):
            probe.seed_all(bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is_enhanced"):
        probe.seed_all(is_enhanced=True)


def test_a_seed_of_the_file_is_used(place: Path) -> None:
    file = str(config(place, seed=7, is_deterministic=True))
    probe.PrecisionDebugger(file)
    first = torch.rand(3)
    assert torch.are_deterministic_algorithms_enabled()
    probe.seed_all(7)
    assert torch.rand(3).equal(first)


def test_a_loader_steps(place: Path) -> None:
    file = config(place, level="L1", enable_dataloader=True)
    debugger = probe.PrecisionDebugger(str(file))
    original = torch.utils.data.dataloader._BaseDataLoaderIter.__next__
    loader = torch.utils.data.DataLoader(torch.arange(3.0))
    for batch in loader:
        torch.exp(batch)
    debugger.close()
    assert steps_of(Path("dump")) == {"step0", "step1", "step2"}
    for step in ("step0", "step2"):
        assert "Torch.exp.0.forward" in names(Path("dump") / step)
    assert torch.utils.data.dataloader._BaseDataLoaderIter.__next__ is not original


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("model", ["mlp", "conv", "transformer"])
def test_fifty_steps_have_the_same_bits(model: str, level: str) -> None:
    class Nothing:
        def start(self, *_: Any) -> None: ...

        stop = step = start

    plain = make(model)
    expected = train(Nothing(), plain, level, steps=50)
    dumped = make(model)
    debugger = debugger_of(level, "statistics", step=["3-5"])
    losses = train(debugger, dumped, level, steps=50)
    assert all(map(torch.equal, losses, expected))
    parameters = zip(dumped[0].parameters(), plain[0].parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in parameters)
    assert steps_of(Path("dump")) == {"step3", "step4", "step5"}


def test_nothing_is_left_when_it_is_closed() -> None:
    model = Net()
    exp = torch.exp
    debugger = debugger_of("mix")
    run(debugger, model)
    debugger.close()
    assert torch.exp is exp
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    for parameter in model.parameters():
        assert not parameter._backward_hooks


def test_a_folder_of_an_earlier_program_is_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    old = Path("dump/step0/rank/dump_tensor_data/old.pt")
    old.parent.mkdir(parents=True)
    old.touch()
    run(debugger_of("L0"))
    assert not old.exists()
    assert "dump/step0/rank is of an earlier program, and replaced" in caplog.text
    assert steps_of(Path("dump")) == {"step0"}


def test_a_folder_that_cannot_be_written_ends_no_program(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    debugger = debugger_of("L1")
    for step in range(3):
        debugger.start()
        torch.exp(torch.ones(2))
        # A file is where the folder of the second step should be.
        if step == 1:
            Path("dump/step1").write_text("")
        debugger.stop()
        debugger.step()
    assert names(Path("dump/step0")) == names(Path("dump/step2"))
    # It is retried at the end.
    Path("dump/step1").unlink()
    debugger.close()
    assert names(Path("dump/step0")) == names(Path("dump/step1"))
    assert (
        "dump/step1 lacks something; the run dump has what is recorded" in caplog.text
    )


def test_a_daemon_that_ends_ends_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("msitd.probe.step_writer._FLUSH_MAX_S", 0.5)
    other = Daemon(tmp_path)
    other.start()
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{other.socket_dir}")
    debugger = debugger_of("L1")
    debugger.start()
    torch.exp(torch.ones(2))
    debugger.stop()
    debugger.step()
    other.kill()
    debugger.start()
    torch.exp(torch.ones(2))
    debugger.stop()
    assert "dump/step1 lacks something" in caplog.text
    other.start()
    monkeypatch.setattr("msitd.probe.step_writer._FLUSH_MAX_S", 60.0)
    debugger.step()
    assert names(Path("dump/step1")) == {"Torch.exp.0.forward"}
    debuggers.forget_all()
    other.stop()


@pytest.mark.parametrize("level", ["L0", "debug"])
def test_a_daemon_that_is_gone_delays_the_program_once(
    level: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # A record waits longer than a step, so the two waits can be told apart by
    # time.
    monkeypatch.setattr("msitd._core.daemon.face_client.LONG_S", 20.0)
    monkeypatch.setattr("msitd.probe.step_writer._FLUSH_MAX_S", 1.5)
    other = Daemon(tmp_path)
    other.start()
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{other.socket_dir}")
    debugger = debugger_of(level)
    model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(8)])

    def seconds_of_a_step() -> float:
        begin = time.monotonic()
        debugger.start(model)
        result = model(torch.ones(2048, 512))
        if level == "debug":
            for number in range(8):
                debugger.save(result * number, "x", save_backward=False)
        debugger.stop()
        debugger.step()
        return time.monotonic() - begin

    with torch.no_grad():
        plain = seconds_of_a_step()
        other.kill()
        # 32 MB per step exceed the buffer.
        waits = [seconds_of_a_step() - plain for _ in range(12)]
        assert waits[0] > 1.0
        assert sum(waits[1:]) < 1.5
        assert "is not dumped" in caplog.text or "is not saved" in caplog.text
        # A daemon that is running again receives records again.
        other.start()
        deadline = time.monotonic() + 30
        last = ""
        while not last:
            assert time.monotonic() < deadline
            last = f"step{debugger._step}"
            seconds_of_a_step()
            last = last if (Path("dump") / last).exists() else ""
            time.sleep(0.1)
        debuggers.forget_all()
    made = [set(os.listdir(Path("dump") / step / "rank")) for step in ("step0", last)]
    assert made[0] == made[1]
    other.stop()


SCRIPT = """
import os, sys, signal, torch
from msitd.probe import PrecisionDebugger
debugger = PrecisionDebugger(task="tensor", level="L1", dump_path="dump")
for step in range(2):
    debugger.start()
    torch.exp(torch.ones(3))
    if step == 1:
        {end}
    debugger.stop()
    debugger.step()
"""


def script(end: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", SCRIPT.format(end=end)],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        check=False,
        timeout=60,
    )


def test_the_end_of_the_program_writes_what_is_dumped_by_then() -> None:
    done = script("raise ValueError")
    assert done.returncode == 1
    assert names(Path("dump/step1")) == {"Torch.exp.0.forward"}


def test_after_a_kill_the_step_is_made_of_the_run(daemon: Daemon) -> None:
    done = script(
        "debugger._recording.client.flush(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert done.returncode == -signal.SIGKILL
    assert steps_of(Path("dump")) == {"step0"}
    daemon.ctl("run", "export", "dump", "--format", "msprobe", "--out", "later")
    assert "Torch.exp.0.forward" in entries(Path("later/step1/rank0"))


def test_without_a_daemon_one_is_started(place: Path) -> None:
    variables = {"MSITD_ENDPOINT": "", "MSITCTL_ENDPOINT": ""}
    done = script("pass", **variables)
    if "no daemon of msitd runs here" not in done.stderr:
        pytest.skip("a daemon of the node is there")
    assert done.returncode == 0, done.stderr
    assert names(Path("dump/step1")) == {"Torch.exp.0.forward"}
    assert steps_of(Path("dump")) == {"step0", "step1"}


RANK = """
import sys, torch, torch.distributed as dist
from msitd.probe import PrecisionDebugger
early = sys.argv[1] == "early"
debugger = PrecisionDebugger(task="statistics", level="L1", dump_path="dump")
if early:
    debugger.start()
dist.init_process_group("gloo")
for step in range(2):
    debugger.start()
    x = torch.full((2,), float(dist.get_rank()))
    dist.all_reduce(x)
    debugger.stop()
    debugger.step()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("when", ["early", "late"])
def test_each_rank_has_its_folder(when: str, place: Path) -> None:
    (place / "rank.py").write_text(RANK)
    with_port = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    subprocess.run(
        [*with_port, "--nproc-per-node=2", "rank.py", when],
        check=True,
        capture_output=True,
        timeout=120,
    )
    for step in ("step0", "step1"):
        assert steps_of(Path("dump") / step) == {"rank0", "rank1"}
        for rank in ("rank0", "rank1"):
            found = entries(Path("dump") / step / rank)
            assert "Distributed.all_reduce.0.forward" in found


def test_a_forked_child_dumps_nothing() -> None:
    debugger = debugger_of("L1")
    debugger.start()
    torch.exp(torch.ones(1))
    child = os.fork()
    if child == 0:
        try:
            torch.exp(torch.ones(1))
            debugger.stop()
            debugger.step()
            debugger.close()
        finally:
            os._exit(0)
    deadline = time.monotonic() + 30
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    debugger.stop()
    assert names(Path("dump/step0")) == {"Torch.exp.0.forward"}
