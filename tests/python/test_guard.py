"""No hook raises an exception into the program, whatever fails in it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import msitd
import pytest
import torch
from fake_daemon import FakeDaemon
from msitd._core.api.calls import ApiCalls
from msitd._core.gradient.backward import Backward
from msitd._core.gradient.gradients import Gradients
from msitd._core.gradient.parameters import Parameters
from msitd._core.guard import Failures, GuardedHook
from msitd._core.leaf import walk
from msitd._core.leaf.leaves import LeafRecorder
from msitd._core.module import call_hooks, optimizers, pass_hooks
from msitd._core.module.placed_hooks import PlacedHooks
from msitd._core.module.steps import Steps
from msitd._core.module.threads import Thread
from msitd._core.not_recorded import NotRecorded, Tally
from msitd._core.skips import Skips
from torch import nn

OPTIONS: dict[str, Any] = {
    "aliases": True,
    "gradients": True,
    "optimizer_state": True,
    "weights": True,
    "objects": True,
    "stack": "caller",
    "requests": lambda: ["a"],
}

# Functions that hooks use: a class or module, and the name of the function.
USED: list[tuple[Any, str]] = [
    (Backward, "begin"),
    (Backward, "begin_pass"),
    (Backward, "end"),
    (Backward, "record_step"),
    (Gradients, "arrive"),
    (Gradients, "record"),
    (Gradients, "sum"),
    (Gradients, "watch"),
    (torch.Tensor, "untyped_storage"),
    (LeafRecorder, "begin_call"),
    (LeafRecorder, "record"),
    (LeafRecorder, "_record"),
    (Parameters, "_record"),
    (Parameters, "watch"),
    (Parameters, "watch_own"),
    (PlacedHooks, "follow"),
    (Skips, "_count"),
    (NotRecorded, "count"),
    (Tally, "add"),
    (Steps, "begin_pass"),
    (Steps, "end_pass"),
    (Steps, "end_by_optimizer"),
    (Steps, "is_training"),
    (Thread, "identities"),
    (Thread, "stack"),
    (call_hooks, "is_in_backward"),
    (pass_hooks, "is_in_backward"),
    (pass_hooks, "is_replica"),
    (optimizers, "hold_of"),
    (walk, "_children_of"),
    (msitd.Client, "begin_call"),
    (msitd.Client, "record"),
    (msitd.Client, "_record_request_texts"),
    (msitd.Client, "record_value"),
    (msitd.Client, "selects"),
    (ApiCalls, "_begin"),
    (ApiCalls, "_end"),
    (ApiCalls, "_wants"),
]


class Twice(nn.Module):
    """Uses its argument twice, and returns structures."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> dict[str, Any]:
        return {"sum": self.first(x) * scale + torch.relu(self.second(x)), "n": 3}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.twice, self.norm = Twice(), nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.norm(self.twice(x, scale=0.5)["sum"])
        return y


def train(hooked: Callable[[nn.Module], Any] = lambda _: None) -> list[torch.Tensor]:
    """Returns the values that a training of three steps computes."""
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    hooked(model)
    made = []
    for _ in range(3):
        x = torch.randn(2, 4, requires_grad=True)
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        made += [loss.detach(), x.grad]
    return [*made, *(each.detach() for each in model.parameters())]


def same(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.fixture
def handles() -> Iterator[list[Any]]:
    handles: list[Any] = []
    yield handles
    for handle in handles:
        handle.remove()


def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError("this fails")


@pytest.mark.parametrize(("owner", "name"), USED, ids=lambda each: str(each)[-40:])
def test_what_fails_in_a_hook_changes_no_training(
    owner: Any,
    name: str,
    client: msitd.Client,
    handles: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert callable(getattr(owner, name))
    failed: list[bool] = []

    def fails(*_: Any, **__: Any) -> Any:
        failed.append(True)
        raise RuntimeError("this fails")

    def hooked(model: nn.Module) -> None:
        handles.append(msitd.register_hook(model, client, **OPTIONS))
        handles.append(msitd.register_api(client, gradients=True))
        monkeypatch.setattr(owner, name, fails)

    ours = train(hooked)
    monkeypatch.undo()
    assert failed
    assert same(ours, train())


def test_a_closed_client_changes_no_training(
    daemon: FakeDaemon, handles: list[Any]
) -> None:
    def hooked(model: nn.Module) -> None:
        client = msitd.Client(run="run", endpoint=daemon.endpoint)
        handles.append(msitd.register_hook(model, client, **OPTIONS))
        handles.append(msitd.register_api(client, gradients=True))
        client.close()

    assert same(train(hooked), train())
    assert handles[0].skipped_count > 0


def test_a_client_that_is_closed_before_the_backward(
    daemon: FakeDaemon, handles: list[Any]
) -> None:
    client = msitd.Client(run="run", endpoint=daemon.endpoint)
    model = Net()
    handles.append(msitd.register_hook(model, client, **OPTIONS))
    loss = model(torch.ones(2, 4)).sum()
    client.close()
    loss.backward()
    assert any("closed" in reason for reason in handles[0].skipped)


def test_functions_of_a_client_that_is_closed_before_the_backward(
    daemon: FakeDaemon, handles: list[Any]
) -> None:
    client = msitd.Client(run="run", endpoint=daemon.endpoint)
    handles.append(msitd.register_api(client, gradients=True))
    loss = torch.relu(torch.ones(2, requires_grad=True)).sum()
    client.close()
    loss.backward()
    # The call of backward, and two gradients of each of the two functions.
    (count,) = handles[0].skipped.values()
    assert count == 1 + 4


def test_sparse_gradients_are_recorded_in_parts(
    client: msitd.Client, daemon: FakeDaemon, handles: list[Any]
) -> None:
    model = nn.Embedding(4, 2, sparse=True)
    handles.append(msitd.register_hook(model, client, gradients=True))
    model(torch.tensor([1, 2])).sum().backward()
    client.flush()
    found = {(r.op, r.index) for r in daemon.records if r.io == "grad_weight"}
    assert ("root", "weight.values") in found


def test_a_handler_of_the_logger_that_raises(
    client: msitd.Client, handles: list[Any]
) -> None:
    class Raising(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("no log")

    handler = Raising()
    logging.getLogger("msitd").addHandler(handler)
    try:
        model = nn.Identity()
        handles.append(msitd.register_hook(model, client))
        model(torch.ones(1, device="meta"))
        assert handles[0].skipped_count > 0
    finally:
        logging.getLogger("msitd").removeHandler(handler)


def test_an_exception_without_a_text(client: msitd.Client) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    skips = Skips(client)

    def hook() -> None:
        raise Mute

    skips.guarded(hook, "op")()
    assert skips.by_reason() == {"Mute": 1}


def test_what_ends_a_program_is_not_kept() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        GuardedHook(interrupt, fail)()


def test_failures_are_logged_once_for_a_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = Failures("a step is not recorded")
    for _ in range(3):
        assert failures.guarded(fail)() is None
    assert failures.by_reason() == {"this fails": 3}
    assert [each.getMessage() for each in caplog.records] == [
        "a step is not recorded: this fails (reported once)"
    ]
