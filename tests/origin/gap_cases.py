"""Recordings that lack something."""

import msitd
import torch
from case import NOT_KNOWN, Fn, Origin, Recording, case, linear, noise
from torch import nn


def _faulty() -> nn.Sequential:
    return nn.Sequential(linear(), Fn(torch.log), nn.Tanh(), linear())


@case(NOT_KNOWN)
def outputs_only(recording: Recording) -> None:
    recording.modules(_faulty(), noise(), inputs=False)


@case(NOT_KNOWN)
def op_that_the_pattern_excludes(recording: Recording) -> None:
    recording.modules(_faulty(), noise(), op_pattern=["root.0", "root.3"])


@case(NOT_KNOWN)
def part_of_a_recorded_module_that_the_pattern_excludes(recording: Recording) -> None:
    recording.modules(_faulty(), noise(), op_pattern=["root", "root.0", "root.3"])


@case(Origin("root"))
def model_without_its_parts(recording: Recording) -> None:
    recording.modules(_faulty(), noise(), op_pattern="root")


class Holder:
    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


@case(NOT_KNOWN)
def argument_in_an_object(recording: Recording) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = linear()
            self.add = Fn(lambda x, held: x + held.tensor)
            self.last = linear()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            held = Holder(torch.full((8,), torch.nan))
            return self.last(self.add(self.first(x), held))

    recording.modules(Model(), noise())


@case(NOT_KNOWN)
def tokens_that_were_not_recorded(recording: Recording) -> None:
    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = linear()
            self.state = torch.zeros(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.state = self.state + torch.log(self.first(x)).sum(0)
            return torch.tanh(self.state)

    model = nn.Sequential(Cached(), linear())
    with (
        recording.client() as client,
        torch.no_grad(),
        msitd.register_hook(model, client, tokens={2, 3}),
    ):
        for _ in range(4):
            model(noise())
