"""Assigns orders to workers, each once, and again if a worker is lost."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator, Sequence

from msitd.fleet.engine import Engine, Lost
from msitd.fleet.orders import (
    Answer,
    CompareOrder,
    Failure,
    Order,
    OutlineOrder,
    Setup,
)

ATTEMPTS_MAX = 3


class Schedule:
    """The workers of an engine, and the order of each."""

    def __init__(self, engine: Engine, setup: Setup, workers: int) -> None:
        self._engine = engine
        self._setup = setup
        self._workers_max = workers
        self._idle: list[int] = []
        self._at_hand: dict[int, tuple[Order, int]] = {}
        self.lost: list[str] = []
        """Why workers were lost."""

    def one(self, order: Order) -> Answer:
        """Carries out one order."""
        return next(answer for _, answer in self.all([order]))

    def all(self, orders: Sequence[Order]) -> Iterator[tuple[Order, Answer]]:
        """Yields each order with its answer, in the order of the answers.

        An order whose worker is lost, or that fails temporarily, is repeated,
        up to `ATTEMPTS_MAX` attempts in all. Its answer is then the last
        Failure.
        """
        waiting: deque[tuple[Order, int]] = deque((order, 1) for order in orders)
        while waiting or self._at_hand:
            self._hand_out(waiting)
            event = self._engine.wait()
            if event.worker not in self._at_hand:
                # The worker was lost while it was idle.
                self._idle = [w for w in self._idle if w != event.worker]
                continue
            order, attempt = self._at_hand.pop(event.worker)
            if isinstance(event, Lost):
                self.lost.append(event.why)
                failure = Failure("UNAVAILABLE", f"a worker was lost: {event.why}")
                answer: Answer = failure
            else:
                self._idle.append(event.worker)
                answer = event.answer
            is_over = not isinstance(answer, Failure) or answer.is_final
            if is_over or attempt == ATTEMPTS_MAX:
                yield order, answer
            else:
                waiting.append((order, attempt + 1))

    def _hand_out(self, waiting: deque[tuple[Order, int]]) -> None:
        while waiting and len(self._at_hand) < self._workers_max:
            order, attempt = waiting.popleft()
            worker = self._idle.pop() if self._idle else self._engine.start(self._setup)
            self._at_hand[worker] = (order, attempt)
            self._engine.give(worker, _of_attempt(order, attempt))


def _of_attempt(order: Order, attempt: int) -> Order:
    if isinstance(order, (OutlineOrder,)):
        return order
    assert isinstance(order, CompareOrder)
    return dataclasses.replace(order, attempt=attempt)
