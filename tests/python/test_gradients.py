"""Gradients of calls and parameters, and their use by an optimizer."""

import collections
import functools
import gc
import types

import msitd
import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import checkpoint


def as_tensor(record):
    dtype = getattr(torch, record.dtype)
    return torch.frombuffer(bytearray(record.data), dtype=dtype).reshape(record.shape)


class Residual(nn.Module):
    """Uses its input three times, and its result is used twice."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.25)

    def forward(self, x):
        return x + self.drop(torch.tanh(self.first(x)) * self.second(x))


class Model(nn.Module):
    def __init__(self, mode="none"):
        super().__init__()
        self.blocks = nn.ModuleList([Residual(), Residual(), Residual()])
        self.shared = nn.Linear(4, 4)
        self.mode = mode

    def forward(self, x):
        x = self.shared(x)
        for block in self.blocks:
            if self.mode == "none":
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.mode == "reentrant")
        return self.shared(x)


@pytest.fixture
def recorded(client, daemon):
    """Runs a function under hooks; returns its records by place, and the hooks."""

    def recorded(model, function, **options):
        with msitd.register_hook(model, client, gradients=True, **options) as handle:
            function()
        client.flush()
        return {r.place: as_tensor(r) for r in daemon.records}, handle

    return recorded


def gradients_of(records):
    return {
        place: tensor
        for place, tensor in records.items()
        if place[3].startswith("grad")
    }


def test_gradients_of_calls_are_those_of_hooks_of_torch(recorded):
    torch.manual_seed(0)
    model = Model()
    x = torch.randn(2, 4, requires_grad=True)
    # The hooks of torch add nodes to the graph, so this is a separate run.
    expected = {}
    calls = {}
    handles = []
    for name, module in model.named_modules():
        op = f"root.{name}" if name else "root"

        def hook(module, grad_input, grad_output, op=op):
            # The backward reaches the last call first.
            count = 2 if op == "root.shared" else 1
            calls[op] = calls.get(op, count) - 1
            expected[0, op, calls[op], "grad_input", "0"] = grad_input[0].clone()
            expected[0, op, calls[op], "grad_output", "0"] = grad_output[0].clone()

        handles.append(module.register_full_backward_hook(hook))
    torch.manual_seed(1)
    model(x).pow(2).sum().backward()
    for handle in handles:
        handle.remove()

    def run():
        torch.manual_seed(1)
        model(x).pow(2).sum().backward()

    records, handle = recorded(model, run)
    got = gradients_of(records)
    expected.pop((0, "root.blocks", 0, "grad_input", "0"), None)
    assert set(expected) == {place for place in got if place[3] != "grad_weight"}
    for place, tensor in expected.items():
        torch.testing.assert_close(got[place], tensor, rtol=1e-6, atol=1e-7)
    assert handle.skipped == {}


def test_backward_is_recorded_from_the_outside_to_the_inside(recorded, daemon):
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4)))
    x = torch.ones(1, 4, requires_grad=True)
    recorded(model, lambda: model(x).sum().backward())
    places = [(r.op, r.io) for r in daemon.records if r.io.startswith("grad")]
    assert [place for place in places if place[1] == "grad_output"] == [
        ("root", "grad_output"),
        ("root.0", "grad_output"),
        ("root.0.0", "grad_output"),
    ]
    assert [place for place in places if place[1] == "grad_input"] == [
        ("root.0.0", "grad_input"),
        ("root.0", "grad_input"),
        ("root", "grad_input"),
    ]


def test_operations_in_place_keep_their_gradients(recorded):
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.relu = nn.ReLU(inplace=True)
            self.same = nn.Identity()

        def forward(self, x):
            y = self.linear(x)
            y = self.relu(y)
            z = self.same(y * 1)
            z[:, :2].mul_(3)
            z += 1
            return z.mul_(2)

    torch.manual_seed(0)
    model = InPlace()
    x = torch.randn(3, 4, requires_grad=True)
    records, handle = recorded(model, lambda: model(x).sum().backward())
    assert handle.skipped == {}
    scale = torch.tensor([6.0, 6.0, 2.0, 2.0]).expand(3, 4)
    mask = (model.linear(x) > 0).float()
    for op, io, expected in [
        ("root", "grad_output", torch.ones(3, 4)),
        ("root.same", "grad_output", scale),
        ("root.same", "grad_input", scale),
        ("root.relu", "grad_output", scale),
        ("root.relu", "grad_input", scale * mask),
        ("root.linear", "grad_output", scale * mask),
        ("root.linear", "grad_input", (scale * mask) @ model.linear.weight),
    ]:
        got = records[0, op, 0, io, "0"]
        torch.testing.assert_close(got, expected.detach()), (op, io)


def test_arguments_of_any_kind_have_their_gradients(recorded):
    class Mixed(nn.Module):
        def forward(self, x, pair, *, scale, count):
            return {"sum": x * scale + pair[1].float(), "other": (pair[0] * x).sum()}

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.mixed = Mixed()

        def forward(self, x, y):
            z = self.mixed(x, (y, torch.arange(2)), scale=y * 2, count=3)
            return z["sum"].sum() + z["other"]

    model = Outer()
    x, y = (torch.full((2,), value, requires_grad=True) for value in (3.0, 5.0))
    records, _ = recorded(model, lambda: model(x, y).backward())
    got = {p[3:]: t.tolist() for p, t in records.items() if p[1] == "root.mixed"}
    assert {key: value for key, value in got.items() if key[0].startswith("grad")} == {
        ("grad_output", "sum"): [1, 1],
        ("grad_output", "other"): 1,
        ("grad_input", "0"): [15, 15],
        ("grad_input", "1.0"): [3, 3],
        ("grad_input", "scale"): [3, 3],
    }


def test_backward_of_a_part_records_what_it_comes_to(recorded):
    class Two(nn.Module):
        def forward(self, x):
            return x * 2, x * 3

    model = nn.Sequential(Two())
    x = torch.ones(2, requires_grad=True)
    records, _ = recorded(model, lambda: (model(x + 0)[1] * 5).sum().backward())
    got = {p[3:]: t.tolist() for p, t in gradients_of(records).items()}
    assert got == {("grad_output", "1"): [5, 5], ("grad_input", "0"): [15, 15]}


def test_a_second_backward_through_a_call_is_marked(recorded):
    model = nn.Sequential(nn.Linear(2, 2))
    x = torch.ones(1, 2)

    def run():
        loss = model(x).sum()
        (once,) = torch.autograd.grad(loss, model[0].weight, retain_graph=True)
        assert torch.equal(once, torch.ones(2, 2))
        (loss * 2).backward()

    records, _ = recorded(model, run)
    gradients = {p[2:]: t for p, t in gradients_of(records).items() if p[1] == "root.0"}
    assert set(gradients) == {
        (0, "grad_output", "0"),
        (0, "grad_output", "again1.0"),
        (0, "grad_weight", "weight"),
        (1, "grad_weight", "weight"),
        (0, "grad_weight", "bias"),
    }
    assert gradients[0, "grad_output", "again1.0"].tolist() == [[2, 2]]
    assert torch.equal(gradients[1, "grad_weight", "weight"], torch.full((2, 2), 2.0))


def test_gradients_of_gradients_do_not_disturb(recorded):
    model = nn.Sequential(nn.Linear(2, 1), nn.Tanh())
    x = torch.ones(1, 2, requires_grad=True)

    def run():
        (first,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        first.pow(2).sum().backward()

    run()
    expected = model[0].weight.grad.clone()
    model.zero_grad()
    records, handle = recorded(model, run)
    assert torch.equal(model[0].weight.grad, expected)
    assert handle.skipped == {}
    assert (0, "root.0", 0, "grad_input", "0") in records


def test_accumulation_and_the_step_of_the_optimizer(recorded):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 1), nn.Linear(1, 1))
    model[1].bias.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    kept = []

    def run():
        for _ in range(2):
            for _ in range(2):
                model(torch.randn(3, 4)).sum().backward()
            optimizer.step()
            kept.append(optimizer.state[model[0].weight]["exp_avg"].clone())
            optimizer.zero_grad()

    records, _ = recorded(model, run, optimizer_state=True)
    for token in (0, 1):
        of = {p[2:]: t for p, t in records.items() if p[:2] == (token, "root.0")}
        parts = [of[call, "grad_weight", "weight"] for call in (0, 1)]
        assert torch.equal(parts[0] + parts[1], of[0, "state", "weight.grad"])
        assert torch.equal(of[0, "state", "weight.exp_avg"], kept[token])
        assert of[0, "state", "bias.step"] == token + 1
    assert not any(p[1] == "root.1" and p[4].startswith("bias") for p in records)


def test_parameters_that_are_trained_later_are_found(recorded):
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)

    def run():
        model(torch.ones(1, 2)).sum().backward()
        model[0].requires_grad_(True)
        model(torch.ones(1, 2)).sum().backward()

    records, _ = recorded(model, run, time="forward")
    assert {p[:2] for p in records if p[3:] == ("grad_weight", "weight")} == {
        (0, "root.1"),
        (1, "root.0"),
        (1, "root.1"),
    }


@pytest.mark.parametrize("order", ["first in first out", "last in first out"])
@pytest.mark.parametrize("mode", ["reentrant", "plain"])
def test_checkpoints_have_the_records_of_a_model_without(client, daemon, mode, order):
    def run(model, handle_of):
        torch.manual_seed(1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with handle_of() as handle:
            for _ in range(2):
                # As in pipelines.
                losses = [
                    model(torch.randn(2, 4, requires_grad=True)).sum() for _ in range(2)
                ]
                for loss in losses if order.startswith("first") else losses[::-1]:
                    loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        return handle

    results = []
    for kind in ("none", mode):
        torch.manual_seed(0)
        model = Model(kind)
        for block in model.blocks:
            block.drop.p = 0.0
        seen = len(daemon.records)
        client.token = 0 if kind == "none" else 100
        handle = run(
            model, lambda m=model: msitd.register_hook(m, client, gradients=True)
        )
        client.flush()
        results.append({r.place: bytes(r.data) for r in daemon.records[seen:]})
    without, with_checkpoints = results
    moved = {(p[0] - 100, *p[1:]): data for p, data in with_checkpoints.items()}
    assert set(moved) == set(without)
    assert moved == without
    [(reason, count)] = handle.skipped.items()
    assert "checkpointing" in reason
    assert handle.skipped_count == 0
    # Modules of three blocks, in two forwards and two steps. Some checkpoints
    # stop before the last module.
    assert 3 * 3 * 2 * 2 <= count <= 3 * 4 * 2 * 2


class Inner(nn.Module):
    """Changes its input before its only module receives it, in checkpoints."""

    def __init__(self, depth):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.depth = depth

    def forward(self, x):
        function = self.inner
        for _ in range(self.depth):
            function = functools.partial(checkpoint, function, use_reentrant=True)
        return function(x)

    def inner(self, x):
        return self.linear(x * 2) + self.linear(x * 3)


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
def test_gradients_belong_to_the_checkpoint_that_runs_again(
    client, daemon, depth, trains
):
    model = Inner(depth).train(trains)
    with msitd.register_hook(model, client, gradients=True, time="forward") as handle:
        losses = []
        for factor in (10, 20, 30):
            x = torch.ones(1, 2, requires_grad=True)
            losses.append(factor * model(x).sum())
        for position in (1, 0, 2):
            losses[position].backward()
    client.flush()
    found = {
        r.place[:3]: as_tensor(r).flatten().tolist()
        for r in daemon.records
        if r.op == "root.linear" and r.io == "grad_output"
    }
    factors = (10, 10, 20, 20, 30, 30)
    assert [values for _, values in sorted(found.items())] == [[f] * 2 for f in factors]
    assert handle.skipped_count == 0


def test_a_checkpoint_of_which_the_first_run_is_not_known_is_counted(client, daemon):
    model = Inner(1)
    loss = model(torch.ones(1, 2, requires_grad=True)).sum()
    with msitd.register_hook(model, client, gradients=True) as handle:
        model(torch.ones(1, 2, requires_grad=True))
        loss.backward()
    client.flush()
    assert handle.skipped_count == 2
    assert any("first" in reason for reason in handle.skipped)
    linear = {r.io for r in daemon.records if r.op == "root.linear"}
    assert linear == {"input", "output", "grad_weight"}


@pytest.mark.parametrize("has_backward", [False, True])
def test_graphs_are_freed_without_the_garbage_collector(client, has_backward):
    model = Model()
    x = torch.randn(2, 4, requires_grad=True)
    held = []
    model.blocks[0].register_forward_hook(
        lambda module, args, result: held.append(
            StorageWeakRef(result.untyped_storage())
        )
    )
    gc.collect()
    gc.disable()
    try:
        with msitd.register_hook(model, client, gradients=True):
            result = model(x)
            if has_backward:
                result.sum().backward(retain_graph=True)
            assert not held[0].expired()
            del result
            assert held[0].expired()
    finally:
        gc.enable()


@pytest.mark.parametrize("of_functions", [False, True])
def test_calls_leave_the_garbage_collector_little_until_the_backward(
    client, of_functions
):
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(100)))
    if of_functions:
        recording = msitd.register_api(client, gradients=True)
    else:
        recording = msitd.register_hook(model, client, gradients=True)
    x = torch.randn(2, 4)
    with recording:
        model(x).sum().backward()
        gc.collect()
        gc.disable()
        try:
            before = collections.Counter(map(type, gc.get_objects()))
            result = model(x)
            found = collections.Counter(map(type, gc.get_objects())) - before
        finally:
            gc.enable()
        result.sum().backward()
    # Closures would be some of these for each call.
    kinds = (types.FunctionType, types.CellType, functools.partial)
    assert sum(found[kind] for kind in kinds) < 20, found
    assert sum(found.values()) < 3500, found


def test_removed_hooks_record_no_gradients(client, daemon):
    model = Model()
    with msitd.register_hook(model, client, gradients=True):
        loss = model(torch.randn(2, 4)).sum()
    loss.backward()
    client.flush()
    assert not any(r.io.startswith("grad") for r in daemon.records)
    assert not any(parameter._backward_hooks for parameter in model.parameters())


def test_a_policy_of_ops_and_tokens_holds_for_gradients(recorded):
    model = Model()

    def run():
        for _ in range(3):
            model(torch.randn(2, 4)).sum().backward()

    records, _ = recorded(
        model, run, op_pattern="*.first", tokens=[1], time="forward", inputs=False
    )
    ops = {f"root.blocks.{i}.first" for i in range(3)}
    assert {p[:2] for p in records} == {(1, op) for op in ops}
    assert {p[3:] for p in records} == {
        ("output", "0"),
        ("grad_output", "0"),
        ("grad_input", "0"),
        ("grad_weight", "weight"),
        ("grad_weight", "bias"),
    }


def test_state_needs_gradients(client):
    with pytest.raises(ValueError, match="optimizer_state needs gradients"):
        msitd.register_hook(Model(), client, optimizer_state=True)


def test_objects_in_arguments_and_results_disturb_nothing(recorded):
    class Cache:
        def __init__(self, x):
            self.x = x

    class Layer(nn.Module):
        def forward(self, x, cache, *, mask=None):
            return x * 2, Cache(x), slice(3), 1.5

    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.layer = Layer()

        def forward(self, x):
            return self.layer(self.linear(x), Cache(x), mask=Cache(None))

    def run():
        model(torch.ones(1, 2))[0].sum().backward()

    model = Holder()
    records, handle = recorded(model, run)
    assert (0, "root.layer", 0, "grad_input", "0") in records
    assert (0, "root", 0, "grad_output", "0") in records
    assert all(reason.startswith("tensors in an object") for reason in handle.skipped)


def test_views_that_are_changed_in_place_keep_their_gradients(recorded):
    """A linear layer returns a view if its input has three dimensions."""

    class Both(nn.Module):
        def forward(self, x):
            y = x * 3
            return y + x.mul_(2)

    class Changes(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.relu = nn.ReLU(inplace=True)
            self.other = nn.Linear(4, 4)
            self.both = Both()
            self.last = nn.Linear(4, 4)

        def forward(self, x):
            x = self.relu(self.linear(x))
            x = self.both(self.other(x))
            return self.last(x).add_(1).mul_(2)

    torch.manual_seed(0)
    model = Changes()
    x = torch.randn(2, 3, 4, requires_grad=True)
    records, handle = recorded(model, lambda: model(x).sum().backward())
    assert handle.skipped == {}
    hidden = model.linear(x)
    mask = (hidden > 0).float()
    last = torch.full((2, 3, 4), 2.0)
    both = last @ model.last.weight
    relu = (both * 5) @ model.other.weight
    for op, io, expected in [
        ("last", "grad_output", last),
        ("last", "grad_input", both),
        ("both", "grad_output", both),
        ("both", "grad_input", both * 5),
        # The gradient for the use before the change.
        ("other", "grad_output", both * 3),
        ("other", "grad_input", relu),
        ("relu", "grad_output", relu),
        ("relu", "grad_input", relu * mask),
        ("linear", "grad_output", relu * mask),
        ("linear", "grad_input", (relu * mask) @ model.linear.weight),
    ]:
        got = records[0, f"root.{op}", 0, io, "0"]
        torch.testing.assert_close(got, expected.detach(), msg=f"{op} {io}")
    assert not any(p[4].startswith("again") for p in records)


def test_sparse_and_dense_gradients_of_one_weight_are_added(recorded):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Uses()

        def forward(self, weight):
            return self.inner(weight)

    class Uses(nn.Module):
        def forward(self, weight):
            rows = nn.functional.embedding(torch.tensor([1]), weight, sparse=True)
            return rows.sum() + (weight * 2).sum()

    model = Both()
    weight = torch.ones(3, 2, requires_grad=True)
    records, handle = recorded(model, lambda: model(weight).backward())
    expected = torch.tensor([[2.0, 2.0], [3.0, 3.0], [2.0, 2.0]])
    assert torch.equal(records[0, "root.inner", 0, "grad_input", "0"], expected)
    assert handle.skipped == {}


def test_parameters_can_swap_their_memory(recorded):
    model = nn.Sequential(nn.Linear(2, 2))

    def run():
        model(torch.ones(1, 2)).sum().backward()
        model.zero_grad()
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            model.double()
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)
        model(torch.ones(1, 2).double()).sum().backward()

    records, _ = recorded(model, run, time="forward")
    weights = {p[0]: t.dtype for p, t in records.items() if p[3] == "grad_weight"}
    assert weights == {0: torch.float32, 1: torch.float64}


def test_gradients_of_weights_have_the_token_of_their_forward(recorded):
    model = nn.Linear(2, 1)

    def run():
        losses = [factor * model(torch.ones(1, 2)).sum() for factor in (10, 20, 30)]
        for position in (1, 0, 2):
            losses[position].backward(retain_graph=True)
        losses[1].backward()

    records, _ = recorded(model, run, time="forward")
    found = {p[:3:2]: t.item() for p, t in records.items() if p[4] == "bias"}
    assert found == {(0, 0): 10, (1, 0): 20, (1, 1): 20, (2, 0): 30}


@pytest.mark.parametrize("trains", [False, True])
def test_a_weight_with_two_names_has_the_first_one(recorded, trains):
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[0].weight = model[1].weight
    model.train(trains)

    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = model

        def forward(self, x):
            return self.parts[0](self.parts[1](x))

    turned = Turned().train(trains)
    records, _ = recorded(turned, lambda: turned(torch.ones(1, 2)).sum().backward())
    assert {p[1] for p in records if p[3] == "grad_weight"} == {"root.parts.0"}


def test_a_module_that_only_a_backward_runs_is_recorded(recorded):
    class Adjoint(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.adjoint = nn.Linear(2, 2)

        def forward(self, x):
            y = self.linear(x)
            y.register_hook(lambda gradient: self.adjoint(gradient))
            return y

    model = Adjoint()

    def run():
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()

    records, handle = recorded(model, run, time="forward")
    found = [p[:4] for p in records if p[1] == "root.adjoint"]
    assert found == [
        (token, "root.adjoint", 0, io) for token in (0, 1) for io in ("input", "output")
    ]
    assert handle.skipped == {}
