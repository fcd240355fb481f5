"""Hooks and records together with torch.compile."""

import importlib.util
import logging
from pathlib import Path

import msitd
import pytest
import torch
from fake_daemon import FakeDaemon
from msitd._core.graph import graphs
from msitd._core.graph.compiled import _ALSO_IN_GRAPHS, _GET_TENSORS
from msitd._core.leaf.leaves import SAME_INDEX
from torch import nn

X = torch.arange(8, dtype=torch.float32).reshape(2, 4)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.act = nn.ReLU()

    def forward(self, x, *, scale=None):
        y = self.act(self.linear(x))
        return y if scale is None else y * scale


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        # A class of torch itself, which torch.compile wraps in another way.
        self.head = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, x):
        for block in self.blocks:
            x = block(x, scale=2.0)
        return {"last": self.head(x)}

    def generate(self, x, count):
        for _ in range(count):
            x = self(x)["last"]
        return x


def compiled(module, **options):
    return torch.compile(module, backend="eager", **options)


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    torch._dynamo.reset()


@pytest.fixture(params=["in graphs", "between graphs"])
def can_hold(request, monkeypatch):
    """Whether graphs can hold records, as in all but old versions of torch."""
    if request.param == "between graphs":
        monkeypatch.setattr(graphs, "operator", lambda: None)
    return request.param == "in graphs"


@pytest.fixture
def eager():
    """Returns the records of two forwards of a model without torch.compile."""
    daemon = FakeDaemon()
    model = Model()
    with (
        msitd.Client("run", endpoint=daemon.endpoint) as client,
        msitd.register_hook(model, client),
    ):
        model(X)
        model(X)
    records = [(r.place, bytes(r.data)) for r in daemon.records]
    daemon.stop()
    assert len(records) == 2 * (2 * (1 + 5) + 2 * 3 + 2)
    return records, model


def wrapped_later(model, client):
    handle = msitd.register_hook(model, client)
    return handle, compiled(model)


def wrapped_before(model, client):
    whole = compiled(model)
    return msitd.register_hook(model, client), whole


def hooks_on_the_wrapper(model, client):
    whole = compiled(model)
    return msitd.register_hook(whole, client), whole


def hooks_behind_a_call(model, client):
    whole = compiled(model)
    whole(X)
    return msitd.register_hook(model, client), whole


def in_place(model, client):
    model.compile(backend="eager")
    return msitd.register_hook(model, client), model


def in_place_behind_a_call(model, client):
    model.compile(backend="eager")
    model(X)
    return msitd.register_hook(model, client), model


def in_place_later(model, client):
    handle = msitd.register_hook(model, client)
    model.compile(backend="eager")
    return handle, model


def a_part(model, client):
    model.blocks[1] = compiled(model.blocks[1])
    model.head = compiled(model.head)
    return msitd.register_hook(model, client), model


def a_part_later(model, client):
    handle = msitd.register_hook(model, client)
    model.blocks[1] = compiled(model.blocks[1])
    model.head = compiled(model.head)
    return handle, model


def a_function_around(model, client):
    handle = msitd.register_hook(model, client)
    return handle, compiled(lambda x: model(x + 0))


def a_method(model, client):
    handle = msitd.register_hook(model, client)
    return handle, compiled(model.__call__)


@pytest.mark.parametrize(
    "way",
    [
        wrapped_later,
        wrapped_before,
        hooks_on_the_wrapper,
        hooks_behind_a_call,
        in_place,
        in_place_behind_a_call,
        in_place_later,
        a_part,
        a_part_later,
        a_function_around,
        a_method,
    ],
)
def test_records_what_the_eager_model_does(
    eager, client, daemon, caplog, way, can_hold
):
    expected, model = eager
    with caplog.at_level(logging.WARNING, "msitd"):
        handle, call = way(model, client)
        with handle:
            call(X)
            call(X)
    client.flush()
    assert [(r.place, bytes(r.data)) for r in daemon.records] == expected
    assert handle.skipped_count == 0
    assert client.token == 2
    told = [r.getMessage() for r in caplog.records if r.name == "msitd"]
    assert len(told) == (0 if can_hold else 1)
    assert all("is compiled" in line for line in told)


def test_eager_model_is_not_told_of_graphs(client, caplog):
    model = Model()
    compiled(model)
    with msitd.register_hook(model, client):
        model(X)
    assert [r for r in caplog.records if r.name == "msitd"] == []


@pytest.mark.parametrize("hooks_first", [True, False])
def test_torch_that_holds_no_records_refuses_whole_graphs_in_words(
    client, hooks_first, monkeypatch
):
    monkeypatch.setattr(graphs, "operator", lambda: None)
    model = Model()
    whole = compiled(model, fullgraph=True)
    if not hooks_first:
        whole(X)
    refused = pytest.raises(torch._dynamo.exc.Unsupported, match="msitd records here")
    with msitd.register_hook(model, client), refused:
        whole(X)
    assert torch.equal(whole(X)["last"], model(X)["last"])


def places_and_values(daemon):
    return [
        (r.place, torch.frombuffer(bytearray(r.data), dtype=torch.float32))
        for r in daemon.records
    ]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_whole_graph_records_what_the_eager_model_does(client, daemon, backend):
    """Covers forward and backward; the second shape recompiles the graph as dynamic."""
    batches = [X.clone().requires_grad_(), torch.ones(3, 4), torch.ones(5, 4)]

    def run(call, model):
        model.zero_grad()
        for batch in batches:
            call(batch)["last"].sum().backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    torch.manual_seed(0)
    model = Model()
    with msitd.register_hook(model, client):
        gradients = run(model, model)
    client.flush()
    expected = places_and_values(daemon)
    values = [(r.place, r.value) for r in daemon.values]
    whole = torch.compile(model, backend=backend, fullgraph=True)
    other = FakeDaemon()
    with (
        msitd.Client("run", endpoint=other.endpoint) as second,
        msitd.register_hook(model, second),
    ):
        compiled_gradients = run(whole, model)
    assert second.token == len(batches)
    got = places_and_values(other)
    got_values = [(r.place, r.value) for r in other.values]
    other.stop()
    assert [place for place, _ in got] == [place for place, _ in expected]
    assert got_values == values
    for (_, mine), (_, his) in zip(got, expected, strict=True):
        torch.testing.assert_close(mine, his)
    torch.testing.assert_close(compiled_gradients, gradients)


class Odd(nn.Module):
    """Has arguments of each kind, including one that is not a tensor, and no result."""

    def forward(self, x, *args, **kwargs):
        return None


class Odder(nn.Module):
    def __init__(self):
        super().__init__()
        self.odd = Odd()
        self.none = Odd()

    def forward(self, x, n, share):
        self.odd(
            x, None, True, n, share, "läuft", torch.float16, (), device=x.device, s=X
        )
        self.none(None)
        return x, {"n": n, "more": [None, "text", False]}


def test_values_in_a_graph_are_those_of_the_eager_model(client, daemon):
    model = Odder()
    with msitd.register_hook(model, client):
        model(X, 3, 0.5)
        model(X, 4, 0.25)
    client.flush()
    eager = [(r.place, r.kind, r.value, bytes(r.data)) for r in daemon.all_records]
    other = FakeDaemon()
    whole = torch.compile(model, backend="eager", fullgraph=True)
    with (
        msitd.Client("run", endpoint=other.endpoint) as second,
        msitd.register_hook(model, second),
    ):
        whole(X, 3, 0.5)
        whole(X, 4, 0.25)
    got = [(r.place, r.kind, r.value, bytes(r.data)) for r in other.all_records]
    other.stop()
    assert got == eager


def test_of_parts_with_one_index_a_graph_has_the_first(client, daemon):
    class Gives(nn.Module):
        def forward(self, x):
            return {"0": x + 1, 0: x + 2, "a.b": x, "a": {"b": x + 3}, "n": 1}

    class Uses(nn.Module):
        def __init__(self):
            super().__init__()
            self.gives = Gives()

        def forward(self, x):
            given = self.gives(x)
            return given["0"] + given[0] + given["a.b"] + given["a"]["b"]

    found = []
    for is_compiled in (False, True):
        client.token = is_compiled
        model = Uses()
        with msitd.register_hook(model, client, time="step") as handle:
            run = compiled(model, fullgraph=True) if is_compiled else model
            run(torch.ones(1))
            skipped = handle.skipped
        client.flush()
        records = [r for r in daemon.records if r.token == is_compiled]
        found.append((skipped, [(*r.place[1:], r.data) for r in records]))
    assert found[0] == found[1]
    assert found[0][0] == {SAME_INDEX: 2}


def test_any_constant_in_a_graph_is_what_it_is_in_the_eager_model(client, daemon):
    class Passes(nn.Module):
        def __init__(self):
            super().__init__()
            self.odd = Odd()

        def forward(self, x):
            return self.odd(
                x,
                2**70,
                -(2**63),
                1 + 2j,
                "a\x1eb\x1fc\x1d0",
                "\ud800",
                b"bytes",
                slice(1, 2),
                range(3),
                float("inf"),
                torch.device("cpu"),
                torch.strided,
                {"x\x1ey": 1},
            )

    model = Passes()
    with msitd.register_hook(model, client):
        model(X)
    client.flush()
    eager = [(r.place, r.kind, r.value, bytes(r.data)) for r in daemon.all_records]
    other = FakeDaemon()
    with (
        msitd.Client("run", endpoint=other.endpoint) as second,
        msitd.register_hook(model, second) as handle,
    ):
        compiled(model, fullgraph=True)(X)
    got = [(r.place, r.kind, r.value, bytes(r.data)) for r in other.all_records]
    other.stop()
    assert got == eager
    assert handle.skipped == {}


class Branches(nn.Module):
    """Runs a module both in the graph and in a body of an operator."""

    def __init__(self, kind):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.inner = nn.Linear(2, 2)
        self.kind = kind

    def forward(self, x):
        x = self.first(x)
        if self.kind == "cond":
            return torch.cond(
                x.sum() > 0, lambda t: self.inner(t), lambda t: self.inner(t) * 2, (x,)
            )
        if self.kind == "map":
            return torch._higher_order_ops.map(lambda t: self.inner(t), x)
        if self.kind == "vmap":
            return torch.func.vmap(self.inner)(x)
        return torch.func.grad(lambda t: self.inner(t).sum())(x)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("kind", ["cond", "map", "vmap", "grad"])
def test_what_a_body_in_a_graph_cannot_hold_is_counted(client, daemon, kind, backend):
    model = Branches(kind).eval()
    x = torch.ones(2, 2)
    whole = torch.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad():
        expected = model(x)
        with msitd.register_hook(model, client) as handle:
            result = whole(x)
    torch.testing.assert_close(result, expected)
    client.flush()
    assert {r.place[1:4:2] for r in daemon.records} == {
        (op, io) for op in ("root", "root.first") for io in ("input", "output")
    }
    [(reason, count)] = handle.skipped.items()
    assert "no record is possible there" in reason
    assert count == handle.skipped_count == (2 if kind == "cond" else 1)


def test_training_goes_on_where_a_body_cannot_hold_records(client, daemon):
    model = Branches("cond")
    whole = torch.compile(model, backend="aot_eager", fullgraph=True)
    with msitd.register_hook(model, client) as handle:
        whole(torch.ones(2, 2)).sum().backward()
    assert model.inner.weight.grad is not None
    client.flush()
    assert "root.first" in {r.op for r in daemon.records}
    assert handle.skipped_count == 2


def test_a_body_that_runs_as_it_is_has_records(client, daemon):
    model = Branches("cond").eval()
    with msitd.register_hook(model, client) as handle, torch.no_grad():
        compiled(model, fullgraph=True)(torch.ones(2, 2))
    client.flush()
    inner = [r.place[2:4] for r in daemon.records if r.op == "root.inner"]
    assert inner == [(0, "input"), (0, "output")]
    assert handle.skipped == {}


def test_a_caller_outside_of_the_graph_is_known(client, daemon):
    model = nn.Sequential(nn.ReLU())
    with msitd.register_hook(model, client, stack="caller"):
        torch.compile(model, backend="aot_eager")(X)
    client.flush()
    name = "test_a_caller_outside_of_the_graph_is_known"
    assert {r.stack.rpartition(" ")[2] for r in daemon.records} == {name}


@pytest.mark.parametrize("level", ["caller", "full"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_graph_knows_callers_and_what_requires_a_gradient(
    client, daemon, backend, level
):
    def facts(records):
        return [(r.place, r.requires_grad, r.stack.split("\n")[0]) for r in records]

    def run(call):
        return call(torch.ones(1, 4))

    model = Block()
    with msitd.register_hook(model, client, stack=level):
        run(model)
    client.flush()
    eager = facts(daemon.records)
    assert any(requires for _, requires, _ in eager)
    other = FakeDaemon()
    with (
        msitd.Client("run", endpoint=other.endpoint) as second,
        msitd.register_hook(model, second, stack=level),
    ):
        run(torch.compile(model, backend=backend, fullgraph=True))
    got = facts(other.records)
    if level == "full":
        stacks = [r.stack for r in other.records if r.op == "root.act"]
        names = [line.rpartition(".")[2] for line in stacks[0].split("\n")]
        assert "forward" in names
        assert names.index("run") > names.index("forward")
        assert not any("<eval_with_key>" in text for text in stacks)
    other.stop()
    assert got == eager


def test_the_policy_of_the_hooks_holds_in_graphs(client, daemon):
    model = Model()
    whole = compiled(model, fullgraph=True)
    with msitd.register_hook(
        model, client, op_pattern="*.act", tokens=[1], inputs=False
    ):
        for _ in range(3):
            whole(X)
    client.flush()
    assert [r.place for r in daemon.records] == [
        (1, f"root.blocks.{i}.act", 0, "output", "0") for i in (0, 1)
    ]


def test_nothing_in_a_graph_is_an_alias(client, daemon):
    model = Model()
    with msitd.register_hook(model, client, aliases=True):
        compiled(model, fullgraph=True)(X)
    client.flush()
    assert daemon.records
    assert not any(r.alias_of for r in daemon.records)


def test_graph_that_outlives_its_hooks_records_nothing(client, daemon):
    kept = []

    def keep(graph, inputs):
        kept.append(graph)
        return graph

    model = Model()
    handle = msitd.register_hook(model, client)
    torch.compile(model, backend=keep)(X)
    [graph] = kept
    # torch calls the two hooks of a compiled root outside its graph.
    notes = [n for n in graph.graph.nodes if "msitd" in str(n.target)]
    assert len(notes) == 2 * 9
    client.flush()
    recorded = len(daemon.records)
    handle.remove()
    graph(X, *model.parameters())
    del handle
    graph(X, *model.parameters())
    client.flush()
    assert len(daemon.records) == recorded


@pytest.mark.parametrize("register", ["wrapper", "model"])
def test_generate_of_a_compiled_model_counts_tokens(client, daemon, register):
    model = Model()
    whole = compiled(model)
    with msitd.register_hook(whole if register == "wrapper" else model, client):
        whole.generate(X, 3)
    assert client.token == 3
    client.flush()
    roots = [r.place for r in daemon.records if r.place[1] == "root"]
    assert [place[0] for place in roots] == [0, 0, 1, 1, 2, 2]


def test_weights_have_the_names_of_the_model(client, daemon):
    model = Model()
    model.blocks[0] = compiled(model.blocks[0])
    msitd.register_hook(compiled(model), client, weights=True).remove()
    client.flush()
    assert {r.place[1] for r in daemon.records} == {
        "root.blocks.0.linear",
        "root.blocks.1.linear",
        "root.head.0",
    }


def test_graphs_are_whole_with_and_without_hooks(client, can_hold):
    counter = torch._dynamo.testing.CompileCounter()
    model = Model()
    whole = torch.compile(model, backend=counter)
    with msitd.register_hook(model, client):
        whole(X)
        assert (counter.frame_count == 1) == can_hold
    counter.clear()
    whole(X)
    assert counter.frame_count == 1


def test_record_inside_a_compiled_function(client, daemon):
    @torch.compile(backend="eager")
    def double(x):
        y = x * 2
        assert client.record(y, op="middle")
        return y + 1

    assert torch.equal(double(X), X * 2 + 1)
    assert torch.equal(double(X + 1), X * 2 + 3)
    client.flush()
    assert [bytes(r.data) for r in daemon.records] == [
        (X * 2).numpy().tobytes(),
        (X * 2 + 2).numpy().tobytes(),
    ]


class Held:
    def __init__(self, tensor):
        self.tensor = tensor


def test_what_is_skipped_does_not_end_a_whole_graph(client, daemon):
    """torch runs the hooks of the model itself outside the graph, but guards on
    them.
    """

    class Takes(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x, held):
            return self.linear(x) + held.tensor, x.to("meta")

    model = Takes()
    whole = torch.compile(model, backend="eager", fullgraph=True)
    with msitd.register_hook(model, client) as handle:
        for _ in range(2):
            whole(X, Held(X))
    client.flush()
    assert len(daemon.records) == 2 * (1 + 2 + 1)
    assert sorted(handle.skipped.values()) == [2, 2]


class Raises(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        raise ValueError(self.linear(x).shape)


class Catches(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Identity(), Raises())
        self.last = nn.Linear(4, 4)

    def forward(self, x):
        try:
            x = self.inner(x)
        except ValueError:
            x = x + 1
        return self.last(x)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_what_catches_an_exception_in_a_graph_is_recorded(backend, gradients):
    found = []
    for options in (None, {"backend": backend, "fullgraph": True}):
        torch._dynamo.reset()
        daemon = FakeDaemon()
        model = Catches()
        call = model if options is None else torch.compile(model, **options)
        with (
            msitd.Client("run", endpoint=daemon.endpoint) as client,
            msitd.register_hook(
                model, client, gradients=gradients, time="forward"
            ) as handle,
        ):
            for step in (1, 2):
                call(X).sum().backward()
                # A pass that seems to be running would end with the next one.
                assert client.token == step
        assert handle.skipped == {}
        found.append(
            sorted(r.place for r in daemon.records if not r.op.endswith(".json"))
        )
        daemon.stop()
    eager, graph = found
    assert {(0, "root", 0, "output", "0"), (1, "root", 0, "output", "0")} < set(graph)
    assert graph == eager


@pytest.mark.parametrize(
    ("strict", "gradients"), [(False, False), (False, True), (True, False)]
)
def test_an_export_is_no_forward(client, daemon, strict, gradients):
    model = Block().eval()
    with msitd.register_hook(model, client, gradients=gradients) as handle:
        torch.export.export(model, (X,), strict=strict)
        client.flush()
        assert not any(r.op.startswith("root") for r in daemon.all_records)
        model(X)
    client.flush()
    assert {r.place[0] for r in daemon.records} == {0}
    assert handle.skipped == {}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_forwards_without_gradients_train_nothing_in_graphs(client, daemon, backend):
    model = Block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    whole = torch.compile(model, backend=backend, fullgraph=True)
    with msitd.register_hook(model, client):
        for _ in range(2):
            whole(X).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            whole(X)
            whole(X)
    client.flush()
    passes = [
        r.place[:3:2] for r in daemon.records if r.place[1::2] == ("root", "output")
    ]
    assert passes == [(0, 0), (0, 1), (1, 0), (2, 0)]


# These run outside graphs, or are run by Dynamo while it traces.
SEE_NO_TENSORS = {
    "api.in_graphs",
    "api.names",
    "api.options",
    "api.targets",
    "arguments",
    "codes",
    "counters",
    "daemon.face_client",
    "daemon.lazy_opening",
    "daemon.msitctl",
    "daemon.patience",
    "daemon.private_daemon",
    "daemon.programs",
    "daemon.ranks",
    "daemon.trees",
    "endpoints",
    "errors",
    "graph.compiled",
    "graph.effect_order",
    "graph.graphs",
    "graph.sites",
    "installed",
    "interpreters",
    "last_wait",
    "leaf.options",
    "module.context",
    "module.copies",
    "module.hook_life",
    "module.op_names",
    "module.options",
    "module.registration",
    "open_clients",
    "openings",
    "patterns",
    "personal",
    "removable",
    "replacing",
    "seeding",
    "tokens",
    "torch_version",
    "vocabulary",
}


def test_every_module_of_the_core_is_in_graphs_or_kept_out():
    """Dynamo would trace a forgotten module on machines with a device."""
    core = Path(msitd._core.__file__).parent
    found = {
        ".".join(path.relative_to(core).with_suffix("").parts)
        for path in core.rglob("*.py")
        if path.stem != "__init__"
    }
    assert found == SEE_NO_TENSORS | {*_GET_TENSORS, *_ALSO_IN_GRAPHS}


@pytest.mark.parametrize("name", (*_GET_TENSORS, *_ALSO_IN_GRAPHS))
def test_what_is_kept_out_of_graphs_is_there(name):
    assert importlib.util.find_spec(f"msitd._core.{name}") is not None


def test_inductor_knows_where_to_cut_cuda_graphs(client):
    """Tests of accelerators check that Inductor does cut them."""
    config = importlib.import_module("torch._inductor.config")
    model = Model()
    with msitd.register_hook(model, client):
        torch.compile(model, fullgraph=True)(X)
    assert config.custom_should_partition_ops.count("msitd::note") == 1
