"""How orders come to workers, and answers back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from msitd.fleet.orders import Answer, Order, Setup


@dataclass(frozen=True)
class Answered:
    """A worker has carried out its order, or cannot."""

    worker: int
    answer: Answer


@dataclass(frozen=True)
class Lost:
    """A worker is gone, with the order that it had."""

    worker: int
    why: str


Event = Answered | Lost


class Engine(Protocol):
    """Workers, each with at most one order at a time.

    A worker is lost without an order as well: give it none, and no other worker has
    its number.
    """

    def start(self, setup: Setup) -> int:
        """Starts one more worker; returns its number. Does not wait for it."""

    def give(self, worker: int, order: Order) -> None:
        """Hands an order to a worker that has none."""

    def wait(self) -> Event:
        """Returns the next thing that happens to a worker that has an order."""

    def close(self) -> None:
        """Ends all workers, whatever they do."""
