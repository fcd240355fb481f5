"""Other records of hooks than tensors, from the model to the queries."""

import json

import msitd
import numpy as np
import pytest
import torch
from msitd import query

from daemon import Daemon


class Scaled(torch.nn.Module):
    """Has an argument of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(
        self,
        x: torch.Tensor,
        scale: float,
        mask: torch.Tensor | None = None,
        **options: object,
    ) -> torch.Tensor:
        return self.linear(x) * scale


class Model(torch.nn.Module):
    """Passes its input tensor to two modules."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Scaled()
        self.relu = torch.nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given = self.first(x, 0.5, name="läuft", dtype=torch.float16, rows=slice(2))
        return self.relu(given)


def record(
    daemon: Daemon, run: str, endpoint: str, **options: object
) -> msitd.Counters:
    """Records two tokens of the model, and returns the client's counters."""
    torch.manual_seed(0)
    model = Model()
    with (
        msitd.Client(run, endpoint=endpoint) as client,
        msitd.register_hook(model, client, **options),
    ):
        for batch in torch.randn(2, 3, 4):
            model(batch)
    return client.counters()


@pytest.mark.parametrize("way", ["shm", "grpc"])
def test_values_and_facts_reach_the_queries(daemon: Daemon, way: str) -> None:
    endpoint = f"unix:{daemon.socket_dir}" if way == "shm" else daemon.endpoint
    counters = record(daemon, "r", endpoint, stack="caller")
    with query.connect(daemon.endpoint) as connection:
        tensors = connection.tensors
        values = {
            (t.token, t.op, t.io, t.index): (t.kind, t.value)
            for t in tensors.list("r", query.select(kinds=query_kinds()))
        }
        assert values == {
            (token, "root.first", "input", index): value
            for token in (0, 1)
            for index, value in {
                "1": ("number", "0.5"),
                "name": ("text", "läuft"),
                "dtype": ("dtype", "torch.float16"),
                "rows": ("other", "slice(None, 2, None)"),
            }.items()
        }
        number = query.select(kinds="number", tokens=0)
        [scale] = tensors.list("r", number)
        assert tensors.read(scale) == np.float64(0.5)
        [tree] = tensors.list("r", query.select(kinds="document"))
        modules = json.loads(bytes(tensors.read(tree)))["modules"]
        assert [(m["op"], m["parent"]) for m in modules] == [
            ("root", None),
            ("root.first", "root"),
            ("root.first.linear", "root.first"),
            ("root.relu", "root"),
        ]
        taken = list(tensors.list("r"))
        assert {t.kind for t in taken} == {"tensor"}
        facts = {(t.op, t.io): t for t in taken if t.token == 0}
        assert facts["root", "input"].requires_grad is False
        assert facts["root.relu", "output"].requires_grad is True
        stack = facts["root.first.linear", "input"].stack
        assert stack.startswith(f"{__file__}:")
        assert stack.endswith(" Scaled.forward")
        run = connection.runs.get("r")
    assert run.counters.tensor_count == len(taken) == 2 * 8
    assert run.counters.value_count == 2 * 4 + 1
    assert run.counters.conflict_count == 0
    assert counters.acknowledged_count == 2 * 8 + 2 * 4 + 1
    [coverage] = daemon.ctl_json("capture", "coverage", "r")["ranks"]
    assert int(coverage.get("seen_count", 0)) == counters.acknowledged_count
    assert int(coverage.get("lost_count", 0)) == 0


def query_kinds() -> tuple[str, ...]:
    return ("number", "text", "none", "dtype", "other")


def test_aliases_read_as_what_they_stand_for(daemon: Daemon) -> None:
    copied = record(daemon, "copied", daemon.endpoint)
    aliased = record(daemon, "aliased", daemon.endpoint, aliases=True)
    # The input of the model and of two modules is the same tensor; the output
    # of one module is the input of the next, and the last output is that of the
    # model.
    assert aliased.aliased_count == 2 * 4
    assert aliased.acknowledged_count == copied.acknowledged_count
    assert aliased.acknowledged_bytes + aliased.aliased_bytes == (
        copied.acknowledged_bytes
    )
    with query.connect(daemon.endpoint) as connection:
        tensors = connection.tensors
        alias_count = 0
        for golden, target in zip(
            tensors.list("copied"), tensors.list("aliased"), strict=True
        ):
            assert (golden.op, golden.io, golden.hash) == (
                target.op,
                target.io,
                target.hash,
            )
            assert golden.summary == target.summary
            assert np.array_equal(tensors.read(golden), tensors.read(target))
            alias_count += 1 if target.alias_of else 0
        assert alias_count == aliased.aliased_count
        assert connection.runs.get("aliased").counters.dangling_count == 0
    daemon.ctl("compare", "run", "copied", "aliased", "--kind", "all")
