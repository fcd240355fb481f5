"""msitd.engines: Hugging Face, Megatron, TransformerEngine and launchers, by stand-ins.

tests/engines tests the real packages.
"""

import doctest
import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msitd
import pytest
import torch
from engine_places import places, signature
from msitd.engines import huggingface, megatron, sglang, transformer_engine, vllm
from msitd.engines.ray import runtime_env
from msitd.engines.transformer_engine.feature import (
    define,
    is_recorded,
    next_recorded,
)
from torch import nn

from daemon import ROOT, Daemon


@pytest.fixture(autouse=True)
def place(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A daemon at the default endpoint of clients."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{daemon.socket_dir}")
    monkeypatch.setenv("MSITD_RUN", "r")
    yield


def test_the_package_has_the_plugins() -> None:
    for group, function in (
        ("vllm.general_plugins", vllm.register),
        ("sglang.srt.plugins", sglang.register),
    ):
        [entry] = metadata.entry_points(group=group, name="msitd")
        assert entry.load() is function
        # Without MSITD_RUN, it does not even import the engine.
        script = f"import sys, {function.__module__} as m; m.register(); "
        script += "assert not {'vllm', 'sglang', 'torch'} & set(sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={k: v for k, v in os.environ.items() if k != "MSITD_RUN"},
            check=False,
        )
        assert done.returncode == 0


class TrainerCallback:
    """Like that of transformers, whose methods do nothing."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        raise AssertionError("ours is called")

    on_step_begin = on_step_end = on_train_end = on_train_begin


def train(
    callback: Any, steps: range, fails_at: int = -1, accumulation: int = 2
) -> list[torch.Tensor]:
    """Trains and evaluates, and calls a callback, as Trainer does."""
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    args = SimpleNamespace(process_index=0, world_size=1)
    state = SimpleNamespace(global_step=steps.start)

    def tell(event: str) -> None:
        if callback is not None:
            getattr(callback, event)(
                args, state, None, model=model, optimizer=optimizer
            )

    losses = []
    tell("on_train_begin")
    for step in steps:
        tell("on_step_begin")
        for _ in range(accumulation):
            loss = model(torch.full((3, 2), float(step))).pow(2).mean()
            loss.backward()
            losses.append(loss.detach())
        if step == fails_at:
            raise RuntimeError("the training fails")
        optimizer.step()
        optimizer.zero_grad()
        state.global_step += 1
        tell("on_step_end")
        with torch.no_grad():
            model.eval()(torch.ones(1, 2))
            model.train()
    tell("on_train_end")
    hooks = model._forward_hooks or model._forward_pre_hooks
    assert not hooks
    return losses


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("transformers")
    module.TrainerCallback = TrainerCallback
    monkeypatch.setitem(sys.modules, "transformers", module)


def test_a_training_step_is_a_token(transformers: None, daemon: Daemon) -> None:
    plain = train(None, range(3))
    callback = huggingface.callback()
    assert isinstance(callback, TrainerCallback)
    recorded = train(callback, range(3))
    assert all(map(torch.equal, recorded, plain))
    forwards = [
        (token, call) for token, call, op, what in places(daemon, "r", "--io", "output")
    ]
    assert forwards == [(token, call) for token in range(3) for call in (0, 1)]
    steps = {
        token
        for token, _, _, what in places(daemon, "r", "--io", "state")
        if what.endswith("weight.grad")
    }
    assert steps == {0, 1, 2}
    # Another training is another run; this one continues from a checkpoint.
    train(callback, range(5, 7))
    tokens = {token for token, *_ in places(daemon, "r-2")}
    assert tokens == {5, 6}


def test_evaluations_are_recorded_if_asked_for(
    transformers: None, daemon: Daemon
) -> None:
    with msitd.Client("mine") as client:
        callback = huggingface.callback(client, evaluation=True, gradients=False)
        train(callback, range(2))
        # The client stays open.
        client.record(torch.ones(1), op="after")
    calls = [
        (token, call)
        for token, call, op, _ in places(daemon, "mine", "--io", "output")
        if op == "root"
    ]
    assert calls == [(token, call) for token in (0, 1) for call in (0, 1, 2)]
    assert "after" in {op for _, _, op, _ in places(daemon, "mine")}


def test_a_training_that_fails_does_not_harm_the_next(
    transformers: None, daemon: Daemon
) -> None:
    callback = huggingface.callback()
    with pytest.raises(RuntimeError, match="the training fails"):
        train(callback, range(2), fails_at=1)
    train(callback, range(1))
    assert {token for token, *_ in places(daemon, "r")} == {0, 1}
    assert {token for token, *_ in places(daemon, "r-2")} == {0}


class Layer(nn.Module):
    """A layer of Megatron, which counts from 1 over all stages."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.layer_number = number
        self.mlp = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.mlp(x)


class Block(nn.Module):
    def __init__(self, first: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(first + i) for i in (0, 1)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class GPTModel(nn.Module):
    def __init__(self, first: int) -> None:
        super().__init__()
        self.decoder = Block(first)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(x)


class Float16Module(nn.Module):
    """A wrapper."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)


def test_layers_of_megatron_have_their_numbers_in_the_whole_model(
    daemon: Daemon,
) -> None:
    parts = [Float16Module(GPTModel(3)), Float16Module(GPTModel(7))]
    optimizer = torch.optim.SGD([p for m in parts for p in m.parameters()], lr=0.1)
    with (
        msitd.Client("r") as client,
        megatron.register_hook(parts, client, gradients=True) as hooks,
    ):
        for _ in range(2):
            parts[1](parts[0](torch.ones(1, 2))).sum().backward()
            optimizer.step()
        assert hooks.skipped == {}
    found = places(daemon, "r", "--io", "output")
    layers = sorted({op for _, _, op, _ in found if op.endswith(".mlp")})
    assert layers == [f"root.decoder.layers.{n}.mlp" for n in (2, 3, 6, 7)]
    assert {token for token, *_ in found} == {0, 1}
    grads = places(daemon, "r", "--io", "grad_weight")
    assert (1, 0, "root.decoder.layers.7.mlp", "grad_weight weight") in grads
    assert not any(m._forward_hooks for part in parts for m in part.modules())


def test_options_of_megatron_are_checked_before_anything_is_hooked() -> None:
    with msitd.Client("r") as client:
        with pytest.raises(ValueError, match="no model"):
            megatron.register_hook([], client)
        with pytest.raises(TypeError, match="colour is no option"):
            megatron.register_hook(GPTModel(1), client, colour=1)
        with pytest.raises(ValueError, match="time"):
            megatron.register_hook([GPTModel(1)], client, time="never")


@pytest.fixture
def feature(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The feature, registered as by nvdlfw_inspect."""
    registered: dict[str, Any] = {}

    class Registry:
        @classmethod
        def register_feature(cls, namespace: str) -> Any:
            return lambda kind: registered.setdefault(
                f"{namespace}.{kind.__name__}", kind
            )

    def api_method(function: Any) -> Any:
        function.is_api = True
        return function

    modules = {
        "nvdlfw_inspect": {},
        "nvdlfw_inspect.registry": {"Registry": Registry, "api_method": api_method},
        "transformer_engine": {},
        "transformer_engine.debug": {},
        "transformer_engine.debug.features": {},
        "transformer_engine.debug.features.api": {"TEConfigAPIMapper": object},
    }
    for name, content in modules.items():
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    define()
    yield registered["transformer_engine.MsitdRecord"]
    transformer_engine.close()


def test_the_feature_has_the_signatures_of_the_released_ones(feature: Any) -> None:
    path = ROOT / "tests/golden/engines/transformer_engine.json"
    for name, parameters in json.loads(path.read_text())["feature"].items():
        ours = signature(getattr(feature, name))
        assert getattr(feature, name).is_api
        # It is called with keywords, of which it accepts more.
        names = {each.partition("=")[0] for each in parameters}
        assert names - {each.partition("=")[0] for each in ours} <= {"tp_size"}
        assert ours[-1] == "**_" or names <= set(ours)


def test_tensors_of_transformer_engine_are_where_hooks_would_have_them(
    feature: Any, daemon: Daemon
) -> None:
    names = ("activation", "weight", "gradient", "output", "wgrad", "dgrad")
    both = {"quantized_tensor": True}
    for iteration in (0, 2):
        for name in names:
            feature().inspect_tensor(
                both if name == "weight" else {},
                "decoder.layers.0.fc1",
                tensor_name=name,
                tensor=torch.ones(2),
                iteration=iteration,
                tp_group=None,
                rowwise_quantized_tensor=torch.zeros(2, dtype=torch.uint8),
                columnwise_quantized_tensor=torch.zeros(3, dtype=torch.uint8),
                quantizer=object(),
                tp_size=1,
            )
    transformer_engine.close()
    found = places(daemon)
    assert {token for token, *_ in found} == {0, 2}
    assert sorted(what for token, _, _, what in found if token == 2) == [
        "grad_input 0",
        "grad_output 0",
        "grad_weight weight",
        "input 0",
        "output 0",
        "weight weight",
        "weight weight.quantized",
        "weight weight.quantized_columnwise",
    ]
    assert {op for _, _, op, _ in found} == {"decoder.layers.0.fc1"}


@pytest.mark.parametrize(
    ("config", "chosen"),
    [
        ({}, range(12)),
        ({"freq": 5}, [0, 5, 10]),
        ({"start_step": 3, "end_step": 7, "freq": 2}, [4, 6]),
        ({"start_step": 9, "end_step": -1}, [9, 10, 11]),
        ({"start_end_list": [[1, 2], [8, 9]], "start_step": 0}, [1, 2, 8, 9]),
    ],
)
def test_iterations_are_chosen_as_by_dump_tensors(
    config: dict[str, Any], chosen: Any
) -> None:
    assert [i for i in range(12) if is_recorded(config, i)] == list(chosen)
    walked = []
    at: int | None = -1
    while (at := next_recorded(config, at)) is not None and at < 12:
        walked.append(at)
    assert walked == list(chosen)


def test_workers_of_ray_are_one_launch(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = {"pip": ["x"], "env_vars": {"OWN": "1", "MSITD_RUN": "theirs"}}
    assert runtime_env("mine", base=base)["env_vars"]["MSITD_RUN"] == "theirs"
    assert base["env_vars"] == {"OWN": "1", "MSITD_RUN": "theirs"}
    monkeypatch.setenv("MSITD_CA_FILE", "ca.pem")
    env = runtime_env("r", f"unix:{daemon.socket_dir}")["env_vars"]
    assert env.pop("MSITD_CA_FILE") == "ca.pem"
    assert env["MSITD_JOB"] != runtime_env("r")["env_vars"]["MSITD_JOB"]
    script = (
        "import msitd, sys, numpy as np\n"
        "with msitd.Client(rank=int(sys.argv[1]), world_size=2, if_exists='new') as c:\n"
        "    c.record(np.ones(1), op='x')\n"
    )
    for launch in ("r", "r-2"):
        env["MSITD_JOB"] = launch
        for rank in "01":
            subprocess.run(
                [sys.executable, "-c", script, rank],
                env={**os.environ, **env},
                check=True,
            )
        held = daemon.ctl_json("run", "get", launch)
        assert int(held["counters"]["tensor_count"]) == 2


def test_ranks_of_torchrun_are_those_of_the_run(daemon: Daemon) -> None:
    Path("train.py").write_text(
        "import msitd, torch\n"
        "torch.distributed.init_process_group('gloo')\n"
        "model = torch.nn.Linear(2, 2)\n"
        "with msitd.Client(if_exists='new') as c, msitd.register_hook(model, c):\n"
        "    model(torch.ones(1, 2))\n"
        "torch.distributed.destroy_process_group()\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    subprocess.run([*command, "--nproc-per-node=2", "train.py"], check=True)
    run = daemon.ctl_json("run", "get", "r")
    assert run["world_size"] == 2
    for rank in "01":
        assert (0, 0, "root", "output 0") in places(daemon, "r", "--ranks", rank)


def test_the_page_shows_what_happens(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSITCTL_ENDPOINT", f"unix:{daemon.socket_dir}/msitd.sock")
    monkeypatch.delenv("MSITD_RUN")
    failed, tried = doctest.testfile(
        str(ROOT / "docs/engines.md"), module_relative=False
    )
    assert tried > 10
    assert failed == 0
