"""Modules that hooks do not see are counted, and new modules get hooks in the
next pass.
"""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msitd
import pytest
import torch
from fake_daemon import FakeDaemon
from msitd._core.module.fast_paths import LOST_FAST_PATH
from msitd._core.module.structure import Structure
from msitd._core.module.uncalled import BYPASSED, UNCALLED
from torch import nn
from torch.nn import functional

X = torch.ones(1, 4)


class Mixer(nn.Module):
    """Uses the weight of one part in a function, and calls the other part."""

    def __init__(self) -> None:
        super().__init__()
        self.by_weight, self.called = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return self.called(functional.linear(x, self.by_weight.weight))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mixer = Mixer()

    def forward(self, x: torch.Tensor) -> Any:
        return x + self.mixer.forward(x)


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: torch.Tensor) -> Any:
        return self.experts[1](x)


class Adapted(nn.Module):
    """A layer with an adapter, as PEFT creates it."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base_layer, self.adapter = base, nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return self.base_layer(x) + self.adapter(x)


def ops_of(daemon: FakeDaemon, token: int, io: str) -> set[str]:
    return {r.place[1] for r in daemon.records if r.io == io and r.place[0] == token}


def test_modules_that_ran_unseen_are_counted_and_logged(
    client: msitd.Client, caplog: pytest.LogCaptureFixture
) -> None:
    model = nn.Sequential(Block(), Block())
    handle = msitd.register_hook(model, client)
    assert handle.skipped == {}
    model(X)
    assert handle.skipped == {BYPASSED: 2, UNCALLED: 2}
    assert handle.skipped_count == 4
    assert caplog.messages == []
    handle.remove()
    assert handle.skipped == {BYPASSED: 2, UNCALLED: 2}
    assert "root.0.mixer, root.1.mixer" in caplog.text
    assert "root.0.mixer.by_weight, root.1.mixer.by_weight" in caplog.text
    handle.remove()
    assert len(caplog.messages) == 2


def test_closing_the_client_reports_them(
    daemon: FakeDaemon, caplog: pytest.LogCaptureFixture
) -> None:
    client = msitd.Client(run="run", endpoint=daemon.endpoint)
    model = Block()
    handle = msitd.register_hook(model, client)
    model(X)
    client.close()
    assert "root.mixer.by_weight" in caplog.text
    assert handle.skipped == {BYPASSED: 1, UNCALLED: 1}


def never(model: nn.Module) -> None:
    """Does not run the model."""


def child(model: nn.Module) -> None:
    """Calls the parts of a model, and not the model."""
    for each in model.children():
        each(X)


@pytest.mark.parametrize(
    ("make", "run"),
    [
        (lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()), lambda model: model(X)),
        (lambda: nn.Sequential(nn.Linear(4, 4)), child),
        (Experts, lambda model: model(X)),
        (
            lambda: nn.MultiheadAttention(4, 2, batch_first=True),
            lambda model: model(X[None], X[None], X[None]),
        ),
        (Block, never),
    ],
    ids=["called", "children", "experts", "attention", "never"],
)
def test_what_is_as_it_should_be_is_not_reported(
    make: Callable[[], nn.Module],
    run: Callable[[nn.Module], Any],
    client: msitd.Client,
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = make()
    with msitd.register_hook(model, client) as handle:
        run(model)
    assert handle.skipped == {}
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("is_training", "count"), [(False, 1), (True, 0)], ids=["inference", "training"]
)
def test_a_fast_path_that_hooks_switch_off_is_counted(
    is_training: bool, count: int, client: msitd.Client
) -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).train(is_training)
    with msitd.register_hook(layer, client) as handle, torch.no_grad():
        layer(X[None])
    assert handle.skipped.get(LOST_FAST_PATH, 0) == count


def test_modules_that_are_put_in_later_are_recorded(
    client: msitd.Client, daemon: FakeDaemon
) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4)))
    inner: Any = model[1]
    with msitd.register_hook(model, client, gradients=True, weights=True) as handle:
        model(X).sum().backward()
        inner[0] = Adapted(inner[0])
        model(X).sum().backward()
        # Some libraries do this, which torch does not report.
        model._modules["0"] = nn.Linear(4, 4)
        inner._modules["last"] = nn.ReLU()
        model(X).sum().backward()
        del inner._modules["last"]
        model(X).sum().backward()
    client.flush()
    first = {"root", "root.0", "root.1", "root.1.0"}
    adapted = first | {"root.1.0.base_layer", "root.1.0.adapter"}
    assert ops_of(daemon, 0, "output") == first
    assert ops_of(daemon, 1, "output") == adapted
    assert ops_of(daemon, 2, "output") == adapted | {"root.1.last"}
    assert ops_of(daemon, 3, "output") == adapted
    assert ops_of(daemon, 0, "weight") == {"root.0", "root.1.0"}
    assert ops_of(daemon, 1, "weight") == adapted - first
    assert ops_of(daemon, 2, "weight") == {"root.0"}
    assert ops_of(daemon, 1, "grad_weight") == {"root.0", *adapted - first}
    assert handle.skipped == {}
    trees = [r for r in daemon.all_records if r.place[1] == "module_tree.json"]
    # The last tree equals the second one, which is already recorded.
    assert len(trees) == 3


def test_hooks_of_a_module_that_was_taken_out_are_gone(client: msitd.Client) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    old = model[0]
    with msitd.register_hook(model, client):
        model[0] = nn.Linear(4, 4)
        model(X)
        assert not old._forward_hooks
        assert model[0]._forward_hooks
    assert not model[0]._forward_hooks


def test_the_structure_keeps_nothing_alive() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    structure = Structure(model)
    gone = [weakref.ref(model), weakref.ref(model[0])]
    del model
    gc.collect()
    assert [each() for each in gone] == [None, None]
    assert structure.changed() is None


def nested(depth: int) -> Any:
    value: Any = X
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("result", "indexes", "reason"),
    [
        ({"a": X, "b": X}.values(), ["0", "1"], ""),
        ({"a": X}.items(), ["0.1"], ""),
        ((each for each in (X, X)), [], "yields"),
        (map(torch.relu, (X, X)), [], "yields"),
        (iter([X]), [], "yields"),
        (nested(16), [".".join("0" * 16)], ""),
        (nested(17), [], "nested"),
        ({"a.b": X, "a": {"b": X}}, ["a.b"], "same index"),
        ({1: X, "1": X}, ["1"], "same index"),
        ((X, OrderedDict([("a.b", X), ("a", {"b": X})])), ["0", "1.a.b"], "same index"),
    ],
    ids=[
        "values",
        "items",
        "generator",
        "map",
        "iterator",
        "deep",
        "too deep",
        "dotted",
        "number",
        "ordered",
    ],
)
def test_results_are_recorded_or_counted(
    result: Any,
    indexes: list[str],
    reason: str,
    client: msitd.Client,
    daemon: FakeDaemon,
) -> None:
    class Gives(nn.Module):
        def forward(self) -> Any:
            return result

    model = Gives()
    with msitd.register_hook(model, client, values=False) as handle:
        assert model() is result
    client.flush()
    found = [r.index for r in daemon.records if r.io == "output"]
    assert found == indexes
    assert all(reason in each for each in handle.skipped)
    assert bool(handle.skipped) == bool(reason)
    assert client.counters().conflict_count == 0


def test_a_keyword_with_the_name_of_a_position_is_counted(
    client: msitd.Client, daemon: FakeDaemon
) -> None:
    class Takes(nn.Module):
        def forward(self, x: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
            return x + more["0"]

    model = Takes()
    with msitd.register_hook(model, client) as handle:
        model(X, **{"0": X})
    client.flush()
    assert [r.index for r in daemon.records if r.io == "input"] == ["0"]
    assert sum(handle.skipped.values()) == 1
