"""Cases: recordings of faulty or healthy programs, and their right answers."""

import dataclasses
from collections.abc import Callable
from typing import Any

import msitd
import torch
from torch import nn

INF = float("inf")


@dataclasses.dataclass(frozen=True)
class Origin:
    """A right answer of `run origin`.

    `kind` is that of v1.RunOrigin.Kind in lower case: op, code, input, weight or
    state. Empty: any of them.
    """

    op: str
    kind: str = "op"
    token: int = 0
    rank: int = 0

    def __str__(self) -> str:
        return (
            f"{self.kind or 'any'} of {self.op}, token {self.token}, rank {self.rank}"
        )


# The answers without an origin.
NOT_KNOWN = "not known"
NONE = "none"

Answer = Origin | str


@dataclasses.dataclass(frozen=True)
class Recording:
    """Where a case is recorded."""

    endpoint: str
    run: str  # Empty for a rank that is not recorded.
    rank: int = 0
    world_size: int = 1

    def client(self, **options: Any) -> msitd.Client:
        options = {"rank": self.rank, "world_size": self.world_size, **options}
        return msitd.Client(self.run, endpoint=self.endpoint, **options)

    def modules(self, model: nn.Module, *inputs: Any, **options: Any) -> None:
        """Records one forward of a model without gradients."""
        with (
            self.client() as client,
            torch.no_grad(),
            msitd.register_hook(model, client, **options),
        ):
            model(*inputs)

    def functions(
        self, program: Callable[..., Any], *inputs: Any, values: bool = True
    ) -> None:
        """Records the functions of a program, and no modules."""
        with self.client() as client, msitd.register_api(client, values=values):
            program(*inputs)

    def both(self, model: nn.Module, *inputs: Any, values: bool = True) -> None:
        """Records the modules and the functions of one forward."""
        with (
            self.client() as client,
            torch.no_grad(),
            msitd.register_hook(model, client, values=values),
            msitd.register_api(client, values=values),
        ):
            model(*inputs)


@dataclasses.dataclass(frozen=True)
class Case:
    """A recording with a known answer."""

    name: str
    record: Callable[[Recording], None]
    answers: tuple[Answer, ...]
    where: str = ""  # The predicate; empty: the default.
    # Number of ranks that run the recording.
    world_size: int = 1
    # The ranks that record; the others run without a client.
    recorded: tuple[int, ...] = (0,)


CASES: dict[str, Case] = {}


def case(
    *answers: Answer, where: str = "", ranks: int = 1, recorded: int = 0
) -> Callable[[Callable[[Recording], None]], Callable[[Recording], None]]:
    """Registers a function as a case.

    Args:
        answers: The answers that are right.
        where: The predicate; empty: the default.
        ranks: Number of processes that run the function.
        recorded: How many of them record; 0: all.
    """

    def register(record: Callable[[Recording], None]) -> Callable[[Recording], None]:
        name = record.__name__
        assert name not in CASES
        CASES[name] = Case(
            name, record, answers, where, ranks, tuple(range(recorded or ranks))
        )
        return record

    return register


class Fn(nn.Module):
    """A module that computes a function and is recorded as an op."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def linear(inputs: int = 8, outputs: int = 8) -> nn.Linear:
    torch.manual_seed(3)
    return nn.Linear(inputs, outputs)


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(shape or (4, 8))


def noise(*shape: int) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(shape or (4, 8))
