"""Recurrent layers and cells: functions, and modules by their weights."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from msitd._core.module import module_tree
from msitd.verify import modules, replay, table
from msitd.verify.arguments import Arguments
from msitd.verify.scores import Checked
from msitd.verify.unchecked import Unchecked
from replaying import DTYPES, FLOATS, run, worse
from torch import nn

LAYERS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn_tanh": nn.RNN}


def call_of(
    name: str, dtype: torch.dtype, seed: int, layers: int, two_way: bool
) -> tuple[Any, ...]:
    torch.manual_seed(seed)
    layer = LAYERS[name](12, 16, layers, bidirectional=two_way).to(dtype)
    weights = tuple(each.detach() for each in layer.parameters())
    state = torch.randn(layers * (2 if two_way else 1), 3, 16).to(dtype)
    given = torch.randn(6, 3, 12).to(dtype)
    hx = (state, state) if name == "lstm" else state
    return (given, hx, weights, True, layers, 0.0, False, two_way, False)


@pytest.mark.parametrize("dtype", DTYPES, ids=FLOATS)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(("layers", "two_way"), [(1, False), (2, True)])
def test_layers(name: str, dtype: torch.dtype, layers: int, two_way: bool) -> None:
    for seed in range(1 if two_way else 2):
        args = call_of(name, dtype, seed, layers, two_way)
        spec, arguments, outputs = run(f"VF.{name}", args, {})
        checked = replay.check_call(spec, arguments, outputs)
        assert len(checked) == (3 if name == "lstm" else 2)
        for each in checked.values():
            assert isinstance(each, Checked)
            assert not each.score.is_wrong, each.score
        first = checked["0"]
        assert isinstance(first, Checked)
        wrong = {**outputs, "0": worse(outputs["0"], first)}
        found = replay.check_call(spec, arguments, wrong)["0"]
        assert isinstance(found, Checked)
        assert found.score.is_wrong


def test_packed_sequences() -> None:
    torch.manual_seed(0)
    given = [torch.randn(n, 12) for n in (5, 3, 2)]
    packed = nn.utils.rnn.pack_sequence(given)
    args = call_of("gru", torch.float32, 0, 1, False)
    packed_args = (packed.data, packed.batch_sizes, *args[1:-1])
    spec, arguments, outputs = run("VF.gru", packed_args, {})
    for factor, wrong in ((1.0, False), (1.001, True)):
        results = {"0": outputs["0"] * factor}
        found = replay.check_call(spec, arguments, results)["0"]
        assert isinstance(found, Checked)
        assert found.score.is_wrong == wrong


def test_layers_with_dropout_are_random() -> None:
    args = call_of("lstm", torch.float32, 0, 2, False)
    spec, arguments, outputs = run("VF.lstm", args, {})
    random = arguments._replace(args=(*args[:5], 0.5, True, *args[7:]))
    with pytest.raises(Unchecked, match="random"):
        replay.check_call(spec, random, outputs)


def test_layers_without_a_stable_state_are_not_checked() -> None:
    args = call_of("rnn_tanh", torch.float32, 0, 1, False)
    weights = tuple(8 * each for each in args[2])
    given = 0.1 * torch.randn(200, 3, 12)
    spec, arguments, outputs = run(
        "VF.rnn_tanh", (given, args[1], weights, *args[3:]), {}
    )
    with pytest.raises(Unchecked, match="ill-conditioned"):
        replay.check_call(spec, arguments, outputs)


def test_other_functions_of_the_place_are_refused() -> None:
    assert isinstance(table.find("VF.relu"), table.Refusal)


def known(module: nn.Module) -> modules.Modules:
    """Returns a module as a run describes it."""
    names: Any = SimpleNamespace(named_modules=lambda model: model.named_modules())
    tree = module_tree.module_tree(module, lambda name: name or "root", names)
    weights = {name: each.detach() for name, each in module.named_parameters()}
    return modules.Modules(
        modules.parse_tree(json.dumps({"version": 1, "modules": tree})),
        lambda _, name: weights.get(name),
    )


MODULES: list[tuple[nn.Module, int]] = [
    (nn.LSTM(6, 8, 2, bidirectional=True), 3),
    (nn.LSTM(6, 8, proj_size=4, bias=False, batch_first=True), 3),
    (nn.GRU(6, 8), 3),
    (nn.RNN(6, 8, nonlinearity="relu", batch_first=True), 3),
    (nn.LSTMCell(6, 8), 2),
    (nn.GRUCell(6, 8, bias=False), 2),
    (nn.RNNCell(6, 8), 2),
]


@pytest.mark.parametrize(
    ("module", "dims"), MODULES, ids=[str(each) for each, _ in MODULES]
)
def test_modules(module: nn.Module, dims: int) -> None:
    torch.manual_seed(0)
    given = torch.randn((5, 4, 6)[-dims:])
    by_class = known(module)
    assert by_class.can_check("root")
    result = module(given)
    # The same call, with the state that the module has without one.
    state = result[1] if isinstance(result, tuple) and dims == 3 else result
    state = (
        torch.zeros_like(state)
        if isinstance(state, torch.Tensor)
        else tuple(torch.zeros_like(each) for each in state)
    )
    for args in ((given,), (given, state)):
        spec, arguments = by_class.call_of("root", 0, Arguments(args, {}))
        outputs: dict[str, torch.Tensor] = {}
        replay.references._collect(module(*args), "", 0, outputs)
        outputs = {index: each.detach() for index, each in outputs.items()}
        for factor, wrong in ((1.0, False), (1.001, True)):
            moved = {index: each * factor for index, each in outputs.items()}
            for each in replay.check_call(spec, arguments, moved).values():
                assert isinstance(each, Checked)
                assert each.score.is_wrong == wrong, each.score


@pytest.mark.parametrize("module", [nn.LSTM(6, 8), nn.GRUCell(6, 8)])
def test_gradients_of_weights(module: nn.Module) -> None:
    torch.manual_seed(0)
    is_layer = isinstance(module, nn.LSTM)
    args = (
        (torch.randn(5, 4, 6),) if is_layer else (torch.randn(4, 6), torch.randn(4, 8))
    )
    result = module(*args)
    result = result[0] if is_layer else result
    grad = torch.randn_like(result)
    names = [name for name, _ in module.named_parameters()]
    found = torch.autograd.grad(result, list(module.parameters()), grad)
    by_class = known(module)
    spec, arguments = by_class.call_of("root", 0, Arguments(args, {}))
    call: Any = SimpleNamespace(key=SimpleNamespace(op="root"))
    for factor, wrong in ((1.0, False), (1.001, True)):
        wanted = {n: g * factor for n, g in zip(names, found, strict=True)}
        outcomes = by_class.check_weights(
            spec, arguments, {"0": result.detach()}, {"0": grad}, wanted, call, 0
        )
        assert set(outcomes) == set(names)
        for each in outcomes.values():
            assert isinstance(each, Checked)
            assert each.score.is_wrong == wrong, each.score


def test_calls_that_are_not_known_are_refused() -> None:
    by_class = known(nn.LSTM(6, 8))
    for args in ((torch.randn(5, 6),), (torch.randn(5, 4, 6),) * 3, ()):
        with pytest.raises(Unchecked):
            by_class.call_of("root", 0, Arguments(args, {}))
