"""Registry of the open clients of this process.

A rank of a run has one stream at a time. When a process opens a second client
for the same rank, the client finds the first one here. It can then share the
stream, end it, or report where it was opened, without a call to the daemon.

Clients that share a stream are separate objects, because each of them is closed
separately. A client without references, such as that of a notebook cell that
ran twice, does not keep the stream open. Closing the last client ends the
stream.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

from msitd._core import openings
from msitd._core.endpoints import choose_endpoint
from msitd._core.errors import MsitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_logger = logging.getLogger("msitd")

_PACKAGE = __name__.partition(".")[0]

_open: weakref.WeakSet[OpenOnce] = weakref.WeakSet()
# By run, rank, endpoint and process. Exists only while threads are opening
# clients.
_locks: dict[tuple[str, str, str, int], _OpeningLock] = {}
_locks_lock = threading.RLock()


class _OpeningLock:
    """Held by the thread that opens a client; others with the same key wait for it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.user_count = 0


class SharedStream:
    """Counts the open clients of one stream. Any thread may use it."""

    def __init__(self) -> None:
        # Reentrant: finalizers and signal handlers may run while the lock is
        # held.
        self._lock = threading.RLock()
        self._client_count = 1

    @property
    def client_count(self) -> int:
        """Number of open clients; 0 if the stream is ending or has ended."""
        return self._client_count

    def join(self) -> bool:
        """Adds a client. Returns False if the stream is ending or has ended."""
        with self._lock:
            if self._client_count == 0:
                return False
            self._client_count += 1
            return True

    def leave(self) -> bool:
        """Removes a client. Returns True if it was the last one."""
        with self._lock:
            self._client_count -= 1
            return self._client_count == 0

    def leave_if_last(self) -> bool:
        """Removes a client if it is the last one. Returns whether it is."""
        with self._lock:
            if self._client_count != 1:
                return False
            self._client_count = 0
            return True


class Opening:
    """The arguments with which a client was opened, and the place in the source.

    Args:
        endpoint: The argument of `Client`, as are `rank` and `world_size`.
    """

    def __init__(self, endpoint: str | None, rank: int, world_size: int) -> None:
        self.endpoint = _endpoint_of(endpoint)
        self.rank = rank
        self.world_size = world_size
        self.pid = os.getpid()
        self.line = _line_of_caller()


class OpenOnce:
    """The part of a client that finds the other clients of its process."""

    _finalizer: weakref.finalize[..., Any]
    opening: Opening
    stream: SharedStream
    _is_closed = False
    _stops: list[weakref.WeakMethod[Callable[[], None]]]

    def _find_open(
        self,
        run: str,
        rank: int,
        world_size: int,
        endpoint: str | None,
        if_exists: str,
    ) -> OpenOnce | None:
        """Returns the open client whose stream this client will share, after
        joining it.

        If this client replaces the open client, closes that one. The caller
        holds `opening_of` for the same rank.

        Raises:
            ValueError: The open client has another world size.
            MsitError: There is an open client, and `if_exists` does not allow a
                second one.
        """
        found = _find(run, rank, endpoint)
        if found is None or if_exists == "new":
            return None
        if if_exists == "append" and type(found) is type(self):
            if found.opening.world_size != world_size:
                raise ValueError(
                    f"world_size {world_size} is not {found.opening.world_size}, that "
                    f"of the client that was opened at {found.opening.line}"
                )
            return found if found.stream.join() else None
        if if_exists == "replace":
            _end(found, run)
            return None
        raise _busy(found, run)

    @property
    def closed(self) -> bool:
        """Whether the client is closed. Others may still use the same stream."""
        return not self._finalizer.alive

    def close_for_all(self) -> None:
        """Closes all clients of the stream, which then ends. If another thread is
        closing one of them, the stream ends after its flush.

        Losses raise no exception.
        """
        for other in list(_open):
            if (
                other is not self
                and other.stream is self.stream
                and other._end_membership()
            ):
                other.stream.leave()
        self.close(check=False)

    def _end_membership(self) -> bool:
        """Closes the client, but not its stream, which the caller must leave.

        Returns False if the client was closed before; the caller must then not leave
        the stream.
        """
        if self._finalizer.detach() is None:
            return False
        self._is_closed = True
        _open.discard(self)
        stops, self._stops = self._stops, []
        for reference in stops:
            stop = reference()
            if stop is None:
                continue
            try:
                stop()
            except Exception:
                # Otherwise the stream would stay open, and the rank busy,
                # forever.
                _logger.exception("hooks of a client that is closed did not stop")
        return True

    def _at_close(self, stop: Callable[[], None]) -> None:
        """Registers a method that is called when this client is closed; it must
        not raise.

        If the client is already closed, the method is called at once. Only a
        weak reference is kept. Other clients of the stream do not matter,
        because the method stops something that belongs to this client.
        """
        if self._is_closed:
            stop()
            return
        self._stops = [each for each in self._stops if each() is not None]
        self._stops.append(weakref.WeakMethod(stop))

    def _check_open(self) -> None:
        """Raises MsitError if the client is closed and its stream is not.

        If the stream is closed, libmsit raises the exception.
        """
        if self._is_closed and self.stream.client_count > 0:
            raise MsitError("the client is closed")

    @property
    def run(self) -> str:
        raise NotImplementedError

    def close(self, timeout: float | None = None, *, check: bool | None = None) -> int:
        raise NotImplementedError


@contextlib.contextmanager
def opening_of(run: str, rank: int, endpoint: str | None) -> Iterator[None]:
    """Lets only one thread at a time search for an open client and open another one."""
    key = (str(run), str(rank), _endpoint_of(endpoint), os.getpid())
    with _locks_lock:
        opening = _locks.setdefault(key, _OpeningLock())
        opening.user_count += 1
    try:
        with opening.lock:
            yield
    finally:
        with _locks_lock:
            opening.user_count -= 1
            if opening.user_count == 0:
                del _locks[key]


def announce(run: str, rank: int) -> bool:
    """Calls the listeners before a client opens; they may close clients of their own.

    Returns:
        Whether the new client continues the recording of such a client.
    """
    # Calls all listeners, even if the first one returns True.
    answers = [listener(run, rank) for listener in openings.opening]
    return any(answers)


def add(client: OpenOnce) -> None:
    """Registers a client as open until it is closed."""
    _open.add(client)


def run_of(run: str | None) -> str:
    """Returns the run for the argument of a client."""
    return os.environ.get("MSITD_RUN", "") if run is None else run


def rank_of(rank: int | None) -> int:
    """Returns the rank for the argument of a client."""
    return int(os.environ.get("RANK", "0")) if rank is None else rank


def _find(run: str, rank: int, endpoint: str | None) -> OpenOnce | None:
    endpoint, pid = _endpoint_of(endpoint), os.getpid()
    for client in list(_open):
        opening = client.opening
        if (
            opening.rank == rank
            and opening.endpoint == endpoint
            and opening.pid == pid
            and client.run == run
            and not client.closed
        ):
            return client
    return None


def _busy(client: OpenOnce, run: str) -> MsitError:
    return MsitError(
        f"RANK_BUSY: rank {client.opening.rank} of run {run!r} is recorded by a client "
        f"of this process that is still open, since {client.opening.line}: close() it, "
        "or use it in place of a new one, or pass if_exists='append' to share its "
        "stream, 'replace' to close it and record again, 'new' to record into another "
        "run"
    )


def _end(client: OpenOnce, run: str) -> None:
    _logger.warning(
        "the client that was opened at %s is closed, because its run %r is replaced",
        client.opening.line,
        run,
    )
    client.close_for_all()


def _endpoint_of(endpoint: str | None) -> str:
    """Returns the socket directory of a local daemon, for any spelling of its
    endpoint.
    """
    # The client refuses values that are not text.
    text = str(choose_endpoint(endpoint).endpoint)
    path = text.removeprefix("unix:")
    if not path.startswith("/"):
        return text
    path = os.path.realpath(path)
    return path if os.path.isdir(path) else os.path.dirname(path)


def _line_of_caller() -> str:
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] != _PACKAGE:
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
