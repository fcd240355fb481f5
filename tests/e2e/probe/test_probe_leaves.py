"""msitd.probe: the leaves of results, arguments and gradients, as msprobe has them."""

import dataclasses
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from probe_dumps import debugger_of, load, probe_place, records  # noqa: F401
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

DATA = Path("dump/step0/rank/dump_tensor_data")


@dataclasses.dataclass
class Output(OrderedDict[str, Any]):
    """Has fields and keys, as the results of transformers."""

    loss: Any = None
    logits: Any = None
    cache: Any = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)


Named = namedtuple("Named", ["value", "weight"])


class Cache:
    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


class Inner(nn.Module):
    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.make = make

    def forward(self, x: Any, *more: Any, **others: Any) -> Any:
        return self.make(self.fc(x))


class Outer(nn.Module):
    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self.inner = Inner(make)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner(*args, **kwargs)


def dump_of(
    model: nn.Module, work: Callable[[], Any], level: str = "L0"
) -> dict[str, Any]:
    debugger = debugger_of(level)
    debugger.start(model)
    work()
    debugger.stop()
    debugger.step()
    return records(Path("dump/step0"))


def shape(leaf: Any) -> Any:
    return leaf["shape"] if isinstance(leaf, dict) and "shape" in leaf else leaf


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda y: Output(logits=y), [{"loss": None, "logits": [2, 3], "cache": None}]),
        (lambda y: {"a": y, "b": [y, None]}, [{"a": [2, 3], "b": [[2, 3], None]}]),
        (lambda y: Named(y, None), {"value": [2, 3], "weight": None}),
        (lambda y: [y, 2], [[[2, 3], {"type": "int", "value": 2}]]),
        (lambda y: (y, {}, []), [[2, 3], {}, []]),
        (lambda y: (Cache(y), {1}, b"raw", 1j), [None, None, None, None]),
        (lambda _: None, [None]),
    ],
)
def test_results_have_the_names_of_msprobe(
    make: Callable[[Any], Any], expected: Any
) -> None:
    model = Outer(make)

    def shapes(value: Any) -> Any:
        if isinstance(value, list):
            return [shapes(each) for each in value]
        if isinstance(value, dict) and "type" not in value:
            return {key: shapes(each) for key, each in value.items()}
        return shape(value)

    data = dump_of(model, lambda: model(torch.ones(2, 3)))
    output = data["Module.inner.Inner.forward.0"]["output"]
    assert shapes(output) == expected


def test_arguments_have_the_names_of_msprobe() -> None:
    model = Outer(lambda y: y)
    x = torch.ones(2, 3)
    data = dump_of(
        model,
        lambda: model(x, Named(1, x), Output(logits=x), torch.float16, key=object()),
    )
    entry = data["Module.inner.Inner.forward.0"]
    named, output, dtype = entry["input_args"][1:]
    assert (named["value"]["value"], shape(named["weight"])) == (1, [2, 3])
    assert list(output) == ["loss", "logits", "cache"]
    assert dtype == {}
    assert entry["input_kwargs"] == {"key": None}
    assert (DATA / "Module.inner.Inner.forward.0.input.2.logits.pt").exists()


def test_each_result_has_its_own_gradient() -> None:
    # The second result is computed from the first, which nothing uses.
    model = Outer(lambda y: Output(logits=y, loss=y.sum()))
    x = torch.ones(2, 3)
    data = dump_of(model, lambda: model(x).loss.backward())
    gradients = data["Module.inner.Inner.backward.0"]["input"]
    assert [shape(each) for each in gradients] == [[], None]


class Twice(nn.Module):
    def forward(self, a: Any, b: Any, c: Any) -> Any:
        return a * b.exp() + c


class Repeats(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.twice = Twice()

    def forward(self, x: Any) -> Any:
        y = self.fc(x)
        return self.twice(y, y, torch.ones(3))


def test_an_argument_that_is_given_twice_has_two_gradients() -> None:
    model = Repeats()
    x = torch.ones(2, 3)
    with torch.no_grad():
        y = model.fc(x)
    data = dump_of(model, lambda: model(x).sum().backward())
    assert len(data["Module.twice.Twice.backward.0"]["output"]) == 2
    first, second = (
        load(DATA / f"Module.twice.Twice.backward.0.output.{i}.pt") for i in (0, 1)
    )
    assert torch.allclose(first, y.exp())
    assert torch.allclose(second, y * y.exp())
    whole = load(DATA / "Module.fc.Linear.backward.0.input.0.pt")
    assert whole.equal(first + second)


def test_a_checkpoint_repeats_arguments_that_are_given_twice() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.attn = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x: Any) -> Any:
            y = self.fc(x)
            return checkpoint(self.attn, y, y, y, use_reentrant=False)[0]

    model = Net()
    x = torch.ones(1, 3, 4)
    plain = model(x).sum()
    plain.backward()
    expected = model.fc.weight.grad.clone()
    model.zero_grad()
    debugger = debugger_of("mix")
    debugger.start(model)
    loss = model(x).sum()
    # The backward follows the end of the recording.
    debugger.stop()
    loss.backward()
    debugger.step()
    assert torch.allclose(model.fc.weight.grad, expected, atol=1e-6)


def test_gradients_of_parameters_add_up() -> None:
    model = Repeats()
    x = torch.ones(2, 3)

    def work() -> None:
        for _ in range(2):
            model(x).sum().backward()

    data = dump_of(model, work)
    name = "Module.fc.Linear.parameters_grad"
    assert {f"{name}.0", f"{name}.1"} <= data.keys()
    once, both = (load(DATA / f"{name}.{i}.weight.pt") for i in (0, 1))
    assert both.equal(model.fc.weight.grad)
    assert once.equal(both / 2)


def test_backward_has_the_gradients_of_the_last_node() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    weight = torch.ones(4, 3, requires_grad=True)
    bias = torch.ones(4, requires_grad=True)

    def work() -> None:
        functional.linear(x, weight, bias).sum().backward()
        torch.where(x > 0, x, 2.0).sum().backward()
        functional.dropout(x, p=0.0).sum().backward()

    data = dump_of(nn.Identity(), work, "L1")
    output = data["Functional.linear.0.backward"]["output"]
    assert [shape(each) for each in output] == [[4], [2, 3], [3, 4]]
    output = data["Torch.where.0.backward"]["output"]
    assert [shape(each) for each in output] == [[2, 3], None]
    assert "Functional.dropout.0.backward" not in data


def test_calls_that_a_checkpoint_repeats_have_numbers() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return checkpoint(self.b, self.a(x), use_reentrant=True)

    model = Net()
    data = dump_of(model, lambda: model(torch.ones(2, 3)).sum().backward(), "mix")
    calls = [entry for entry in data if entry.startswith("Module.b.Linear.forward")]
    assert calls == ["Module.b.Linear.forward.0", "Module.b.Linear.forward.1"]
    assert "Module.b.Linear.backward.1" in data
    assert "Functional.linear.2.backward" in data


class Frozen(dict[str, Any]):
    def __setitem__(self, key: str, value: Any) -> None:
        raise TypeError("this dict cannot be changed")


def test_results_that_cannot_be_changed_stay() -> None:
    model = Outer(lambda y: Frozen(a=y, b=y.exp()))
    data = dump_of(model, lambda: model(torch.ones(2, 3))["b"].sum().backward())
    output = data["Module.inner.Inner.forward.0"]["output"]
    assert [shape(each) for each in output[0].values()] == [[2, 3], [2, 3]]
    assert model.inner.fc.weight.grad is not None
