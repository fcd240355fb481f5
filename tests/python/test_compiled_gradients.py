"""Gradients in graphs of torch.compile equal those of the model without it."""

import logging

import msitd
import pytest
import torch
from fake_daemon import FakeDaemon
from msitd._core.graph import graphs
from test_gradients import Model as Residuals
from test_gradients import as_tensor
from torch import nn
from torch.utils.checkpoint import checkpoint


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def without_chance(model):
    """Backends draw different random numbers."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def train(call, model, shapes=((2, 4), (2, 4), (3, 4), (5, 4))):
    """The third shape recompiles the graph as dynamic."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for shape in shapes:
        call(torch.randn(shape, requires_grad=True)).pow(2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


class Views(nn.Module):
    """Changes results of modules in place, which are views."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.relu = nn.ReLU(inplace=True)
        self.same = nn.Identity()
        self.last = nn.Linear(4, 4)

    def forward(self, x):
        x = self.same(self.relu(self.linear(x)) * 1)
        x[:, :2].mul_(3)
        return self.last(x).add_(1).mul_(2)


class Mixed(nn.Module):
    def forward(self, x, pair, *, scale, count):
        return {"sum": x * scale + pair[1].float(), "other": (pair[0] * x).sum()}


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.mixed = Mixed()

    def forward(self, x):
        y = self.first(x)
        z = self.mixed(y, (x, torch.arange(4)), scale=y * 2, count=3)
        return z["sum"].sum() + z["other"]


class Heads(nn.Module):
    """Returns views of one tensor, and returns an argument unchanged."""

    def __init__(self):
        super().__init__()
        self.parts = Parts()
        self.same = nn.Identity()

    def forward(self, x):
        query, key, value = self.parts(x)
        return (query * self.same(key)).sum() + value.pow(2).sum()


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 12)

    def forward(self, x):
        return self.linear(x).chunk(3, -1)


class Again(nn.Module):
    """Calls itself, and a module without tensors."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.weight = Weight()

    def forward(self, x, depth=2):
        x = self.linear(x)
        return self.weight(2) * x if depth == 0 else self(x * 2, depth - 1)


class Weight(nn.Module):
    def __init__(self):
        super().__init__()
        self.values = nn.Parameter(torch.ones(4))

    def forward(self, factor):
        return self.values * factor


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2.1


class Wrong(nn.Module):
    def forward(self, x):
        return Double.apply(x)


class Checkpoints(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))

    def forward(self, x):
        return checkpoint(self.block, x * 1, use_reentrant=False)


class Partly(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            y = self.a(x)
        return self.b(x) + y + self.a(y)


def small():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))


def train_views(call, model):
    train(call, model, ((2, 3, 4), (3, 3, 4), (4, 3, 4)))


def go_back_twice(call, model):
    loss = call(torch.randn(2, 4, requires_grad=True)).sum()
    loss.backward(retain_graph=True)
    (loss * 2).backward()


def go_back_in_another_order(call, model):
    losses = [factor * call(torch.randn(2, 4)).sum() for factor in (1, 2, 3)]
    for position in (1, 0, 2):
        losses[position].backward()


def differentiate(call, model):
    x = torch.randn(2, 4, requires_grad=True)
    torch.autograd.grad(call(x).sum(), [x, *model.parameters()])


CASES = {
    "residuals": (lambda: without_chance(Residuals()), train),
    "views": (Views, train_views),
    "arguments": (Outer, train),
    "parts of a result": (Heads, train),
    "recursion": (Again, train),
    "a function of autograd": (lambda: nn.Sequential(nn.Linear(4, 4), Wrong()), train),
    "checkpoints": (Checkpoints, train),
    "parts without gradients": (Partly, train),
    "two backwards": (small, go_back_twice),
    "pipeline": (small, go_back_in_another_order),
    "torch.autograd.grad": (small, differentiate),
}


def records_of(kind, wrap=lambda model: model, **options):
    build, run = kind
    torch.manual_seed(0)
    model = build()
    call = wrap(model)
    daemon = FakeDaemon()
    with (
        msitd.Client("run", endpoint=daemon.endpoint) as client,
        msitd.register_hook(model, client, gradients=True, **options) as handle,
    ):
        torch.manual_seed(1)
        run(call, model)
    records = {record.place: record for record in daemon.records}
    assert len(records) == len(daemon.records)
    daemon.stop()
    return records, handle


def compiled(backend):
    return lambda model: torch.compile(model, backend=backend, fullgraph=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("case", CASES)
def test_a_graph_records_the_gradients_of_the_eager_model(case, backend):
    options = {"time": "forward"} if case == "pipeline" else {}
    expected, _ = records_of(CASES[case], **options)
    assert any(place[3] == "grad_output" for place in expected)
    got, handle = records_of(CASES[case], compiled(backend), **options)
    assert set(got) == set(expected)
    assert all("checkpointing" in reason for reason in handle.skipped)
    for place, record in expected.items():
        assert got[place].requires_grad == record.requires_grad
        if backend == "inductor":
            mine, his = as_tensor(got[place]), as_tensor(record)
            torch.testing.assert_close(mine, his, rtol=1e-4, atol=1e-5, equal_nan=True)
        else:
            assert bytes(got[place].data) == bytes(record.data), place


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_graph_records_in_the_order_of_the_eager_model(backend):
    """Gradients of parameters follow the backward of a graph."""

    def order(records):
        return [p for p in records if p[1] != "root" and p[3] != "grad_weight"]

    expected, _ = records_of(CASES["residuals"])
    got, _ = records_of(CASES["residuals"], compiled(backend))
    assert order(got) == order(expected)


@pytest.mark.parametrize("gradients", [False, True])
def test_inductor_keeps_the_order_of_records(client, daemon, gradients):
    """Inductor would run the second record first, which needs less memory."""
    model = Outer()
    with msitd.register_hook(model, client, gradients=gradients):
        compiled("inductor")(model)(torch.ones(2, 4)).backward()
    client.flush()
    mixed = [r.io for r in daemon.records if r.op == "root.mixed"]
    assert mixed[:6] == ["input"] * 4 + ["output"] * 2
    assert {r.io for r in daemon.records if r.op == "root"} >= {"input", "output"}


@pytest.mark.parametrize("gradients", [False, True])
def test_inductor_runs_records_of_calls_without_tensors(client, daemon, gradients):
    """Inductor would call these before kernels that must run first."""
    model = Residuals()
    with msitd.register_hook(
        model, client, gradients=gradients, op_pattern="*.first", inputs=False
    ) as handle:
        compiled("inductor")(model)(torch.ones(2, 4)).sum().backward()
    client.flush()
    assert {r.op for r in daemon.records} == {
        f"root.blocks.{number}.first" for number in range(3)
    }
    assert handle.skipped == {}


def test_a_policy_of_ops_and_sides_holds_for_gradients_in_graphs():
    options = {
        "op_pattern": "*.first",
        "inputs": False,
        "outputs": False,
    }
    expected, _ = records_of(CASES["residuals"], **options)
    got, _ = records_of(CASES["residuals"], compiled("aot_eager"), **options)
    ios = {"grad_output", "grad_input", "grad_weight", "state"}
    assert {place[3] for place in got} == ios
    assert set(got) == set(expected)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_around_a_graph_has_the_gradients_of_the_first_run(reentrant):
    class Around(Checkpoints):
        def forward(self, x):
            return checkpoint(self.block, x * 1, use_reentrant=reentrant)

    def wrap(model):
        model.block.compile(backend="aot_eager", fullgraph=True)
        return model

    kind = (Around, train)
    expected, _ = records_of(kind)
    got, handle = records_of(kind, wrap)
    assert set(got) == set(expected)
    assert all(bytes(got[p].data) == bytes(expected[p].data) for p in got)
    assert all("checkpointing" in reason for reason in handle.skipped)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_graphs_that_end_elsewhere_lose_no_gradients(backend):
    class Breaks(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)
            self.b = nn.Linear(4, 4)

        def forward(self, x):
            y = self.a(x)
            torch._dynamo.graph_break()
            return self.b(y) * x

    kind = (lambda: nn.Sequential(nn.Linear(4, 4), Breaks(), nn.Linear(4, 4)), train)
    expected, _ = records_of(kind)
    got, handle = records_of(kind, lambda m: torch.compile(m, backend=backend))
    assert set(got) == set(expected)
    assert handle.skipped == {}


def test_what_is_not_used_has_zeros_in_a_graph():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return x * 2, self.linear(x)

    class Has(nn.Module):
        def __init__(self):
            super().__init__()
            self.two = Two()

        def forward(self, x):
            return self.two(x)

    def run(call, model):
        call(torch.ones(1, 4, requires_grad=True))[1].sum().backward()

    expected, _ = records_of((Has, run))
    got, _ = records_of((Has, run), compiled("aot_eager"))
    [place] = set(got) - set(expected)
    assert place == (0, "root.two", 0, "grad_output", "0")
    assert not as_tensor(got[place]).any()


def test_two_registrations_record_their_gradients_in_one_graph():
    model = small()
    daemons = [FakeDaemon(), FakeDaemon()]
    clients = [msitd.Client("run", endpoint=d.endpoint) for d in daemons]
    patterns = ["root.0", "root.*"]
    handles = [
        msitd.register_hook(model, client, gradients=True, op_pattern=pattern)
        for client, pattern in zip(clients, patterns, strict=True)
    ]
    compiled("aot_eager")(model)(torch.ones(1, 4)).sum().backward()
    for client, handle in zip(clients, handles, strict=True):
        handle.remove()
        client.close()
        assert handle.skipped == {}
    ops = [{r.op for r in d.records if r.io == "grad_output"} for d in daemons]
    for daemon in daemons:
        daemon.stop()
    assert ops == [{"root.0"}, {"root.0", "root.1", "root.2"}]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_removed_hooks_record_no_gradients_of_a_graph(client, daemon, backend):
    model = small()
    with msitd.register_hook(model, client, gradients=True) as handle:
        loss = compiled(backend)(model)(torch.ones(2, 4)).sum()
    loss.backward()
    client.flush()
    assert not any(r.io.startswith("grad") for r in daemon.records)
    assert handle.skipped == {}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_backward_that_is_compiled_is_counted(client, daemon, backend):
    model = small()
    gradients = []
    with msitd.register_hook(model, client, gradients=True) as handle:
        for has_hooks in (True, False):
            loss = compiled(backend)(model)(torch.ones(2, 4)).sum()
            compiler = torch.compile(backend=backend)
            with torch._dynamo.compiled_autograd._enable(compiler):
                loss.backward()
            gradients.append([parameter.grad for parameter in model.parameters()])
            model.zero_grad()
            if has_hooks:
                client.flush()
                handle.remove()
    for hooked, plain in zip(*gradients, strict=True):
        torch.testing.assert_close(hooked, plain)
    assert any(r.io == "grad_weight" for r in daemon.records)
    assert handle.skipped_count > 0
    assert all(reason.startswith("gradients: ") for reason in handle.skipped)


def test_graphs_end_at_modules_where_backwards_are_compiled(client, daemon):
    model = small()
    with (
        torch._dynamo.config.patch(compiled_autograd=True),
        msitd.register_hook(model, client, gradients=True),
    ):
        torch.compile(model, backend="inductor")(torch.ones(2, 4)).sum().backward()
    client.flush()
    assert {"input", "output", "grad_weight"} <= {r.io for r in daemon.records}


def test_torch_that_holds_no_records_ends_graphs(monkeypatch, caplog):
    monkeypatch.setattr(graphs, "operator", lambda: None)
    expected, _ = records_of(CASES["residuals"])
    with caplog.at_level(logging.WARNING, "msitd"):
        got, _ = records_of(
            CASES["residuals"], lambda m: torch.compile(m, backend="eager")
        )
    assert set(got) == set(expected)
    assert any("is compiled" in r.getMessage() for r in caplog.records)
