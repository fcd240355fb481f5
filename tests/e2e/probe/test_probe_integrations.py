"""msitd.probe: the calls that engines and training frameworks make.

Each stand-in here makes the calls of one program, in its order, with the names
that it imports. docs/probe.md has them as a table.
"""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from msitd import probe
from msitd._exec import names as stand_ins
from probe_dumps import (
    MODULES,
    Net,
    config,
    names,
    probe_place,  # noqa: F401
    steps_of,
)
from probe_models import entries


@pytest.fixture(name="msprobe", autouse=True)
def msprobe_module() -> Iterator[Any]:
    """`msprobe.pytorch` as programs under `msitctl exec` import it."""
    before = [*sys.meta_path]
    stand_ins.install()
    yield importlib.import_module("msprobe.pytorch")
    sys.meta_path[:] = before
    for name in [name for name in sys.modules if name.split(".")[0] == "msprobe"]:
        del sys.modules[name]


def forward(model: Net) -> torch.Tensor:
    result: torch.Tensor = model(torch.ones(2, 4))
    return result


class VllmAscendRunner:
    """vllm-ascend: a model runner with a configuration in line."""

    def __init__(self, msprobe: Any, dump_config: dict[str, Any]) -> None:
        # It writes the configuration into a file of its own.
        path = Path(".vllm_ascend/msprobe/msprobe_dump_config.json")
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(dump_config))
        self.model = Net()
        self.is_started = False
        self.debugger = msprobe.PrecisionDebugger(str(path.resolve()))

    def execute(self, scheduled_tokens: dict[str, int]) -> None:
        self.start(scheduled_tokens=scheduled_tokens)
        forward(self.model)
        self.finalize()

    def dummy_run(self) -> None:
        forward(self.model)
        self.finalize(dump=False)

    def start(self, **kwargs: Any) -> None:
        if not self.is_started:
            if self.debugger.config.level in ("L0", "mix"):
                self.debugger.start(model=self.model, **kwargs)
            else:
                self.debugger.start(self.model, **kwargs)
            self.is_started = True

    def finalize(self, **kwargs: Any) -> None:
        if hasattr(self.debugger, "stop"):
            self.debugger.stop()
            self.is_started = False
        self.debugger.step(**kwargs)


@pytest.mark.parametrize("level", ["L0", "L1"])
def test_vllm_ascend_dumps_each_batch(level: str, msprobe: Any) -> None:
    runner = VllmAscendRunner(
        msprobe,
        {"task": "tensor", "level": level, "dump_path": "dump", "async_dump": False},
    )
    runner.dummy_run()
    for _ in range(2):
        runner.execute({"a": 1, "b": 1})
    assert steps_of(Path("dump")) == {"step1", "step2"}
    expected = {name for name in MODULES if "forward" in name}
    if level == "L0":
        assert names(Path("dump/step2")) == expected
    assert runner.debugger.config.level == level


def test_vllm_ascend_with_graphs_says_how_to_run_without(msprobe: Any) -> None:
    with pytest.raises(ValueError, match="--enforce-eager"):
        msprobe.AclGraphDumper("config.json")


@pytest.mark.parametrize("rank_id", [None, 3])
def test_sglang_dumps_each_forward(
    rank_id: int | None, msprobe: Any, place: Path
) -> None:
    file = config(place, "statistics", level="L0", block_file_format="npy")
    msprobe.seed_all(mode=True)
    debugger = msprobe.PrecisionDebugger(config_path=str(file))
    model = Net()
    for _ in range(2):
        debugger.start(model=model, rank_id=rank_id)
        forward(model)
        debugger.stop()
        debugger.step()
    rank = "rank" if rank_id is None else f"rank{rank_id}"
    for step in ("step0", "step1"):
        assert entries(Path("dump") / step / rank)


@pytest.mark.parametrize("reset", ["reset_status", "_reset_status"])
def test_verl_dumps_each_phase_into_its_own_folder(
    reset: str, msprobe: Any, place: Path
) -> None:
    file = config(place, "tensor", level="L0")
    model = Net()
    debugger = None
    folders = []
    for step in (1, 2):
        for stage in ("actor_compute_log_prob", "actor_update"):
            folder = Path("outputs") / f"step_{step}" / stage
            folder.mkdir(parents=True)
            folders.append(folder)
            if debugger is None:
                debugger = msprobe.PrecisionDebugger(
                    config_path=str(file), dump_path=str(folder)
                )
            if hasattr(debugger, "service") and hasattr(debugger.service, "config"):
                debugger.service.config.dump_path = str(folder)
            debugger.start(model)
            forward(model).sum().backward()
            debugger.stop()
            status = getattr(debugger.service, reset)
            assert callable(status)
            status()
    assert debugger is not None
    assert debugger.config.dump_path == str(folders[-1])
    for folder in folders:
        assert steps_of(folder) == {"step0"}
        assert names(folder / "step0") == MODULES


def test_the_patch_of_verl_moves_between_its_folders(msprobe: Any) -> None:
    debugger = msprobe.PrecisionDebugger(
        task="tensor", level="L0", dump_path="dump", step=[0]
    )
    prefix = debugger.config.dump_path
    model = Net()
    debugger.service.config.dump_path = f"{prefix}/generate_sequences"
    debugger.start(model=model, token_range=[0, 0])
    for _ in range(3):
        forward(model)
    debugger.stop()
    debugger.service._reset_status()
    debugger.service.config.dump_path = f"{prefix}/update_actor"
    debugger.start(model=model)
    forward(model).sum().backward()
    debugger.stop()
    debugger.step()
    generated = names(Path("dump/generate_sequences/step0"))
    assert generated == {name for name in MODULES if "forward" in name}
    assert names(Path("dump/update_actor/step0")) == MODULES


def test_mindspeed_starts_without_a_model(msprobe: Any, place: Path) -> None:
    file = config(place, "statistics", rank=[0], step=[0], is_deterministic=False)
    debugger = msprobe.PrecisionDebugger(config_path=str(file))
    model = Net()
    for _ in range(2):
        debugger.start()
        forward(model).sum().backward()
        debugger.stop()
        debugger.step()
    assert steps_of(Path("dump")) == {"step0"}
    assert "Functional.linear.0.forward" in names(Path("dump/step0"))


def test_the_configuration_is_that_in_effect(place: Path) -> None:
    file = config(
        place, "statistics", step=["1-2"], block_list=["a"], block_request_id="r"
    )
    found = probe.PrecisionDebugger(str(file), level="mix").config
    # The names and values of msprobe 26.2.0.
    expected = {
        "task": "statistics",
        "level": "mix",
        "dump_path": "dump",
        "rank": [],
        "step": [1, 2],
        "scope": [],
        "list": ["a"],
        "tensor_list": [],
        "data_mode": ["all"],
        "summary_mode": "statistics",
        "risk_level": "FOCUS",
        "request_id": "r",
        "dump_enable": None,
        "extra_info": True,
        "precision": "low",
        "framework": "pytorch",
        "async_dump": False,
    }
    assert {name: getattr(found, name) for name in expected} == expected
