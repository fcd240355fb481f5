"""register_hook on small torch modules."""

import dataclasses
from collections import OrderedDict

import msitd
import pytest
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x, *, scale=None):
        y = self.act(self.linear(x))
        return y if scale is None else y * scale


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x, scale=None):
        for block in self.blocks:
            x = block(x, scale=scale)
        return {"last": x, "nested": (x + 1, [x + 2, None], "text")}


def as_tensor(record):
    return torch.frombuffer(bytearray(record.data), dtype=torch.float32).reshape(
        record.shape
    )


@pytest.fixture
def run(client, daemon):
    """Runs a model under hooks and returns the records by place."""

    def run(model, *args, call=None, **options):
        with msitd.register_hook(model, client, **options):
            (call or model)(*args)
        client.flush()
        return {r.place: r for r in daemon.records}

    return run


def test_inputs_and_outputs_of_every_sub_module(run):
    torch.manual_seed(0)
    model = Model()
    x = torch.randn(2, 4)
    records = run(model, x, torch.tensor(2.0))
    assert list(records) == [
        (0, "root", 0, "input", "0"),
        (0, "root", 0, "input", "1"),
        (0, "root.blocks.0", 0, "input", "0"),
        (0, "root.blocks.0", 0, "input", "scale"),
        (0, "root.blocks.0.linear", 0, "input", "0"),
        (0, "root.blocks.0.linear", 0, "output", "0"),
        (0, "root.blocks.0.act", 0, "input", "0"),
        (0, "root.blocks.0.act", 0, "output", "0"),
        (0, "root.blocks.0", 0, "output", "0"),
        (0, "root.blocks.1", 0, "input", "0"),
        (0, "root.blocks.1", 0, "input", "scale"),
        (0, "root.blocks.1.linear", 0, "input", "0"),
        (0, "root.blocks.1.linear", 0, "output", "0"),
        (0, "root.blocks.1.act", 0, "input", "0"),
        (0, "root.blocks.1.act", 0, "output", "0"),
        (0, "root.blocks.1", 0, "output", "0"),
        (0, "root", 0, "output", "last"),
        (0, "root", 0, "output", "nested.0"),
        (0, "root", 0, "output", "nested.1.0"),
    ]
    assert torch.equal(as_tensor(records[0, "root", 0, "input", "0"]), x)
    expected = model(x, torch.tensor(2.0))["last"]
    assert torch.equal(as_tensor(records[0, "root", 0, "output", "last"]), expected)


def test_change_in_place_does_not_alter_the_input(run):
    block = Block()
    records = run(block, torch.randn(3, 4))
    before = as_tensor(records[0, "root.linear", 0, "output", "0"])
    given = as_tensor(records[0, "root.act", 0, "input", "0"])
    after = as_tensor(records[0, "root.act", 0, "output", "0"])
    assert (before < 0).any()
    assert torch.equal(given, before)
    assert torch.equal(after, before.relu())


def test_token_advances_with_each_forward_of_the_model(run, client):
    model = nn.Sequential(nn.Identity())
    x = torch.zeros(1)
    records = run(model, call=lambda: [model(x) for _ in range(3)])
    assert [place[0] for place in records if place[1] == "root.0"] == [
        0,
        0,
        1,
        1,
        2,
        2,
    ]
    assert client.token == 3


def test_sub_module_called_alone_does_not_advance_the_token(run, client):
    model = nn.Sequential(nn.Identity())
    run(model, call=lambda: model[0](torch.zeros(1)))
    assert client.token == 0


def test_module_called_twice_has_two_calls(run):
    shared = nn.Linear(4, 4)
    records = run(nn.Sequential(shared, nn.ReLU(), shared), torch.randn(1, 4))
    assert [p[2] for p in records if p[1] == "root.0"] == [0, 0, 1, 1]


def test_recursive_module_pairs_its_calls(run, client):
    class Recursive(nn.Module):
        def forward(self, x, depth):
            return x + 1 if depth == 0 else self(x * 2, depth - 1)

    records = run(Recursive(), torch.ones(1), 2)
    places = [(place[2], place[3]) for place in records]
    assert places == [
        (0, "input"),
        (1, "input"),
        (2, "input"),
        (2, "output"),
        (1, "output"),
        (0, "output"),
    ]
    assert client.token == 1


def test_forward_that_raises_leaves_the_hooks_sound(run, client):
    class Fails(nn.Module):
        def forward(self, x):
            if x.sum() == 0:
                raise ArithmeticError
            return x

    model = nn.Sequential(Fails())

    def call():
        with pytest.raises(ArithmeticError):
            model(torch.zeros(1))
        model(torch.ones(1))

    records = run(model, call=call)
    assert list(records) == [
        (0, "root", 0, "input", "0"),
        (0, "root.0", 0, "input", "0"),
        (1, "root", 0, "input", "0"),
        (1, "root.0", 0, "input", "0"),
        (1, "root.0", 0, "output", "0"),
        (1, "root", 0, "output", "0"),
    ]
    assert client.token == 2


def test_weights(run):
    model = Model()
    records = run(model, call=lambda: None, weights=True, inputs=False, outputs=False)
    assert list(records) == [
        (0, f"root.blocks.{i}.linear", 0, "weight", name)
        for i in range(2)
        for name in ("weight", "bias")
    ]
    weight = as_tensor(records[0, "root.blocks.1.linear", 0, "weight", "weight"])
    assert torch.equal(weight, model.blocks[1].linear.weight)


@pytest.mark.parametrize(
    ("pattern", "ops"),
    [
        ("*.linear", {"root.blocks.0.linear", "root.blocks.1.linear"}),
        ("root", {"root"}),
        ("root.blocks.?", {"root.blocks.0", "root.blocks.1"}),
        (["root", "*.1.act"], {"root", "root.blocks.1.act"}),
        ("root.blocks[0]*", set()),
    ],
)
def test_op_pattern(run, client, pattern, ops):
    records = run(Model(), torch.randn(2, 4), op_pattern=pattern)
    assert {place[1] for place in records} == ops
    assert client.token == 1


@pytest.mark.parametrize(
    ("pattern", "matches"), [("*.?", 0), ("*.??", 1), ("*.\u00e9", 1)]
)
def test_op_pattern_stands_for_bytes_as_in_a_capture_policy(run, pattern, matches):
    model = nn.Sequential()
    model.add_module("\u00e9", nn.Identity())
    records = run(model, torch.zeros(1), op_pattern=pattern, outputs=False)
    assert len(records) == matches


def test_tokens(run):
    model = nn.Identity()
    records = run(
        model,
        call=lambda: [model(torch.zeros(1)) for _ in range(5)],
        tokens=range(1, 3),
    )
    assert {place[0] for place in records} == {1, 2}


@pytest.mark.parametrize(
    ("options", "ios"),
    [({"inputs": False}, {"output"}), ({"outputs": False}, {"input"})],
)
def test_sides(run, options, ios):
    records = run(Model(), torch.randn(2, 4), **options)
    assert {place[3] for place in records} == ios


def test_structures_of_results(run):
    @dataclasses.dataclass
    class Result:
        logits: torch.Tensor
        hidden: tuple

    class Structured(nn.Module):
        def forward(self, x):
            return Result(x, (x, OrderedDict(key=x)))

    records = run(Structured(), torch.ones(2))
    assert [p[4] for p in records if p[3] == "output"] == [
        "logits",
        "hidden.0",
        "hidden.1.key",
    ]


def test_structure_that_contains_itself_ends(run):
    class Loop(nn.Module):
        def forward(self, x):
            loop = [x]
            loop.append(loop)
            return loop

    records = run(Loop(), torch.ones(2))
    assert (0, "root", 0, "output", "1.0") in records


def test_tensor_that_cannot_be_recorded_is_counted_and_harmless(client, daemon, caplog):
    model = nn.Identity()
    with msitd.register_hook(model, client) as handle:
        result = model(torch.eye(2, device="meta"))
        model(torch.ones(1))
    assert result.is_meta
    assert handle.skipped_count == 2
    assert len([r for r in caplog.records if r.name == "msitd"]) == 1
    client.flush()
    assert len(daemon.records) == 2


def test_removed_hooks_record_nothing(client, daemon):
    model = nn.Sequential(nn.Identity())
    handle = msitd.register_hook(model, client)
    handle.remove()
    handle.remove()
    model(torch.zeros(1))
    client.flush()
    assert daemon.records == []
    assert client.token == 0


def test_training_step_works_under_hooks(client, daemon):
    model = Model()
    with msitd.register_hook(model, client):
        model(torch.randn(2, 4))["last"].sum().backward()
    assert model.blocks[0].linear.weight.grad is not None
    client.flush()
    assert daemon.records


def test_closed_client_does_not_break_the_model(daemon):
    client = msitd.Client("run", endpoint=daemon.endpoint)
    model = nn.Identity()
    handle = msitd.register_hook(model, client)
    client.close()
    model(torch.zeros(1))
    assert handle.skipped_count > 0
