"""Tokens of a generation, and batches of requests."""

from collections.abc import Callable, Iterable, Mapping

import msitd
import torch
from case import NONE, NOT_KNOWN, Fn, Origin, Recording, case, linear, noise
from torch import nn


class Attention(nn.Module):
    """Attention with a cache in the module."""

    def __init__(self, bad_token: int) -> None:
        super().__init__()
        self.key, self.value = linear(), linear()
        self.bad_token = bad_token
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.keys.append(self.key(x))
        self.values.append(self.value(x))
        scores = x @ torch.cat(self.keys).T
        if len(self.keys) == self.bad_token + 1:
            scores = scores * 1e30 * 1e30
            scores = scores - scores
        return torch.softmax(scores, -1) @ torch.cat(self.values)


def generate(recording: Recording, model: nn.Module, tokens: int = 4) -> None:
    with (
        recording.client() as client,
        torch.no_grad(),
        msitd.register_hook(model, client),
    ):
        x = noise(1, 8)
        for _ in range(tokens):
            x = torch.tanh(model(x))


@case(Origin("root.1", "", token=2))
def attention_at_the_third_token(recording: Recording) -> None:
    generate(recording, nn.Sequential(nn.Tanh(), Attention(2), linear()))


@case(Origin("root.1.value", token=1))
def projection_into_the_cache(recording: Recording) -> None:
    attention = Attention(-5)
    count = iter(range(4))
    attention.value = Fn(lambda x: x / 0 - x / 0 if next(count) == 1 else x + 0)
    generate(recording, nn.Sequential(nn.Tanh(), attention, linear()))


def serve(
    recording: Recording,
    model: nn.Module,
    batches: Iterable[torch.Tensor],
    requests: Callable[[], Mapping[str, tuple[int, int]]],
) -> None:
    with (
        recording.client() as client,
        torch.no_grad(),
        msitd.register_hook(model, client, requests=requests),
    ):
        for batch in batches:
            model(batch)


def _padded() -> torch.Tensor:
    x = noise()
    x[2:] = torch.nan
    return x


@case(NONE)
def padding_rows_of_a_batch(recording: Recording) -> None:
    model = nn.Sequential(linear(), nn.Tanh(), linear())
    requests = {"a": (0, 1), "b": (1, 2)}
    serve(recording, model, [_padded(), _padded()], lambda: requests)


@case(Origin("root.1"), NOT_KNOWN)
def request_beside_padding_rows(recording: Recording) -> None:
    def spoil(x: torch.Tensor) -> torch.Tensor:
        x = x * 1
        x[1] = torch.log(-x[1].abs())
        return x

    model = nn.Sequential(linear(), Fn(spoil), linear())
    requests = {"a": (0, 1), "b": (1, 2)}
    serve(recording, model, [_padded()], lambda: requests)
