"""Passes orders to workers, and answers back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from msitd.fleet.orders import Answer, Order, Setup


@dataclass(frozen=True)
class Answered:
    """A worker has carried out its order, or cannot carry it out."""

    worker: int
    answer: Answer


@dataclass(frozen=True)
class Lost:
    """A worker is gone, together with its order."""

    worker: int
    why: str


Event = Answered | Lost


class Engine(Protocol):
    """Workers, each with at most one order at a time.

    A worker without an order can be lost, too. It then receives no further
    orders, and its number is not used again.
    """

    def start(self, setup: Setup) -> int:
        """Starts one more worker and returns its number.

        Does not wait until it is ready.
        """

    def give(self, worker: int, order: Order) -> None:
        """Gives an order to a worker that has none."""

    def wait(self) -> Event:
        """Returns the next event of a worker that has an order."""

    def close(self) -> None:
        """Ends all workers, even busy ones."""
