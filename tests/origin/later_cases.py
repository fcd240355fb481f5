"""Cases that were written after the search, and that it was not tuned for."""

from collections.abc import Callable

import msitd
import torch
import torch.distributed as dist
import torch.nn.functional as F
from case import INF, NONE, NOT_KNOWN, Fn, Origin, Recording, case, linear, noise
from msitd import query
from torch import nn
from training_cases import mean_square, sgd, train


@case(Origin("root.1", "weight"))
def weight_of_a_module_with_functions(recording: Recording) -> None:
    model = nn.Sequential(nn.Tanh(), linear(8, 6), nn.Tanh())
    with torch.no_grad():
        model[1].weight[0, 0] = torch.nan
    recording.both(model, noise())


class StaticCache(nn.Module):
    """Attention to the first slots of a cache that is an argument."""

    def __init__(self, slot_count: int) -> None:
        super().__init__()
        self.key = linear()
        self.slot_count = slot_count

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        return self.key(x) @ cache[: self.slot_count].T


def _cache() -> torch.Tensor:
    cache = noise(6, 8)
    cache[4:] = torch.nan
    return cache


@case(NONE)
def unused_slots_of_a_static_cache(recording: Recording) -> None:
    recording.modules(StaticCache(4), noise(), _cache())


@case(Origin("root", "input"))
def unused_slots_that_are_read(recording: Recording) -> None:
    recording.modules(StaticCache(5), noise(), _cache())


@case(Origin("root.0"), NOT_KNOWN)
def overflow_to_minus_infinity(recording: Recording) -> None:
    overflow = Fn(lambda x: -x.abs() * 60000 * 60000)
    model = nn.Sequential(overflow, Fn(lambda x: x - x), nn.Tanh())
    recording.modules(model, noise().half() + 3)


@case(Origin("root", "code"))
def backward_of_code_between_modules(recording: Recording) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = linear(), linear()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(torch.sqrt(self.first(x) * 0))

    model = Model()
    train(recording, model, sgd(model), mean_square, gradients=True)


@case(Origin("root.1", rank=1), ranks=2)
def gradients_that_ranks_average(recording: Recording) -> None:
    bad = Fn(lambda x: torch.sqrt(x * 0) if dist.get_rank() == 1 else x * 1)
    model = nn.Sequential(linear(), bad, linear())

    def average() -> None:
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)

    train(recording, model, sgd(model), mean_square, average, gradients=True)


@case(Origin("root.1", rank=0), ranks=2)
def stages_of_a_pipeline(recording: Recording) -> None:
    model = nn.Sequential(linear(), Fn(torch.log), nn.Tanh())
    if dist.get_rank() == 1:
        model = nn.Sequential(nn.Tanh(), linear())
    with (
        recording.client() as client,
        torch.no_grad(),
        msitd.register_hook(model, client),
    ):
        if dist.get_rank() == 0:
            dist.send(model(noise()), 1)
        else:
            received = torch.empty(4, 8)
            dist.recv(received, 0)
            model(received)


@case(Origin("Torch.log"), Origin("Torch.log", rank=1), ranks=2)
def the_same_function_on_all_ranks(recording: Recording) -> None:
    recording.functions(lambda: torch.tanh(torch.log(noise())))


@case(Origin("Torch.log"), ranks=2, recorded=1)
def function_while_a_rank_is_missing(recording: Recording) -> None:
    def program() -> None:
        torch.tanh(torch.log(noise()))

    if recording.run:
        recording.functions(program)


@case(NOT_KNOWN)
def op_that_the_policy_excludes(recording: Recording) -> None:
    with query.connect(recording.endpoint) as daemon:
        rules = [
            query.CaptureRule(query.select(ops=["root.1"]), "off"),
            query.CaptureRule(),
        ]
        daemon.captures.set(recording.run, rules=rules)
    model = nn.Sequential(linear(), Fn(torch.log), nn.Tanh())
    with (
        recording.client(if_exists="append") as client,
        torch.no_grad(),
        msitd.register_hook(model, client),
    ):
        model(noise())


@case(Origin("root.1"))
def summaries_only(recording: Recording) -> None:
    with query.connect(recording.endpoint) as daemon:
        daemon.captures.set(recording.run, level="summary")
    model = nn.Sequential(linear(), Fn(torch.log), nn.Tanh())
    with (
        recording.client(if_exists="append") as client,
        torch.no_grad(),
        msitd.register_hook(model, client),
    ):
        model(noise(64, 8))


@case(Origin("root.1"))
def aliases(recording: Recording) -> None:
    model = nn.Sequential(linear(), Fn(torch.log), nn.Tanh(), linear())
    recording.modules(model, noise(), aliases=True)


class Block(nn.Module):
    def __init__(self, act: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.mlp = nn.Sequential(linear(), Fn(act), linear())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mlp(self.norm(x))


@case(Origin("root.7.mlp.1"))
def activation_in_a_deep_model(recording: Recording) -> None:
    blocks = [Block(torch.log if i == 7 else torch.tanh) for i in range(12)]
    recording.modules(nn.Sequential(*blocks), noise())


@case(NONE)
def pooling_with_padding(recording: Recording) -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1),
        nn.BatchNorm2d(2),
        nn.MaxPool2d(3, padding=1),
    ).eval()
    recording.modules(model, noise(1, 1, 8, 8))


@case(Origin("Functional.cross_entropy"))
def loss_without_a_target(recording: Recording) -> None:
    targets = torch.full((4,), -100)
    recording.functions(lambda: F.cross_entropy(torch.tanh(noise()), targets))


@case(Origin("root.attention"))
def attention_of_torch_with_a_masked_row(recording: Recording) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.last = linear()

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            out, _ = self.attention(x, x, x, attn_mask=mask)
            return self.last(out)

    mask = torch.zeros(4, 4)
    mask[1] = -INF
    recording.modules(Model(), noise(1, 4, 8), mask)


@case(Origin("Tensor.std"))
def deviation_of_one_element(recording: Recording) -> None:
    recording.functions(lambda: torch.tanh(noise()[0, :1].std()))


@case(Origin("Tensor.mean"))
def mean_of_nothing(recording: Recording) -> None:
    recording.functions(lambda: torch.tanh(noise()[:0].mean()))


@case(Origin("root.bad.mlp.1"))
def module_whose_forward_is_called_directly(recording: Recording) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = linear()
            self.bad = Block(torch.log)
            self.last = linear()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.bad.forward(self.first(x))
            return self.last(hidden)

    recording.modules(Model(), noise())


@case(NONE)
def mask_with_the_least_number(recording: Recording) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        mask = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
        scores = torch.matmul(x, x.T)
        scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
        return torch.softmax(scores, -1)

    recording.functions(program, noise().half())


@case(NONE)
def mask_as_an_argument(recording: Recording) -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query = linear()

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return torch.softmax(self.query(x) @ x.T + mask, -1) @ x

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(3))

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x, mask)
            return x

    recording.modules(Model(), noise(), torch.full((4, 4), -INF).triu(1))


@case(Origin("root.0", "code", token=3))
def code_at_a_later_token(recording: Recording) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last, self.count = linear(), linear(), 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            hidden = self.first(x)
            return self.last(hidden / 0 if self.count == 4 else hidden)

    model = nn.Sequential(Model(), nn.Tanh())
    with (
        recording.client() as client,
        torch.no_grad(),
        msitd.register_hook(model, client),
    ):
        for _ in range(5):
            model(noise())
