"""Pausing hooks and functions, and selecting records with a listener."""

import dataclasses
from typing import Any

import msitd
import pytest
import torch
from fake_daemon import FakeDaemon
from msitd._core.api.handle import ApiHandle, register_api
from msitd._core.api.options import ApiOptions
from msitd._core.call import Call
from msitd._core.module.hooks import HookHandle
from msitd._core.module.options import HookOptions
from torch import nn


class Listener:
    """Logs calls, and accepts only some sides."""

    def __init__(self, *ios: str) -> None:
        self.ios = ios
        self.seen: list[tuple[str, str, int]] = []
        self.rows: int | None = None

    def module_begins(self, call: Call) -> None:
        self.seen.append(("begins", call.op, call.number))

    def module_ends(self, call: Call) -> None:
        self.seen.append(("ends", call.op, call.number))

    def function_begins(self, call: Call) -> None:
        self.seen.append(("function", call.op, call.number))

    def accepts(self, call: Call, io: str) -> bool:
        return not self.ios or io in self.ios

    def cut(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if self.rows is None else tensor[: self.rows]


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU())


def hooks(model: nn.Module, client: msitd.Client, **options: Any) -> HookHandle:
    known = {field.name for field in dataclasses.fields(HookOptions)}
    given: dict[str, Any] = {"gradients": True, "time": "step"}
    given |= {name: options.pop(name) for name in known & options.keys()}
    return HookHandle(model, client, HookOptions(**given), **options)


def places(client: msitd.Client, daemon: FakeDaemon) -> list[tuple[str, int, str]]:
    client.flush()
    return [
        (record.op, record.call, record.io)
        for record in daemon.records
        if record.op.startswith(("Module.", "root", "Torch", "Functional", "mine"))
    ]


def test_ops_have_the_names_that_are_given(
    model: nn.Module, client: msitd.Client, daemon: FakeDaemon
) -> None:
    def op_of(name: str) -> str:
        return f"Module.{name}.{type(model.get_submodule(name)).__name__}"

    with hooks(model, client, op_of=op_of, op_pattern="Module.?.*"):
        model(torch.ones(1, 2)).sum().backward()

    ops = {op for op, _, _ in places(client, daemon)}
    assert ops == {"Module.0.Linear", "Module.1.ReLU"}


@pytest.mark.parametrize("is_again", [False, True])
def test_a_pause_records_only_gradients_of_what_was_recorded(
    is_again: bool, model: nn.Module, client: msitd.Client, daemon: FakeDaemon
) -> None:
    with hooks(model, client, op_pattern="root.1") as handle:
        loss = model(torch.ones(1, 2)).sum()
        handle.pause()
        if is_again:
            # The hooks were removed.
            model(torch.ones(1, 2)).sum().backward()
        loss.backward()
        handle.resume()
        model(torch.ones(1, 2))

    assert sorted(places(client, daemon)) == [
        ("root.1", 0, "grad_input"),
        ("root.1", 0, "grad_output"),
        ("root.1", 0, "input"),
        ("root.1", 0, "output"),
        ("root.1", 1, "input"),
        ("root.1", 1, "output"),
    ]


def test_a_pause_records_no_gradients_of_weights_of_what_it_passes_over(
    model: nn.Module, client: msitd.Client, daemon: FakeDaemon
) -> None:
    with hooks(model, client) as handle:
        handle.pause()
        model(torch.ones(1, 2)).sum().backward()

    assert places(client, daemon) == []


def test_functions_pause(client: msitd.Client, daemon: FakeDaemon) -> None:
    with register_api(client, gradients=True) as handle:
        x = torch.ones(2, requires_grad=True)
        loss = torch.exp(x)
        handle.pause()
        torch.exp(x)
        loss.backward(torch.ones(2))
        handle.resume()
        torch.exp(x)

    assert [
        (call, io) for op, call, io in places(client, daemon) if op == "Torch.exp"
    ] == [
        (0, "input"),
        (0, "output"),
        (0, "grad_output"),
        (0, "grad_input"),
        (1, "input"),
        (1, "output"),
    ]


def test_a_listener_hears_of_calls_and_chooses_sides(
    model: nn.Module, client: msitd.Client, daemon: FakeDaemon
) -> None:
    listener = Listener("output", "grad_input")
    with hooks(model, client, listener=listener, op_pattern=["root.0", "root.1"]):
        x = torch.ones(1, 2, requires_grad=True)
        model(x).sum().backward()

    assert listener.seen == [
        ("begins", "root.0", 0),
        ("ends", "root.0", 0),
        ("begins", "root.1", 0),
        ("ends", "root.1", 0),
    ]
    ios = {io for _, _, io in places(client, daemon)}
    assert ios == {"output", "grad_input"}


def test_a_listener_hears_the_end_of_what_raises(client: msitd.Client) -> None:
    class Raises(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError

    model = nn.Sequential(Raises())
    listener = Listener()
    with (
        hooks(model, client, listener=listener, op_pattern="root.0"),
        pytest.raises(ValueError),
    ):
        model(torch.ones(1))

    assert listener.seen == [("begins", "root.0", 0), ("ends", "root.0", 0)]


def test_a_listener_cuts_tensors(client: msitd.Client, daemon: FakeDaemon) -> None:
    listener = Listener("input")
    listener.rows = 2
    handle = ApiHandle(client, ApiOptions(groups=("torch",)), listener=listener)
    with handle:
        torch.exp(torch.ones(5))
        assert handle.call(lambda x: x + 1, "mine.add", (torch.ones(5),), {})[0] == 2

    client.flush()
    assert [(r.op, tuple(r.shape)) for r in daemon.records] == [
        ("Torch.exp", (2,)),
        ("mine.add", (2,)),
    ]
    assert listener.seen == [("function", "Torch.exp", 0), ("function", "mine.add", 0)]


def test_what_a_listener_raises_is_counted(
    model: nn.Module, client: msitd.Client, daemon: FakeDaemon
) -> None:
    class Wrong(Listener):
        def accepts(self, call: Call, io: str) -> bool:
            raise KeyError("wrong")

    with hooks(model, client, listener=Wrong(), op_pattern="root.1") as handle:
        model(torch.ones(1, 2))

    assert handle.skipped == {"'wrong'": 2}
    assert places(client, daemon) == []
