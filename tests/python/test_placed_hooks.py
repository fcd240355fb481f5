"""Only modules with selected records have hooks."""

from types import SimpleNamespace

import msitd
import numpy as np
import pytest
import torch
from msitd._core.module.placed_hooks import ModuleHooks, PlacedHooks
from torch import nn


class Policy:
    """Stands in for the native client: selects some ops from certain tokens on."""

    def __init__(self):
        self.ops_from = {0: set()}
        self.revision = 0
        self.asked_count = 0

    def first_token(self, token):
        return max(first for first in self.ops_from if first <= token)

    def selection(self, token):
        return self.revision << 32 | self.first_token(token)

    def selects(self, token, op, io):
        self.asked_count += 1
        return op in self.ops_from[self.first_token(token)]


@pytest.fixture
def policy():
    return Policy()


@pytest.fixture
def calls():
    return []


@pytest.fixture
def model():
    return nn.ModuleDict({"a": nn.Identity(), "b": nn.Identity()})


@pytest.fixture
def placed(policy, model, calls):
    def hooks_of(op):
        return ModuleHooks(
            lambda *_: calls.append(f"before {op}"),
            lambda *_: calls.append(f"after {op}"),
        )

    def placed(tokens=None):
        made = PlacedHooks(SimpleNamespace(_native=policy), tokens)
        for op, module in model.items():
            made.add(op, module, hooks_of(op))
        return made

    return placed


def run(model, calls):
    calls.clear()
    for module in model.values():
        module(torch.ones(1))
    return list(calls)


def test_hooks_are_where_the_policy_asks_for_an_op(placed, policy, model, calls):
    hooks = placed()
    policy.ops_from = {0: set(), 5: {"a"}, 7: {"b"}}
    by_token = {}
    for token in (0, 4, 5, 6, 7, 3):
        hooks.follow(token)
        by_token[token] = run(model, calls)
    a, b = ["before a", "after a"], ["before b", "after b"]
    assert by_token == {0: [], 4: [], 5: a, 6: a, 7: b, 3: []}


def test_a_new_policy_is_followed(placed, policy, model, calls):
    hooks = placed()
    hooks.follow(0)
    assert run(model, calls) == []
    policy.ops_from = {0: {"b"}}
    policy.revision = 1
    hooks.follow(1)
    assert run(model, calls) == ["before b", "after b"]


def test_who_knows_the_selection_does_not_ask_again(placed, policy):
    hooks = placed()
    for token in range(100):
        hooks.follow(token)
    assert policy.asked_count == 2


def test_hooks_are_off_at_tokens_that_are_not_recorded(placed, policy, model, calls):
    hooks = placed(tokens=[1])
    policy.ops_from = {0: {"a"}}
    counts = []
    for token in range(3):
        hooks.follow(token)
        counts.append(len(run(model, calls)))
    assert counts == [0, 2, 0]


def test_hooks_stay_where_modules_run_outside_of_passes(placed, policy, model, calls):
    hooks = placed()
    hooks.follow(0)
    hooks.stay()
    hooks.follow(0)
    assert len(run(model, calls)) == 4


def test_hooks_come_back_between_those_of_others(placed, policy, model, calls):
    model["a"].register_forward_hook(lambda *_: calls.append("first"))
    hooks = placed()
    model["a"].register_forward_hook(lambda *_: calls.append("second"))
    policy.ops_from = {0: {"a"}, 5: set(), 6: {"a"}}
    hooks.follow(0)
    before = run(model, calls)
    hooks.follow(5)
    model["a"].register_forward_hook(lambda *_: calls.append("third"))
    assert run(model, calls) == ["first", "second", "third"]
    hooks.follow(6)
    assert run(model, calls) == [*before, "third"]
    assert before == ["before a", "first", "after a", "second"]


def test_removed_hooks_do_not_come_back(placed, policy, model, calls):
    hooks = placed()
    policy.ops_from = {0: {"a", "b"}}
    hooks.remove()
    hooks.follow(0)
    assert run(model, calls) == []


def test_a_module_that_is_gone_is_left_alone(placed, policy, model, calls):
    hooks = placed()
    hooks.follow(0)
    del model["a"]
    policy.ops_from = {0: {"a", "b"}}
    policy.revision = 1
    hooks.follow(1)
    assert run(model, calls) == ["before b", "after b"]


def test_modules_called_alone_are_recorded_at_every_token(client, daemon):
    inner = nn.Sequential(nn.Linear(2, 2))
    model = nn.Sequential(nn.Sequential(inner))
    with msitd.register_hook(model, client, tokens=[0, 2]):
        for token in range(4):
            client.token = token
            inner(torch.ones(2))
    client.flush()
    assert {r.token for r in daemon.records} == {0, 2}


def test_hooks_leave_a_model_at_tokens_that_are_not_recorded(client, daemon):
    inner = nn.Linear(2, 2)
    model = nn.Sequential(nn.Sequential(inner))
    counts = []
    with msitd.register_hook(model, client, tokens=[0, 2]):
        for _ in range(4):
            model(torch.ones(2))
            counts.append(len(inner._forward_hooks))
    client.flush()
    assert counts == [1, 0, 1, 0]
    assert {r.token for r in daemon.records if r.op == "root.0.0"} == {0, 2}


def compiled_in_place(model):
    model.compile(backend="aot_eager", fullgraph=True)
    return model


def wrapped(model):
    return torch.compile(model, backend="aot_eager", fullgraph=True)


@pytest.mark.parametrize("compile_model", [compiled_in_place, wrapped])
@pytest.mark.parametrize("gradients", [False, True])
def test_a_whole_graph_is_recorded_at_the_tokens_asked_for(
    client, daemon, compile_model, gradients
):
    torch.compiler.reset()
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))
    run = compile_model(model)
    with msitd.register_hook(
        model, client, tokens=[1, 3], time="forward", gradients=gradients
    ):
        for _ in range(4):
            run(torch.ones(1, 2)).sum().backward()
    client.flush()
    inner = [r for r in daemon.records if r.op == "root.0.1" and r.io == "output"]
    assert [r.token for r in inner] == [1, 3]


def test_a_compiled_part_is_recorded_once_the_policy_asks_for_it(client, daemon):
    torch.compiler.reset()
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))
    model[0].compile(backend="aot_eager", fullgraph=True)
    with msitd.register_hook(model, client, tokens=[2, 4]):
        for _ in range(6):
            model(torch.ones(1, 2))
    client.flush()
    inner = [r for r in daemon.records if r.op == "root.0.1" and r.io == "output"]
    assert [r.token for r in inner] == [2, 4]


def triple(module, args, result):
    return result * 3


def outputs(daemon, op, token):
    found = [r for r in daemon.records if (r.op, r.token) == (op, token)]
    return [np.frombuffer(r.data, np.float32)[0] for r in found if r.io == "output"]


def test_hooks_of_others_still_run_after_ours_when_a_module_is_added(client, daemon):
    model = nn.Sequential(nn.Identity(), nn.Identity())
    with msitd.register_hook(model, client, time="forward"):
        for module in (model, model[0]):
            module.register_forward_hook(triple)
        model(torch.ones(1))
        model.append(nn.Identity())
        model(torch.ones(1))
        # A module that is called by another path has another op.
        model[0] = nn.Sequential(model[0])
        model(torch.ones(1))
    client.flush()
    for token in (0, 1):
        assert outputs(daemon, "root.0", token) == [1]
    assert outputs(daemon, "root.0.0", 2) == [1]
    assert outputs(daemon, "root.2", 1) == [3]
    assert [outputs(daemon, "root", token) for token in range(3)] == [[3], [3], [3]]


def test_a_module_without_hooks_gets_none_where_the_policy_asks_for_nothing(
    placed, policy, model, calls
):
    hooks = placed()
    hooks.follow(0)
    added = nn.Identity()
    hooks.add("c", added, ModuleHooks(calls.append, calls.append))
    hooks.follow(1)
    assert not added._forward_hooks


def test_gradients_are_recorded_before_hooks_of_others_when_a_module_is_added(
    client, daemon
):
    model = nn.Sequential(nn.Linear(1, 1, bias=False))
    with msitd.register_hook(model, client, gradients=True, time="forward"):
        model(torch.ones(1)).sum().backward()
        model[0].weight.register_hook(lambda gradient: gradient * 3)
        model.append(nn.Identity())
        model(torch.ones(1)).sum().backward()
        model[0] = nn.Sequential(model[0])
        model(torch.ones(1)).sum().backward()
        weight = model[0][0].weight
        model[0] = nn.Linear(1, 1)
        model(torch.ones(1)).sum().backward()
    client.flush()
    found = [r for r in daemon.records if r.io == "grad_weight"]
    assert sorted((r.token, r.op, r.index) for r in found) == [
        (0, "root.0", "weight"),
        (1, "root.0", "weight"),
        (2, "root.0.0", "weight"),
        (3, "root.0", "bias"),
        (3, "root.0", "weight"),
    ]
    assert {np.frombuffer(r.data, np.float32)[0] for r in found} == {1}
    assert len(weight._backward_hooks) == 1
