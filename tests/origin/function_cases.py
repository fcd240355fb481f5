"""Programs whose torch functions are recorded."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from case import INF, NONE, Origin, Recording, case, linear, noise, ones
from torch import nn


@case(Origin("Torch.log"))
def logarithm(recording: Recording) -> None:
    recording.functions(lambda x: torch.log(F.relu(x) - 1).sum(), noise())


@case(Origin("Torch.log"))
def function_in_a_module(recording: Recording) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = linear(), linear()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(torch.log(self.first(x)))

    recording.both(Model(), noise())


@case(Origin("Tensor.__mul__"))
def zero_times_infinity(recording: Recording) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(4, 4).triu(1) * -INF
        return torch.softmax(x @ x.T + mask, -1)

    recording.functions(program, noise())


@case(NONE)
def masked_attention_that_is_healthy(recording: Recording) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        mask = torch.full((4, 4), -INF).triu(1)
        scores = torch.matmul(x, x.T) + mask
        return torch.matmul(torch.softmax(scores, -1), x)

    recording.functions(program, noise())


def _masked_row(x: torch.Tensor) -> torch.Tensor:
    mask = torch.zeros(4, 4, dtype=torch.bool)
    mask[1] = True
    scores = torch.matmul(x, x.T).masked_fill(mask, -INF)
    return torch.matmul(torch.softmax(scores, -1), x)


@case(Origin("Torch.softmax"))
def attention_with_a_row_that_is_masked(recording: Recording) -> None:
    recording.functions(_masked_row, noise())


@case(Origin("Torch.softmax"))
def attention_with_a_row_that_is_masked_without_numbers(recording: Recording) -> None:
    recording.functions(_masked_row, noise(), values=False)


def _attention(fill: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> nn.Module:
    """Returns attention that `fill` masks, with a row that is fully masked."""

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = linear(), linear()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            mask = torch.ones(4, 4, dtype=torch.bool).triu(1)
            mask[2] = True
            scores = fill(torch.matmul(x, x.T), mask)
            return self.last(torch.matmul(torch.softmax(scores, -1), x))

    return Attention()


def _where_full(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.where(mask, torch.full((4, 4), -INF), scores)


def _added(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return scores + torch.zeros(4, 4).masked_fill(mask, -INF)


def _assigned(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    scores[mask] = -INF
    return scores


@case(Origin("Torch.softmax"))
def row_that_where_masks(recording: Recording) -> None:
    recording.both(_attention(_where_full), noise())


@case(Origin("Torch.softmax"))
def row_that_where_masks_without_numbers(recording: Recording) -> None:
    recording.both(_attention(_where_full), noise(), values=False)


@case(Origin("Torch.softmax"))
def row_that_an_added_mask_masks(recording: Recording) -> None:
    recording.both(_attention(_added), noise())


@case(Origin("Torch.softmax"))
def row_that_an_assignment_masks(recording: Recording) -> None:
    recording.both(_attention(_assigned), noise())


@case(Origin("Tensor.__mul__"))
def product_with_an_infinite_number(recording: Recording) -> None:
    recording.both(_attention(lambda scores, mask: scores + mask * -INF), noise())


@case(Origin("Tensor.log_"))
def function_in_place(recording: Recording) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(x)
        hidden.log_()
        return F.relu(hidden)

    recording.functions(program, noise())


@case(Origin("Tensor.__truediv__"))
def operator(recording: Recording) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh((x - x) / (x - x).abs())

    recording.functions(program, noise())


@case(Origin("Functional.relu", "input"))
def data_that_no_function_made(recording: Recording) -> None:
    x = noise()
    x[0] = torch.nan
    recording.functions(lambda: torch.tanh(F.relu(x)))


@case(NONE)
def logarithm_of_zero_by_design(recording: Recording) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(torch.log(F.relu(x)))

    recording.functions(program, noise())


@case(NONE)
def filter_of_sampling(recording: Recording) -> None:
    def program(logits: torch.Tensor) -> torch.Tensor:
        kept = torch.topk(logits, 3).values[..., -1:]
        filtered = logits.masked_fill(logits < kept, -INF)
        return torch.multinomial(torch.softmax(filtered, -1), 1)

    recording.functions(program, noise())


@case(Origin("Torch.matmul"))
def product_overflows(recording: Recording) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(x * 200, x.T * 200)
        return torch.softmax(scores, -1)

    recording.functions(program, ones().half())
