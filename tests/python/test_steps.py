"""When hooks advance the token, in inference and in training."""

import io
import subprocess
import sys

import msitd
import pytest
import torch
from torch import nn

X = torch.ones(2, 4)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 1)])

    def forward(self, x):
        x = self.body(x)
        for layer in self.layers:
            x = layer(x)
        return x

    def children_step(self, x):
        """Like Lightning: nothing calls the module itself."""
        return self.layers[1](self.layers[0](self.body(x)))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model()


@pytest.fixture
def steps(client, daemon):
    """Runs a function under hooks; returns token and call of each `root.body`."""

    def steps(model, function, **options):
        with msitd.register_hook(model, client, inputs=False, **options) as handle:
            function(handle)
        client.flush()
        places = [r.place for r in daemon.records]
        return [place[:3:2] for place in places if place[1] == "root.body"]

    return steps


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def test_a_step_of_the_optimizer_is_a_token(steps, model, client):
    optimizer = sgd(model)
    tokens = []

    def train(handle):
        for _ in range(3):
            optimizer.zero_grad()
            model(X).sum().backward()
            tokens.append(client.token)
            optimizer.step()
            tokens.append(client.token)

    assert steps(model, train) == [(0, 0), (1, 0), (2, 0)]
    assert tokens == [0, 1, 1, 2, 2, 3]
    assert client.token == 3


def test_forwards_before_one_step_of_the_optimizer_are_calls_of_a_token(
    steps, model, client
):
    optimizer = sgd(model)

    def train(handle):
        for _ in range(2):
            for _ in range(3):
                model(X).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    expected = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert steps(model, train) == expected
    assert client.token == 2


def test_two_forwards_with_one_loss_are_calls_of_a_token(steps, model):
    optimizer = sgd(model)

    def train(handle):
        for _ in range(2):
            (model(X) - model(2 * X)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    assert steps(model, train) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_step_that_a_scaler_leaves_out_ends_with_the_next_forward(steps, model):
    optimizer = sgd(model)

    def train(handle):
        for is_finite in (True, False, True):
            optimizer.zero_grad()
            model(X).sum().backward()
            if is_finite:
                optimizer.step()

    assert steps(model, train) == [(0, 0), (1, 0), (2, 0)]


def test_several_optimizers_end_a_step_once(steps, model, client):
    first = torch.optim.SGD(model.body.parameters(), lr=0.1)
    second = torch.optim.AdamW(model.layers.parameters())

    def train(handle):
        for _ in range(2):
            model(X).sum().backward()
            first.step()
            second.step()

    assert steps(model, train) == [(0, 0), (1, 0)]
    assert client.token == 2


def test_an_optimizer_of_other_parameters_ends_no_step(steps, model):
    optimizer, other = sgd(model), sgd(nn.Linear(4, 4))

    def train(handle):
        for _ in range(2):
            for _ in range(2):
                model(X).sum().backward()
                other.step()
            optimizer.step()

    assert steps(model, train) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_closure_runs_inside_of_its_step(steps, model):
    optimizer = sgd(model)

    def closure():
        optimizer.zero_grad()
        loss = model(X).sum()
        loss.backward()
        return loss

    def train(handle):
        for _ in range(2):
            optimizer.step(closure)

    assert steps(model, train) == [(0, 0), (1, 0)]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("auto", [(token, 0) for token in range(4)]),
        ("optimizer", [(0, 0), (0, 1), (1, 0), (1, 1)]),
    ],
)
def test_a_closure_that_runs_twice_has_two_steps_or_calls(steps, model, time, expected):
    class Twice(torch.optim.SGD):
        def step(self, closure):
            closure()
            super().step(closure)

    optimizer = Twice(model.parameters(), lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = model(X).sum()
        loss.backward()
        return loss

    def train(handle):
        for _ in range(2):
            optimizer.step(closure)

    assert steps(model, train, time=time) == expected


def test_results_of_a_training_are_saved_in_silence(client, model, recwarn):
    with msitd.register_hook(model, client):
        torch.save(model(X), io.BytesIO())
    assert not recwarn


def test_validation_advances_with_each_forward(steps, model):
    optimizer = sgd(model)

    def train(handle):
        for _ in range(2):
            model(X).sum().backward()
            optimizer.step()
            with torch.no_grad():
                model(X)
            model.eval()
            model(X)
            model.train()

    assert steps(model, train) == [(token, 0) for token in range(6)]


def test_without_an_optimizer_each_forward_is_a_token(steps, model, client):
    def train(handle):
        for _ in range(2):
            model(X)
        for _ in range(2):
            model(X).sum().backward()

    assert steps(model, train) == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert client.token == 4


def test_an_optimizer_that_is_made_later_is_found(steps, model):
    def train(handle):
        for _ in range(3):
            model(X)
        optimizer = sgd(model)
        for _ in range(2):
            for _ in range(2):
                model(X).sum().backward()
            optimizer.step()

    expected = [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (4, 0), (4, 1)]
    assert steps(model, train) == expected


def test_a_process_without_optimizers_is_not_searched_for_them():
    code = """
import gc
import torch
from msitd._core.module import optimizers
from msitd._core.module.optimizers import Hold

model = torch.nn.Linear(2, 2)
search, gc.get_objects = gc.get_objects, None
assert optimizers.search(model.parameters()) == Hold.NOTHING
gc.get_objects = search
optimizer = torch.optim.AdamW(model.parameters())
assert optimizers.search(model.parameters()) == Hold.PARAMETERS
assert optimizers.search(torch.nn.Linear(2, 2).parameters()) == Hold.NOTHING
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_children_that_are_called_alone_make_steps_of_training(steps, model, client):
    optimizer = sgd(model)

    def train(handle):
        for _ in range(2):
            for _ in range(2):
                model.children_step(X).sum().backward()
            optimizer.step()

    assert steps(model, train) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert client.token == 2


def test_children_that_are_called_alone_make_steps_of_inference(steps, model, daemon):
    def infer(handle):
        with torch.no_grad():
            for _ in range(3):
                model.children_step(X)

    assert steps(model, infer) == [(0, 0), (1, 0), (2, 0)]
    assert {r.call for r in daemon.records} == {0}
    assert [r.op for r in daemon.records if r.token == 1] == [
        "root.body",
        "root.layers.0",
        "root.layers.1",
    ]


def test_steps_of_the_user_are_the_only_ones_from_then_on(steps, model, client):
    optimizer = sgd(model)

    def train(handle):
        for _ in range(3):
            model(X).sum().backward()
            optimizer.step()
            # The first call finds that the optimizer has already ended the
            # step.
            handle.step()
        for _ in range(2):
            with torch.no_grad():
                model(X)
        handle.step()

    assert steps(model, train) == [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1)]
    assert client.token == 4


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("forward", [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]),
        ("optimizer", [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]),
        ("step", [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]),
    ],
)
def test_the_user_chooses_what_a_step_is(steps, model, time, expected):
    optimizer = sgd(model)

    def train(handle):
        for _ in range(2):
            for _ in range(2):
                model(X).sum().backward()
            optimizer.step()
        with torch.no_grad():
            model(X)

    assert steps(model, train, time=time) == expected


def test_hooks_on_a_model_and_on_a_part_of_it_advance_once(steps, model, client):
    def infer(handle):
        with msitd.register_hook(model.body, client), torch.no_grad():
            model(X)
            model(X)

    assert steps(model, infer) == [(0, 0), (1, 0)]
    assert client.token == 2


def test_removed_hooks_hear_of_no_optimizer(steps, model, client):
    optimizer = sgd(model)
    steps(model, lambda handle: None)
    model(X).sum().backward()
    optimizer.step()
    assert client.token == 0


def test_an_unknown_time_is_refused(client, model):
    with pytest.raises(ValueError, match="time 'clock' is none of"):
        msitd.register_hook(model, client, time="clock")


class Cache:
    """Like the cache of transformers."""

    is_initialized = False


@pytest.mark.parametrize(
    "caches",
    [
        ((), ((X, X),), ((X, X),)),
        (Cache(), Cache(), Cache()),
    ],
    ids=["tuples", "objects"],
)
@pytest.mark.parametrize("name", ["past_key_values", "cache"])
def test_prefill_and_decode_are_told_apart(client, daemon, caches, name):
    class Decoder(nn.Module):
        def forward(self, x, past_key_values=None, cache=None):
            return x

    model = Decoder()
    with msitd.register_hook(model, client):
        model(X)
        for number, cache in enumerate(caches):
            if isinstance(cache, Cache):
                cache.is_initialized = number > 0
            model(X, **{name: cache})
    client.flush()
    phases = [(*r.place, r.value) for r in daemon.values if r.index == "phase"]
    assert phases == [
        (1, "root", 0, "state", "phase", "prefill"),
        (2, "root", 0, "state", "phase", "decode"),
        (3, "root", 0, "state", "phase", "decode"),
    ]
