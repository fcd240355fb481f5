"""Two ranks on gloo. Each function runs in the process of its rank."""

import contextlib
from collections.abc import Callable

import msitd
import torch
import torch.distributed as dist
from case import NOT_KNOWN, Fn, Origin, Recording, case, linear, noise
from torch import nn


def _forward(recording: Recording, model: nn.Module, functions: bool = True) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        # A rank that is not recorded has no run.
        if recording.run:
            client = stack.enter_context(recording.client())
            stack.enter_context(msitd.register_hook(model, client))
            if functions:
                stack.enter_context(msitd.register_api(client))
        model(noise())


def _bad_on(rank: int) -> nn.Module:
    return Fn(lambda x: torch.log(-x.abs()) if dist.get_rank() == rank else x * 2)


class Stages(nn.Module):
    """A module, communication, a module."""

    def __init__(
        self, first: nn.Module, communicate: Callable[[torch.Tensor], torch.Tensor]
    ) -> None:
        super().__init__()
        self.before, self.first, self.last = linear(), first, linear()
        self.communicate = communicate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.communicate(self.first(self.before(x))))


def _all_reduce(x: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(x)
    return x


def _all_gather(x: torch.Tensor) -> torch.Tensor:
    pieces = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(pieces, x)
    return pieces[0] + pieces[1]


def _send_to_one(x: torch.Tensor) -> torch.Tensor:
    if dist.get_rank() == 0:
        dist.send(x, 1)
        return x.nan_to_num()
    received = torch.empty_like(x)
    dist.recv(received, 0)
    return received


LOGARITHM = (Origin("Torch.log", rank=1), Origin("root.first", rank=1))


@case(*LOGARITHM, ranks=2)
def all_reduce(recording: Recording) -> None:
    _forward(recording, Stages(_bad_on(1), _all_reduce))


@case(Origin("Torch.log", rank=0), ranks=2)
def all_gather(recording: Recording) -> None:
    _forward(recording, Stages(_bad_on(0), _all_gather))


@case(Origin("Torch.log", rank=0), ranks=2)
def send_and_receive(recording: Recording) -> None:
    _forward(recording, Stages(_bad_on(0), _send_to_one))


@case(Origin("root.first", rank=1), ranks=2)
def all_reduce_in_code_that_was_not_recorded(recording: Recording) -> None:
    _forward(recording, Stages(_bad_on(1), _all_reduce), functions=False)


class SumInModule(nn.Module):
    """A module that communicates, after one that may be bad."""

    def __init__(self, first: nn.Module) -> None:
        super().__init__()
        self.before, self.first, self.last = linear(), first, linear()
        self.sum = Fn(_all_reduce)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.sum(self.first(self.before(x))))


@case(Origin("root.first", rank=1), ranks=2)
def all_reduce_in_a_module(recording: Recording) -> None:
    _forward(recording, SumInModule(_bad_on(1)), functions=False)


@case(NOT_KNOWN, ranks=2, recorded=1)
def rank_that_is_missing(recording: Recording) -> None:
    _forward(recording, Stages(_bad_on(1), _all_reduce))


SUM = "Distributed.all_reduce"


@case(Origin(SUM), Origin(SUM, rank=1), ranks=2)
def sum_of_ranks_overflows(recording: Recording) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = Fn(lambda x: x.abs().half() * 0 + 60000)
            self.last = Fn(lambda x: x * 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(_all_reduce(self.scale(x)))

    _forward(recording, Model())
