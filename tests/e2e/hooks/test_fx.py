"""msitd.fx: nodes of graphs of torch.compile."""

import doctest
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msitd
import numpy as np
import pytest
import torch
from msitd import fx, query
from torch import nn

from daemon import ROOT, Daemon


@pytest.fixture(autouse=True)
def place(user_place: Path) -> Iterator[None]:
    """A daemon at its usual location, and no graph of another test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Net(nn.Module):
    """Returns two parts of a product."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.fc(x).relu().chunk(2, dim=1)
        return torch.cat([first, second + 1], dim=1)


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def record(run: str, model: Any, *batches: torch.Tensor, **options: Any) -> list[Any]:
    """Returns the results of a compiled model, whose nodes are recorded in a run."""
    with msitd.Client(run) as client:
        compiled = torch.compile(
            model, backend=fx.backend(client, **options), fullgraph=True
        )
        return [compiled(batch) for batch in batches]


def tensors(run: str, **selection: Any) -> list[Any]:
    return list(query.connect().tensors.list(run, query.select(**selection)))


def values(run: str, **selection: Any) -> np.ndarray[Any, Any]:
    (tensor,) = tensors(run, **selection)
    return np.asarray(query.connect().tensors.read(tensor))


def test_nodes_of_aten_have_the_names_of_torchairs_files() -> None:
    model, batch = net(), torch.ones(2, 4)
    with torch.no_grad():
        (result,) = record("r", model, batch)
        assert result.equal(model(batch))
    assert [(t.op, t.io, t.index) for t in tensors("r")] == [
        ("t-aten.t.default", "input", "0"),
        ("t-aten.t.default", "output", "0"),
        ("addmm-aten.addmm.default", "input", "0"),
        ("addmm-aten.addmm.default", "input", "1"),
        ("addmm-aten.addmm.default", "input", "2"),
        ("addmm-aten.addmm.default", "output", "0"),
        ("relu-aten.relu.default", "input", "0"),
        ("relu-aten.relu.default", "output", "0"),
        ("split-aten.split.Tensor", "input", "0"),
        ("split-aten.split.Tensor", "output", "0"),
        ("split-aten.split.Tensor", "output", "1"),
        ("getitem-operator.getitem", "input", "0.0"),
        ("getitem-operator.getitem", "input", "0.1"),
        ("getitem-operator.getitem", "output", "0"),
        ("getitem_1-operator.getitem", "input", "0.0"),
        ("getitem_1-operator.getitem", "input", "0.1"),
        ("getitem_1-operator.getitem", "output", "0"),
        ("add-aten.add.Tensor", "input", "0"),
        ("add-aten.add.Tensor", "output", "0"),
        ("cat-aten.cat.default", "input", "0.0"),
        ("cat-aten.cat.default", "input", "0.1"),
        ("cat-aten.cat.default", "output", "0"),
    ]
    relu = values("r", ops="relu*", io="output")
    assert np.array_equal(relu, model.fc(batch).relu().detach().numpy())
    assert np.array_equal(values("r", ops="cat*", io="output"), result.numpy())


def test_a_backward_is_recorded_and_changes_no_bit() -> None:
    model, other = net(), net()
    batch = torch.randn(3, 4)
    with msitd.Client("r") as client:
        compiled = torch.compile(model, backend=fx.backend(client), fullgraph=True)
        compiled(batch).square().sum().backward()
    plain = torch.compile(other, backend="aot_eager", fullgraph=True)
    plain(batch).square().sum().backward()
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(a.grad, b.grad) for a, b in pairs)
    backward = {t.op for t in tensors("r") if t.op.startswith("backward/")}
    assert "backward/mm-aten.mm.default" in backward
    grad = values("r", ops="backward/mm-aten.mm.default", io="output")
    assert model.fc.weight.grad is not None
    assert np.array_equal(grad, model.fc.weight.grad.numpy())


@pytest.mark.parametrize("inner", ["eager", "aot_eager", "inductor"])
def test_nodes_are_recorded_inside_of_other_backends(inner: str) -> None:
    model, batch = net(), torch.randn(2, 4)
    with torch.no_grad():
        (result,) = record("r", model, batch, inner=inner)
        expected = model(batch)
    assert torch.allclose(result, expected)
    outputs = {t.op.rpartition("-")[2]: t for t in tensors("r", io="output")}
    assert set(outputs) >= {
        "torch._C._nn.linear",
        "method.relu",
        "method.chunk",
        "operator.add",
        "torch.cat",
    }
    cat = np.asarray(query.connect().tensors.read(outputs["torch.cat"]))
    assert np.array_equal(cat, result.numpy())


def test_backends_are_compared_node_by_node() -> None:
    batch = torch.randn(2, 4)
    with torch.no_grad():
        record("golden", net(), batch, inner="eager")
        torch._dynamo.reset()
        wrong = net()
        wrong.fc.bias += 0.5
        record("target", wrong, batch, inner="aot_eager")
    report = query.connect().comparisons.run("golden", "target")
    assert report.first_divergence.op.endswith("-torch._C._nn.linear")
    assert report.unmatched_count == 0


def test_a_token_ends_when_a_function_runs_again() -> None:
    def score(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        torch._dynamo.graph_break()
        return x.sum()

    with msitd.Client("r") as client:
        compiled = torch.compile(score, backend=fx.backend(client), dynamic=False)
        # The second shape is another graph of the same functions.
        for batch in (torch.ones(3), torch.ones(4), torch.ones(4)):
            compiled(batch)
    outputs = [(t.token, t.op, t.call) for t in tensors("r", io="output")]
    assert outputs == [
        (token, op, 0)
        for token in range(3)
        for op in ("mul-aten.mul.Tensor", "graph_1/sum_1-aten.sum.default")
    ]


def test_ops_are_chosen_by_patterns() -> None:
    for inner in (None, "eager"):
        torch._dynamo.reset()
        run = f"r-{inner}"
        record(run, net(), torch.ones(2, 4), inner=inner, ops=["*relu*", "cat*"])
        found = {t.op.rpartition(".")[2] for t in tensors(run)}
        assert found <= {"default", "relu", "cat"}
        assert len(tensors(run, io="output")) == 2


def test_shapes_may_be_symbols() -> None:
    model = net()
    with torch.no_grad(), msitd.Client("r") as client:
        compiled = torch.compile(model, backend=fx.backend(client), dynamic=True)
        for rows in (2, 3, 5):
            batch = torch.randn(rows, 4)
            assert compiled(batch).equal(model(batch))
    shapes = [t.shape for t in tensors("r", ops="*relu*", io="output")]
    assert shapes == [(2, 4), (3, 4), (5, 4)]


SCRIPT = """
import torch
from torch import nn
model = torch.compile(nn.Linear(4, 4), backend="msitd", **{options})
for _ in range(2):
    model(torch.ones(2, 4))
"""


@pytest.mark.parametrize(
    "options, op",
    [
        ({}, "addmm-aten.addmm.default"),
        ({"options": {"inner": "eager", "ops": "*linear"}}, "linear"),
    ],
)
def test_the_name_of_the_backend_is_enough(
    options: dict[str, Any], op: str, daemon: Daemon
) -> None:
    subprocess.run(
        [sys.executable, "-c", SCRIPT.format(options=options)],
        check=True,
        timeout=120,
        env={**os.environ, "MSITD_RUN": "named"},
    )
    found = tensors("named", io="output")
    assert {t.token for t in found} == {0, 1}
    assert any(t.op.endswith(op) for t in found)


def test_an_option_that_is_none_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(options={"options": {"iner": 1}})],
        check=False,
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert "iner is no option of the backend msitd" in done.stderr


class Calls(nn.Module):
    """Takes a structure and a keyword argument, and returns a structure."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(
        self, x: torch.Tensor, pair: tuple[torch.Tensor, torch.Tensor], *, shift: Any
    ) -> dict[str, Any]:
        return {"y": self.fc(x) + pair[0] * pair[1] + shift, "x": (x,)}


def test_programs_of_export_are_recorded_node_by_node() -> None:
    torch.manual_seed(0)
    model = Calls()
    x, pair, shift = torch.randn(2, 4), (torch.randn(2, 4), torch.ones(2, 4)), 2.0
    program = torch.export.export(model, (x, pair), {"shift": torch.tensor(shift)})
    with msitd.Client("r") as client:
        recorded = fx.record_program(program, client)
        for _ in range(2):
            made = recorded(x, pair, shift=torch.tensor(shift))
    expected = model(x, pair, shift=torch.tensor(shift))
    assert made["y"].equal(expected["y"])
    assert made["x"][0] is x
    found = [(t.token, t.op) for t in tensors("r", io="output")]
    assert found == [
        (token, op)
        for token in range(2)
        for op in (
            "linear-aten.linear.default",
            "mul-aten.mul.Tensor",
            "add-aten.add.Tensor",
            "add_1-aten.add.Tensor",
        )
    ]
    assert np.array_equal(
        values("r", ops="add_1*", io="output", tokens=1), made["y"].detach().numpy()
    )
    # The program computes, checks and differentiates as before.
    made["y"].sum().backward()
    assert all(each.grad is not None for each in recorded.parameters())
    with pytest.raises((TypeError, ValueError), match="shift"):
        recorded(x, pair)
    with pytest.raises((AssertionError, RuntimeError, ValueError)):
        recorded(torch.ones(3, 4), pair, shift=torch.tensor(shift))


def test_a_program_may_be_loaded_and_decomposed(place: None) -> None:
    program = torch.export.export(net(), (torch.ones(2, 4),)).run_decompositions()
    torch.export.save(program, "net.pt2")
    with msitd.Client("r") as client:
        loaded = fx.record_program(torch.export.load("net.pt2"), client, ops="*relu*")
        assert loaded(torch.ones(2, 4)).equal(net()(torch.ones(2, 4)))
    assert {t.op for t in tensors("r")} == {"relu-aten.relu.default"}


def test_any_graph_of_fx_is_recorded() -> None:
    class Twice(nn.Module):
        def forward(self, x: torch.Tensor, times: int = 2) -> torch.Tensor:
            return torch.relu(x) * times

    with msitd.Client("r") as client:
        graph = fx.record_program(torch.fx.symbolic_trace(Twice()), client)
        assert graph(torch.ones(2)).tolist() == [2, 2]
        assert graph(torch.ones(2), times=3).tolist() == [3, 3]
        for bad in (lambda: graph(), lambda: graph(1, 2, 3), lambda: graph(1, x=2)):
            with pytest.raises(TypeError, match="argument"):
                bad()
    ops = [t.op for t in tensors("r", io="output", tokens=0)]
    assert ops == ["relu-torch.relu", "mul-operator.mul"]


def test_packages_of_aotinductor_are_refused_by_name() -> None:
    from torch._inductor.package.package import AOTICompiledModel

    package: Any = object.__new__(AOTICompiledModel)
    with msitd.Client("r") as client:
        with pytest.raises(TypeError, match="AOTInductor is machine code"):
            fx.record_program(package, client)
        with pytest.raises(TypeError, match="program is Net, and neither"):
            fx.record_program(net(), client)  # type: ignore[arg-type]


class Twice(nn.Module):
    """Calls a module twice, inside another module."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.GELU())] * 1)
        self.norm = nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(layer(x)) + x
        return self.norm(x)


def twice(error: float = 0.0) -> Twice:
    torch.manual_seed(0)
    model = Twice()
    with torch.no_grad():
        model.layers[0][0].bias += error  # type: ignore[index]
    return model


def record_as(kind: str, run: str, model: nn.Module) -> None:
    """Records a run of a model with hooks, as a program, or inside a backend."""
    batch = torch.linspace(-1, 1, 8).reshape(2, 4)
    torch._dynamo.reset()
    with msitd.Client(run) as client:
        if kind == "hooks":
            with msitd.register_hook(model, client), torch.no_grad():
                model(batch)
        elif kind == "export":
            fx.record_program(torch.export.export(model, (batch,)), client)(batch)
        else:
            inner = None if kind == "aten" else kind
            chosen = fx.backend(client, inner=inner)
            compiled = torch.compile(model, backend=chosen, fullgraph=True)
            # In a training, a graph also returns what its backward needs.
            compiled(batch).sum().backward()


@pytest.mark.parametrize(
    "golden, target, count",
    [
        # A Sequential returns the result of its last module, which is one node.
        ("hooks", "aten", 5),
        ("hooks", "inductor", 5),
        ("hooks", "export", 5),
        ("aten", "hooks", 7),
        ("inductor", "aten", 6),
        ("export", "inductor", 5),
        ("aten", "export", 5),
    ],
)
def test_runs_are_paired_by_where_nodes_come_from(
    golden: str, target: str, count: int
) -> None:
    connection = query.connect()
    record_as(golden, "golden", twice())
    record_as(target, "target", twice())
    matching = fx.pair_runs(connection, "golden", "target")
    report = connection.comparisons.run("golden", "target", matching=matching)
    assert (report.pass_count, report.fail_count) == (count, 0)
    assert report.unmatched_count == 0
    # A wrong module is named by the node that returns its result.
    record_as(target, "wrong", twice(error=0.5))
    matching = fx.pair_runs(connection, "golden", "wrong")
    report = connection.comparisons.run("golden", "wrong", matching=matching)
    assert report.first_divergence is not None
    assert (
        report.first_divergence.op
        == {
            "aten": "addmm-aten.addmm.default",
            "export": "linear-aten.linear.default",
            "hooks": "root.layers.0.0",
            "inductor": "input_1-torch._C._nn.linear",
        }[golden]
    )


def test_a_part_of_a_model_may_be_compiled() -> None:
    model = twice()
    batch = torch.ones(2, 4)
    with torch.no_grad():
        with msitd.Client("golden") as client, msitd.register_hook(model, client):
            model(batch)
        with msitd.Client("target") as client:
            part = torch.compile(model.layers[0], backend=fx.backend(client))
            part(batch)
    connection = query.connect()
    matching = fx.pair_runs(connection, "golden", "target", model="layers.0")
    report = connection.comparisons.run("golden", "target", matching=matching)
    assert (report.pass_count, report.unmatched_count) == (2, 0)


def test_what_does_not_belong_together_is_refused() -> None:
    with torch.no_grad():
        for run in ("a", "b"):
            with msitd.Client(run) as client:
                client.record(torch.ones(1), op="x")
        record("c", net(), torch.ones(2, 4))
    with pytest.raises(ValueError, match="neither a nor b has nodes"):
        fx.pair_runs(query.connect(), "a", "b")
    with pytest.raises(ValueError, match="nothing of a and c belongs together"):
        fx.pair_runs(query.connect(), "a", "c")


def test_the_page_shows_what_happens() -> None:
    failed, tried = doctest.testfile(
        str(ROOT / "docs/fx.md"), module_relative=False, optionflags=doctest.ELLIPSIS
    )
    assert tried > 3
    assert failed == 0
