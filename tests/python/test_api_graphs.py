"""register_api records functions in graphs of torch.compile."""

import msitd
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils.checkpoint import checkpoint

X = torch.tensor([[-1.0, 2.0], [3.0, -4.0]])

BACKENDS = ["eager", "aot_eager", "inductor"]


def leaves(daemon):
    """Returns what arrived: token, op, call, io, index, and the bytes or the value."""
    return [
        (*r.place, r.data if r.kind in ("tensor", "number") else r.value)
        for r in daemon.all_records
    ]


def places(daemon):
    return [r.place[1:] for r in daemon.records]


class Everything(nn.Module):
    """Has functions, methods and operators, in place and not."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.norm = nn.LayerNorm(2)
        self.attention = nn.MultiheadAttention(2, 1, batch_first=True)

    def forward(self, x):
        y = self.norm(self.linear(x)) + 1
        y = 1 - y
        y += x
        y[0] = 2
        values, _ = torch.max(y, dim=-1)
        z = F.gelu(y) @ y.mT
        attended = self.attention(y[None], y[None], y[None], need_weights=False)[0]
        joined = torch.cat(y.split(1))
        whole = F.relu(y.clone(), inplace=True)
        return z.softmax(-1).view(-1), values, attended, joined, whole


@pytest.fixture(autouse=True)
def no_graphs():
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_graph_has_the_calls_of_eager(client, daemon, backend):
    torch.manual_seed(0)
    model = Everything()
    with torch.no_grad():
        with msitd.register_api(client):
            expected = model(X)
        client.next_token()
        counter = CompileCounterWithBackend(backend)
        whole = torch.compile(model, backend=counter, fullgraph=True)
        with msitd.register_api(client) as handle:
            got = whole(X)
    assert counter.frame_count == 1
    assert handle.skipped == {}
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other)
    client.flush()
    eager = [leaf[1:5] for leaf in leaves(daemon) if leaf[0] == 0]
    graph = [leaf[1:5] for leaf in leaves(daemon) if leaf[0] == 1]
    assert len({op for op, *_ in eager}) > 12
    # Inductor iterates over the values that it logs.
    graph = [p for p in graph if p[0] != "Tensor.unbind"]
    # Arguments are at the positions where Dynamo puts them, including defaults.
    assert [p for p in graph if p[2] == "output"] == [
        p for p in eager if p[2] == "output"
    ]
    assert {p[:2] for p in graph} == {p[:2] for p in eager}
    if backend == "inductor":
        return
    shown = {leaf[1:5]: leaf[5] for leaf in leaves(daemon) if leaf[0] == 1}
    for token, *place, data in leaves(daemon):
        if token == 0 and tuple(place) in shown and place[2] == "output":
            assert shown[tuple(place)] == data, place


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_are_counted_each_time_and_tokens_kept(client, daemon, backend):
    whole = torch.compile(lambda x: F.relu(x) * 2, backend=backend, fullgraph=True)
    with msitd.register_api(client, inputs=False, tokens=(0, 2)):
        for _ in range(3):
            whole(X)
            whole(X + 1)
            client.next_token()
    client.flush()
    got = [r.place[:3] for r in daemon.records]
    assert [p for p in got if p[1] != "Tensor.__add__"] == [
        (token, op, call)
        for token in (0, 2)
        for call in (0, 1)
        for op in ("Functional.relu", "Tensor.__mul__")
    ]


def test_what_is_in_place_is_recorded_before_and_behind(client, daemon):
    def run(x):
        y = x.clone()
        y.add_(1)
        y[0, 0] = 7
        return y

    with msitd.register_api(client, op_pattern=["*add_", "*setitem__"]):
        torch.compile(run, backend="aot_eager", fullgraph=True)(X)
    client.flush()
    shown = {
        r.place[1:]: np.frombuffer(r.data, r.dtype).reshape(r.shape).tolist()
        for r in daemon.records
    }
    after = (X + 1).tolist()
    assert shown["Tensor.add_", 0, "input", "0"] == X.tolist()
    assert shown["Tensor.add_", 0, "output", "0"] == after
    assert shown["Tensor.__setitem__", 0, "input", "0"] == after
    after[0][0] = 7.0
    assert shown["Tensor.__setitem__", 0, "output", "0"] == after


def test_reflected_operators_have_their_operands_in_order(client, daemon):
    with msitd.register_api(client, outputs=False):
        torch.compile(lambda x: 1 - x, backend="aot_eager")(X)
    client.flush()
    assert [leaf[1:] for leaf in leaves(daemon)] == [
        ("Tensor.__rsub__", 0, "input", "0", X.numpy().tobytes()),
        ("Tensor.__rsub__", 0, "input", "1", np.int64(1).tobytes()),
    ]


def test_numbers_of_dynamic_shapes_are_those_of_each_call(client, daemon):
    whole = torch.compile(
        lambda x: x.roll(x.shape[0] * 2), backend="aot_eager", dynamic=True
    )
    with msitd.register_api(client, outputs=False):
        for rows in (2, 3, 5):
            whole(torch.ones(rows, 2))
    client.flush()
    sizes = [r.data for r in daemon.values if r.index == "1"]
    assert [int.from_bytes(size, "little") for size in sizes] == [4, 6, 10]


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_nothing_is_recorded_twice(client, daemon, backend, imported):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    whole = torch.compile(model, backend=backend, fullgraph=True)
    with msitd.register_api(client, imported=imported), torch.no_grad():
        whole(X)
    client.flush()
    # With `imported`, operators that the graph finds in torch.ops are recorded,
    # too.
    got = [p for p in places(daemon) if p[2] == "output" and "Aten" not in p[0]]
    assert got == [
        ("Functional.linear", 0, "output", "0"),
        ("Functional.relu", 0, "output", "0"),
    ]


def test_hooks_and_functions_share_a_graph(client, daemon):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    whole = torch.compile(model, backend="aot_eager", fullgraph=True)
    with msitd.register_hook(model, client), msitd.register_api(client, inputs=False):
        whole(X)
    client.flush()
    outputs = [p[0] for p in places(daemon) if p[2] == "output"]
    assert outputs == [
        *("Functional.linear", "root.0", "Functional.relu", "root.1", "root")
    ]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_training_has_the_same_bits(client, daemon, backend):
    def train():
        torch.manual_seed(0)
        torch._dynamo.reset()
        model = nn.Sequential(nn.Linear(2, 8), nn.GELU(), nn.Linear(8, 1))
        whole = torch.compile(model, backend=backend, fullgraph=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for _ in range(5):
            loss = whole(X).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses, [p.detach().clone() for p in model.parameters()]

    losses, parameters = train()
    with msitd.register_api(client, op_pattern="Functional.*"):
        recorded_losses, recorded_parameters = train()
    if backend == "aot_eager":
        assert recorded_losses == losses
        assert all(map(torch.equal, recorded_parameters, parameters))
    else:
        # Inductor fuses around the records, so the last bits may differ.
        np.testing.assert_allclose(recorded_losses, losses, rtol=1e-5)
    client.flush()
    outputs = [p[:2] for p in places(daemon) if p[2] == "output"]
    assert outputs[:3] == [
        ("Functional.linear", 0),
        ("Functional.gelu", 0),
        ("Functional.linear", 1),
    ]
    assert len(outputs) == 15
    weight = next(r for r in daemon.records if r.index == "1")
    assert weight.requires_grad is True


@pytest.mark.parametrize("use_reentrant", [False])
def test_checkpointed_calls_are_recorded_once(client, daemon, use_reentrant):
    def run(x):
        return checkpoint(torch.sigmoid, x, use_reentrant=use_reentrant).sum()

    whole = torch.compile(run, backend="aot_eager", fullgraph=True)
    with msitd.register_api(client, op_pattern="*.sigmoid", inputs=False):
        whole(X.clone().requires_grad_()).backward()
    client.flush()
    assert places(daemon) == [("Torch.sigmoid", 0, "output", "0")]


def counted(handle):
    return {reason.partition(",")[0]: n for reason, n in handle.skipped.items()}


def test_what_a_graph_cannot_hold_is_counted(client, daemon):
    def run(x):
        y = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
        return torch.vmap(torch.tan)(y)

    names = ["*.sin", "*.cos", "*.tan"]
    with msitd.register_api(client, op_pattern=names) as handle:
        torch.compile(run, backend="aot_eager", fullgraph=True)(X)
    assert counted(handle) == {
        "a function in the body of an operator of a graph": 2,
        "a function in torch.func of a compiled model: no record is possible there": 1,
    }
    client.flush()
    assert places(daemon) == []


def test_gradients_in_graphs_are_counted(client, daemon):
    whole = torch.compile(torch.sigmoid, backend="aot_eager")
    with msitd.register_api(client, gradients=True) as handle:
        whole(X.clone().requires_grad_()).sum().backward()
    assert handle.skipped == {"gradients of functions in graphs of torch.compile": 1}
    client.flush()
    assert ("Torch.sigmoid", 0, "output", "0") in places(daemon)


@pytest.mark.parametrize("stack", ["caller", "full"])
def test_callers_are_those_in_the_program(client, daemon, stack):
    def inner(x):
        return torch.sigmoid(x)

    whole = torch.compile(lambda x: inner(x), backend="aot_eager", fullgraph=True)
    with msitd.register_api(client, stack=stack):
        whole(X)
    client.flush()
    first, *others = daemon.records[0].stack.splitlines()
    assert first.startswith(__file__)
    assert first.endswith("inner")
    assert bool(others) == (stack == "full")


def test_a_removed_handle_leaves_graphs_alone(client, daemon):
    whole = torch.compile(torch.sigmoid, backend="aot_eager")
    handle = msitd.register_api(client)
    whole(X)
    handle.remove()
    client.flush()
    count = len(daemon.records)
    assert count == 2
    whole(X)
    with msitd.register_api(client, inputs=False):
        whole(X)
    client.flush()
    assert len(daemon.records) == count + 1


def test_exported_programs_hold_no_records(client, daemon):
    with msitd.register_api(client, op_pattern="Functional.*"):
        program = torch.export.export(nn.ReLU(), (X,), strict=True)
    assert "msitd" not in str(program.graph)


def test_failing_notes_leave_the_graph_alone(client, monkeypatch):
    from msitd._core.api import in_graphs

    def fail(*_):
        raise RuntimeError("no note")

    monkeypatch.setattr(in_graphs.Notes, "_put", fail)
    with msitd.register_api(client, op_pattern="*.sigmoid") as handle:
        got = torch.compile(torch.sigmoid, backend="aot_eager", fullgraph=True)(X)
    assert torch.equal(got, torch.sigmoid(X))
    assert handle.skipped == {"no note": 1}


def test_calls_are_counted_where_torch_has_no_means(client, daemon, monkeypatch):
    from msitd._core.api import in_graphs

    monkeypatch.setattr(in_graphs, "are_possible", lambda: False)
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    whole = torch.compile(model, backend="aot_eager", fullgraph=True)
    with msitd.register_api(client) as handle:
        whole(X)
    [(reason, count)] = handle.skipped.items()
    assert "graphs" in reason
    assert count == 2
    client.flush()
    assert daemon.records == []
