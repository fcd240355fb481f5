"""Records functions of torch.distributed when they are complete."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msitd._core.guard import Failures
from msitd._core.leaf.values import group_id_of

# Arguments that a function only writes to; their earlier contents mean nothing.
_RECEIVED: dict[str, tuple[int, tuple[str, ...]]] = {
    "recv": (0, ("tensor",)),
    "irecv": (0, ("tensor",)),
    "all_gather": (0, ("tensor_list",)),
    "all_gather_coalesced": (0, ("output_tensor_lists",)),
    "all_gather_into_tensor": (0, ("output_tensor",)),
    "_all_gather_base": (0, ("output_tensor",)),
    "gather": (1, ("gather_list",)),
    "scatter": (0, ("tensor",)),
    "reduce_scatter": (0, ("output",)),
    "reduce_scatter_tensor": (0, ("output",)),
    "_reduce_scatter_base": (0, ("output",)),
    "all_to_all": (0, ("output_tensor_list",)),
    "all_to_all_single": (0, ("output",)),
}

# Maximum number of calls that wait for completion. Results of older ones are
# given up.
_PENDING_MAX = 4096

Finish = Callable[[bool], None]

_failures = Failures("a collective is not recorded")


def sent(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments that a function reads, with None in place of the others."""
    position, words = _RECEIVED.get(name, (len(args), ()))
    return (
        tuple(None if i == position else open_p2p(a) for i, a in enumerate(args)),
        {k: None if k in words else open_p2p(v) for k, v in kwargs.items()},
    )


def open_p2p(value: Any) -> Any:
    """Returns P2POps as mappings of their fields, and other values unchanged.

    The fields are those that msprobe describes.
    """
    if isinstance(value, (list, tuple)):
        return [open_p2p(each) for each in value]
    if type(value).__name__ != "P2POp":
        return value
    return {
        "class_type": "torch.distributed.P2POp",
        "tensor": value.tensor,
        "op": getattr(value.op, "__name__", str(value.op)),
        "peer": value.peer,
        "tag": value.tag,
        "group_id": _group_id_of(value.group),
    }


def _group_id_of(group: Any) -> str | None:
    """Returns the id by which msprobe identifies a group; None if it is not known."""
    import torch

    try:
        return group_id_of(torch.distributed.get_process_group_ranks(group))
    except (KeyError, RuntimeError, TypeError, ValueError):
        # The group was destroyed, or this process is not a member.
        return None


class Collectives:
    """Functions that continue after they have returned. Any thread may use it.

    While it is installed, it is called when `wait` of any Work returns.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        # By the id of a Work, as long as the Work is alive.
        self._pending: dict[int, tuple[Any, Finish]] = {}
        self._original: Any = None
        self._wait: Any = None

    def install(self) -> None:
        """Replaces `Work.wait`, if torch.distributed is available."""
        kind = _work_type()
        if kind is None:
            return
        self._original = original = vars(kind)["wait"]
        wait_of = kind.wait

        complete = _failures.guarded(self._complete)

        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            result = wait_of(work, *args, **kwargs)
            complete(work)
            return result

        self._wait = wait
        kind.wait = wait  # type: ignore[method-assign]
        wait.__wrapped__ = original  # type: ignore[attr-defined]

    def remove(self) -> None:
        """Restores `Work.wait`, and gives up pending calls.

        If other code has replaced `Work.wait` since, that replacement stays.
        """
        kind = _work_type()
        if kind is not None and vars(kind)["wait"] is self._wait:
            kind.wait = self._original  # type: ignore[method-assign]
        # The function keeps this object alive.
        self._wait = None
        with self._lock:
            pending, self._pending = self._pending, {}
        for _, finish in pending.values():
            finish(False)

    def when_complete(self, result: Any, finish: Finish) -> None:
        """Calls `finish` with True when all works in `result` were waited for.

        Calls it at once if there are none, and with False if one of them never
        is.
        """
        works = list(_works_in(result))
        if not works:
            finish(True)
            return
        left = {id(work) for work in works}
        lock = threading.Lock()

        def finish_one(number: int, was_waited: bool) -> None:
            with lock:
                is_last = left == {number}
                was_there = number in left
                left.discard(number)
                if not was_waited:
                    left.clear()
            if is_last or (was_there and not was_waited):
                finish(was_waited)

        for work in works:
            self._add(work, finish_one)

    def _add(self, work: Any, finish: Callable[[int, bool], None]) -> None:
        number = id(work)

        def finish_this(was_waited: bool) -> None:
            finish(number, was_waited)

        def forget(_: Any) -> None:
            self._take(number, False)

        with self._lock:
            oldest = None
            if len(self._pending) >= _PENDING_MAX:
                oldest = next(iter(self._pending))
            self._pending[number] = (weakref.ref(work, forget), finish_this)
        if oldest is not None:
            self._take(oldest, False)

    def _complete(self, work: Any) -> None:
        self._take(id(work), True)

    def _take(self, number: int, was_waited: bool) -> None:
        with self._lock:
            _, finish = self._pending.pop(number, (None, None))
        if finish is not None:
            finish(was_waited)


def _work_type() -> Any:
    import torch

    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available():
        return None
    return distributed.Work if hasattr(distributed, "Work") else None


def _works_in(result: Any) -> Iterator[Any]:
    kind = _work_type()
    if kind is None:
        return
    results: Iterable[Any] = result if isinstance(result, (list, tuple)) else [result]
    for each in results:
        if isinstance(each, kind):
            yield each
