"""Simple mistakes that explain a cause, as users see them."""

from collections.abc import Callable, Iterator
from typing import Any

import msitd
import msitd.query
import pytest
import torch
from torch import Tensor, nn

from daemon import Daemon

FAILED = 1


class Block(nn.Module):
    """A norm, a layer, and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.layer = nn.Linear(32, 32)
        self.act = nn.GELU()
        self.has_residual = True

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.layer(self.norm(x)))
        return x + y if self.has_residual else y


class Model(nn.Module):
    """Two blocks and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("daemon"))
    daemon.start()
    record(daemon, "golden", lambda model: None)
    yield daemon
    daemon.clean()


def record(daemon: Daemon, run: str, change: Callable[[Model], object]) -> None:
    torch.manual_seed(0)
    model = Model().eval()
    inputs = torch.randn(4, 12, 32)
    change(model)
    with (
        torch.no_grad(),
        msitd.Client(run, endpoint=daemon.endpoint) as client,
        msitd.register_hook(model, client),
    ):
        model(inputs)


def scaled(module: nn.Module, factor: float) -> None:
    module.register_forward_hook(lambda _module, _args, output: output * factor)


def compared(daemon: Daemon, target: str) -> tuple[str, list[dict[str, Any]]]:
    """Returns the header of a comparison, and the explanations of its first cause."""
    args = ("compare", "run", "golden", target, "--rows", "none")
    header = daemon.ctl(*args, expect=FAILED).stdout
    comparison = daemon.ctl_json(*args, expect=FAILED)["comparison"]
    return header, comparison["makers"][0].get("explanations", [])


def test_factor_of_a_layer(daemon: Daemon) -> None:
    record(daemon, "scaled", lambda model: scaled(model.blocks[1].layer, 0.125))
    header, explanations = compared(daemon, "scaled")
    assert "cause             root.blocks.1.layer output/0" in header
    assert "explanation       golden * 0.125 (residual " in header
    assert explanations[0]["kind"] == "FACTOR"
    assert explanations[0]["residual"] < 1e-6 < explanations[0]["residual_without"]


def test_bias_that_was_left_out(daemon: Daemon) -> None:
    def change(model: Model) -> None:
        model.blocks[0].layer.bias.data.zero_()

    record(daemon, "unbiased", change)
    header, explanations = compared(daemon, "unbiased")
    assert explanations[0]["kind"] in ("OFFSET", "TERM"), header


def test_residual_that_was_left_out(daemon: Daemon) -> None:
    def change(model: Model) -> None:
        model.blocks[0].has_residual = False

    record(daemon, "unresidual", change)
    header, explanations = compared(daemon, "unresidual")
    assert explanations[0]["kind"] == "SAME_AS_INPUT", header
    assert "root.blocks.0.act output/0 unchanged" in explanations[0]["text"]


def test_call_of_a_function_in_place_of_another(daemon: Daemon) -> None:
    class Halves(nn.Module):
        def __init__(self, is_wrong: bool) -> None:
            super().__init__()
            self.layer = nn.Linear(32, 32)
            self.is_wrong = is_wrong

        def forward(self, x: Tensor) -> Tensor:
            first, last = x.chunk(2, -1)
            keys = torch.cat([first, last.neg()], -1)
            values = torch.cat([last, first.neg()], -1)
            return self.layer(keys if self.is_wrong else values)

    for run in ("values", "keys"):
        torch.manual_seed(0)
        model = Halves(run == "keys").eval()
        with (
            torch.no_grad(),
            msitd.Client(run, endpoint=daemon.endpoint) as client,
            msitd.register_hook(model, client),
            msitd.register_api(client),
        ):
            model(torch.randn(4, 12, 32))
    header = daemon.ctl("compare", "run", "values", "keys", "--rows", "none", expect=1)
    assert (
        "explanation       Torch.cat output/0 of call 0 in place of "
        "Torch.cat output/0 of call 1 "
    ) in header.stdout


def test_variant_of_an_activation(daemon: Daemon) -> None:
    def change(model: Model) -> None:
        model.blocks[1].act.approximate = "tanh"

    record(daemon, "tanh", change)
    header, explanations = compared(daemon, "tanh")
    assert "explanation       tanh gelu in place of gelu" in header
    assert explanations[0]["kind"] == "ACTIVATION"


def test_order_of_heads(daemon: Daemon) -> None:
    def swap(_module: nn.Module, _args: object, output: Tensor) -> Tensor:
        first, second, *others = output.split(8, -1)
        return torch.cat([second, first, *others], -1)

    record(
        daemon,
        "swapped",
        lambda model: model.blocks[0].layer.register_forward_hook(swap),
    )
    header, explanations = compared(daemon, "swapped")
    assert explanations[0]["kind"] == "ORDER", header
    assert "0 and 1 changed places" in explanations[0]["text"]


def test_other_weights_have_no_explanation(daemon: Daemon) -> None:
    record(
        daemon,
        "other",
        lambda model: nn.init.normal_(model.blocks[1].layer.weight, std=0.2),
    )
    header, explanations = compared(daemon, "other")
    assert "cause             root.blocks.1.layer" in header
    assert "explanation" not in header
    assert explanations == []


def test_python_has_explanations(daemon: Daemon) -> None:
    record(daemon, "negated", lambda model: scaled(model.head, -1.0))
    compared(daemon, "negated")
    with msitd.query.connect(daemon.endpoint) as connection:
        found = [
            comparison
            for comparison in connection.comparisons.list()
            if comparison.target_run == "negated"
        ]
    explanation = found[0].makers[0].explanations[0]
    assert explanation.kind == "sign"
    assert explanation.text == "golden with the opposite sign"
    assert explanation.residual == 0


class Doubtful(nn.Module):
    """Adds a constant in a function that has it as an argument."""

    eps = 1e-6

    def forward(self, x: Tensor) -> Tensor:
        return torch.add(x * 2, self.eps)


def test_argument_is_not_explained_again(daemon: Daemon) -> None:
    for run, eps in (("small", 1e-6), ("large", 0.25)):
        model = Doubtful()
        model.eps = eps
        with (
            torch.no_grad(),
            msitd.Client(run, endpoint=daemon.endpoint) as client,
            msitd.register_hook(model, client),
            msitd.register_api(client),
        ):
            torch.manual_seed(0)
            model(torch.randn(4, 32))
    args = ("compare", "run", "small", "large", "--rows", "none")
    maker = daemon.ctl_json(*args, expect=FAILED)["comparison"]["makers"][0]
    assert "1: target 0.25, golden 1e-06" in maker["note"]
    assert not maker["explanations"]
