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
    """A daemon where a user has it, and no graph of another test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Net(nn.Module):
    """Gives two parts of a product."""

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
    """Returns the results of a compiled model, whose nodes are in a run."""
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


def test_the_page_shows_what_happens() -> None:
    failed, tried = doctest.testfile(
        str(ROOT / "docs/fx.md"), module_relative=False, optionflags=doctest.ELLIPSIS
    )
    assert tried > 3
    assert failed == 0
