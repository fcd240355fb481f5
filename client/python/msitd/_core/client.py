"""The client, which passes the tensors of Python libraries to libmsit.

Recording must not change the program: it may neither hold the program up nor take all
of its memory, and later changes in place must not reach the record. Keeping a reference
to each tensor would be free, but modules overwrite tensors before they could be sent.
Sending inside `record` would let every forward wait for the network.

`record` therefore copies the bytes once, on the calling thread, into bounded memory,
which a local daemon shares so that nothing is copied again. Threads of libmsit send
them. Tensors of accelerators are copied on their device first, and reach the host in
the background; see `devices`.

The cost is one copy per tensor, and a choice once the memory is full: `overflow`
decides whether the program waits, or which records are dropped or reduced to summary
and hash. Every lost record is counted, and reported by `flush` and `close`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from msitd import _msit
from msitd._core import open_clients, openings
from msitd._core.arguments import (
    check_word,
    io_number,
    microseconds,
    place_of,
    problem_of,
)
from msitd._core.codes import raise_for
from msitd._core.counters import Counters
from msitd._core.devices.copies import DeviceCopies
from msitd._core.documents import Documents
from msitd._core.errors import MsitError
from msitd._core.graph import compiled
from msitd._core.last_wait import close_native
from msitd._core.leaf import memory, values
from msitd._core.losses import Losses, close_forgotten
from msitd._core.not_recorded import NotRecorded
from msitd._core.open_clients import OpenOnce, rank_of, run_of
from msitd._core.personal import find_daemon
from msitd._core.statistics_records import StatisticsRecords
from msitd._core.tokens import Numbering
from msitd._core.vocabulary import (
    CALL_AUTO,
    IF_EXISTS_NUMBERS,
    IO_ANY,
    IO_NUMBERS,
    OVERFLOW_NUMBERS,
    REQUIRES_GRAD_NUMBERS,
    TOKEN_CURRENT,
)

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_logger = logging.getLogger("msitd")


class Client(OpenOnce, Documents, StatisticsRecords):
    """Records tensors as one rank of a run.

    `record` copies a tensor into memory of the client and returns; threads of libmsit
    send it. The memory is bounded. When it is full, `record` waits for at most
    `max_block` seconds, then drops the record and counts it. `overflow` selects other
    behaviors.

    Any thread may use a client. Ctrl-C, like any exception of a signal handler, ends a
    call that waits: the record is dropped, and `close` drops unacknowledged records. In
    a forked child the client is off: `record` returns False. A client that was not
    closed is closed when the interpreter exits.

    Args:
        run: Name of the run, 1 to 128 bytes of UTF-8. The run is created if it does not
            exist. Default: the environment variable MSITD_RUN.
        rank: Rank of this process, 0 to `world_size` - 1. Default: the environment
            variable RANK, or 0.
        world_size: Number of ranks of the job. Default: WORLD_SIZE, or 1.
        endpoint: The daemon's address. For a local daemon, `/path` or `unix:/path` with
            its socket directory or a socket in it. The client shares memory with a
            daemon that supports it. For any other daemon, `host:port` or
            `dns:///name:port`. Default: MSITD_ENDPOINT, or the service of this machine,
            or the daemon of this user, which is started. MSITD_TLS, MSITD_CA_FILE,
            MSITD_CERT_FILE and MSITD_KEY_FILE turn on encryption: see msit.h.
        max_block: Maximum time in seconds that one `record` waits for free memory.
            After a record has waited in vain, later ones do not wait until the daemon
            has accepted something.
        buffer_bytes: Memory in bytes for records that are not durable yet. Pages are
            allocated when they are first needed. Default: the records of the first
            token may take 1/64 of the memory that is available on the node and allowed
            by the control group. Later records may take twice the size of the largest
            token so far. Both limits are at least 64 MiB and at most 1 GiB.
        linger: Seconds after its first record when a chunk that is not full is sent.
        open_timeout: Maximum time in seconds to wait for the daemon. 0: does not wait,
            and connects in the background. A permanent refusal, such as a run of
            another owner, ends the wait at once. A temporary refusal, such as a full
            disk or too many streams, is retried until the time is over; the error then
            has the daemon's last reason.
        close_timeout: Maximum time in seconds to wait for the daemon at the end of a
            `with` block, and when the interpreter exits.
        device: Device name for tensors in host memory.
        reduce_on_device: At level `summary`, accelerators reduce their tensors
            themselves. Only the result is copied to the host: a record of kind
            statistics, without a hash. It is recorded when it arrives, after tensors
            and values of the host that were recorded in between. Default: whether the
            environment variable MSITD_REDUCE_ON_DEVICE is `1`.
        on_drop: How `flush`, `close` and the end of a `with` block report lost records,
            and a daemon that has ended the stream permanently or, at the end, did not
            answer in time. `raise` raises an exception. `warn` logs a line with the
            logger `msitd` if records are lost. When the interpreter exits or another
            exception propagates, a line is logged in any case.
        overflow: What `record` does when tensors arrive faster than the daemon accepts
            them. `block` waits for free memory for at most `max_block`, then drops the
            record. `drop-newest` drops it at once. `drop-oldest-token` drops records of
            the oldest token that were not sent yet; it waits only if no token lower
            than that of the record can be dropped. `degrade` keeps summary and hash,
            but no bytes, of tensors that arrive while memory is short; it waits if
            there is none. The counters report what was dropped and degraded. See
            msit_overflow in msit.h.
        if_exists: What to do if the run already has tensors of this rank from another
            client, of this process or of another one. A stream that resumes after a
            broken connection does not count as another client. `fail` raises. `append`
            adds to the tensors, as a restarted job needs: tokens continue after the
            last token of the run, with the same number on all ranks of a launch, unless
            the program names a token before the daemon answers. Records made before the
            answer, also by hooks, are renumbered. Where the run already has a tensor,
            its first bytes are kept; the logger `msitd` reports this once, and
            `Counters.conflict_count` counts later records with different bytes.
            `replace` deletes the run and creates it again when the first rank of a
            launch opens it, and when a rank is opened again. `new` gives the launch a
            run of its own, the same for all its ranks: `run-2` and so on, and the next
            one if a rank is opened again; see `Client.run`. The second recordings of
            all ranks belong together, as do the third ones; with `replace`, a rank is
            refused if another rank has replaced the run with a later recording. Each
            daemon chooses on its own: if ranks stream to several daemons, give the
            launch its own run name. If a client of this process for the same rank of
            the run is still open, `fail` raises at once and names the place where it
            was opened. `append` shares the stream and the tokens of that client and
            ignores the other arguments. The stream ends when all its clients are
            closed or no longer referenced. `replace` closes those clients first. `new`
            records into another run in parallel.
        job: A text that all ranks of this launch, and no other launch, have. `fail`
            also raises if a launch with another name created the run. Default:
            MSITD_JOB, or this process if `world_size` is 1, or the values of torchrun,
            Slurm, Flux, PMIx or MASTER_ADDR and MASTER_PORT, or the parent process.

    Raises:
        ValueError: An argument is out of its range.
        MsitError: The daemon refuses the stream, or does not accept it in time. Also if
            the run has tensors of this rank: see `if_exists`.
    """

    def __init__(
        self,
        run: str | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        endpoint: str | None = None,
        *,
        max_block: float = 1.0,
        buffer_bytes: int | None = None,
        linger: float = 0.02,
        open_timeout: float = 5.0,
        close_timeout: float = 30.0,
        device: str = "cpu:0",
        reduce_on_device: bool | None = None,
        overflow: str = "block",
        on_drop: str = "raise",
        if_exists: str = "fail",
        job: str | None = None,
    ) -> None:
        check_word("on_drop", on_drop, ("raise", "warn"))
        check_word("overflow", overflow, OVERFLOW_NUMBERS)
        check_word("if_exists", if_exists, IF_EXISTS_NUMBERS)
        run, rank = run_of(run), rank_of(rank)
        if world_size is None:
            world_size = int(os.environ.get("WORLD_SIZE", "1"))
        if reduce_on_device is None:
            reduce_on_device = os.environ.get("MSITD_REDUCE_ON_DEVICE") == "1"
        if compiled.is_loaded():
            compiled.make_package_opaque()
        with open_clients.opening_of(run, rank, endpoint):
            if open_clients.announce(run, rank) and if_exists == "fail":
                if_exists = "append"
            other = self._find_open(run, rank, world_size, endpoint, if_exists)
            if other is not None:
                self._share(other, endpoint)
                return
            self._close_timeout = close_timeout
            address = find_daemon(endpoint, open_timeout)
            try:
                self._native = _msit.Client(
                    address,
                    run,
                    rank,
                    world_size,
                    microseconds(max_block),
                    buffer_bytes,
                    microseconds(linger),
                    microseconds(open_timeout),
                    device,
                    f"msitd-python/{_msit.version()}",
                    OVERFLOW_NUMBERS[overflow],
                    IF_EXISTS_NUMBERS[if_exists],
                    job,
                    threading.main_thread().ident or 0,
                )
            except TypeError as error:
                texts = {"run": run, "endpoint": endpoint, "device": device, "job": job}
                numbers = {"rank": rank, "world_size": world_size}
                raise problem_of(error, texts, numbers) from None
            raise_for(self._native.open_code)
            self._recording = _msit.Recording(self._native)
            super().__init__(self._native, is_appended=if_exists == "append")
            self._numbering = Numbering()
            self._losses = Losses(self._native, on_drop)
            self._not_recorded = NotRecorded(self._native)
            self._copies = DeviceCopies(
                self._native, self._not_recorded, max_block, reduce_on_device
            )
            self.stream = open_clients.SharedStream()
            self._add_to_open(endpoint, rank, world_size)
        for tell in openings.opened:
            tell(run, endpoint, self.run)

    def _share(self, other: OpenOnce, endpoint: str | None) -> None:
        """Uses the stream of another client, which this client has joined."""
        own = {"_finalizer", "opening", "_is_closed", "_stops", *vars(self)}
        # A copy, because other threads may use that client.
        theirs = vars(other).copy()
        vars(self).update({key: theirs[key] for key in theirs if key not in own})
        self._add_to_open(endpoint, other.opening.rank, other.opening.world_size)

    def _add_to_open(self, endpoint: str | None, rank: int, world_size: int) -> None:
        self._stops = []
        parts = (self._losses, self._native, self._copies, self._not_recorded)
        self._finalizer = weakref.finalize(
            self,
            close_forgotten,
            self.stream,
            *parts,
            microseconds(self._close_timeout),
        )
        self.opening = open_clients.Opening(endpoint, rank, world_size)
        open_clients.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except (MsitError, TimeoutError) as problem:
            # The exception that already propagates is more useful than this one.
            if error is None:
                raise
            _logger.warning("%s", problem)

    def record(
        self,
        tensor: Any,
        *,
        op: str,
        io: str = "output",
        index: str = "0",
        token: int | None = None,
        call: int | None = None,
        device: str | None = None,
        dtype: str | None = None,
        placement: str | None = None,
        requires_grad: bool | None = None,
        stack: str | None = None,
        identity: int = 0,
    ) -> bool:
        """Copies a tensor into the client.

        The caller may overwrite the tensor afterwards. A tensor on an accelerator is
        copied on its device, and reaches the host in the background.

        Args:
            tensor: A numpy array or scalar, a torch tensor, or any object with
                `__dlpack__` or the buffer protocol, of at most 32 dimensions. Views are
                recorded row-major, without gaps.
            op: Name of the module, API, graph node or kernel, 1 to 1024 bytes.
            io: `input`, `output`, `weight`, `grad_input`, `grad_output`, `grad_weight`
                or `state`.
            index: Identifies the argument: `0`, `1.0`, a keyword. At most 128 bytes.
            token: Generated token or step, 0 to 2^40 - 1. Default: the current token,
                see `next_token`.
            call: Number of the call of the op within the token, as returned by
                `begin_call`. Default: records of the same device, token, op, io and
                index are counted.
            device: Device that holds the tensor, such as `npu:3`. Default: the device
                of the tensor, or that of the client for host memory.
            dtype: Interprets the elements as this dtype of the same size, such as
                `float8_e4m3fn` for an array of uint8. Default: the dtype of the tensor.
            placement: For a shard, how the whole tensor is placed on the ranks:
                `first+shape/strides:placements`, such as `0+2x4/4x1:R,S(0)`. See
                `msit_tensor` in msit.h. Default: that of a DTensor, whose local shard
                is recorded.
            requires_grad: Whether the tensor requires a gradient. Default: that of a
                torch tensor. It is unknown for other tensors.
            stack: Place in the source that produced the tensor: one line `file:line
                function` per frame, innermost first. Only 8192 bytes of a longer text
                are kept.
            identity: A number below 2^64 that is the same only for equal bytes, or 0.
                Two tensors of this client and token that have the same identity, dtype,
                shape and device must have equal bytes. The later one may then be
                recorded as an *alias* of the earlier one, without copying or sending
                its bytes. If the number is wrong, the daemon shows wrong bytes.

        Returns:
            False if the record was dropped or truncated: memory was not available in
            time, or the daemon has refused the stream permanently. True otherwise, also
            if the capture policy does not select the tensor. A record may still be
            dropped after True was returned.

        Raises:
            TypeError: `tensor` is not a tensor, or its dtype is not supported.
            ValueError: An argument is out of its range.
            MsitError: The client is closed.
            RuntimeError: An accelerator failed, or did not finish within `max_block`.
                The record counts as dropped.
        """
        if self._is_closed:
            self._check_open()
        place = (
            device,
            TOKEN_CURRENT if token is None else token,
            op,
            CALL_AUTO if call is None else call,
            io_number(io),
            index,
            placement,
        )
        if requires_grad is not None:
            requires_grad = bool(requires_grad)
        facts = (REQUIRES_GRAD_NUMBERS[requires_grad], stack, identity)
        try:
            with self._recording:
                code = memory.record(
                    self._native, tensor, dtype, place, facts, self._copies
                )
        except TypeError as error:
            texts: dict[str, str | None] = {"op": op, "index": index, "stack": stack}
            texts |= {"device": device, "placement": placement}
            numbers = {"token": token, "call": call, "identity": identity}
            raise problem_of(error, texts, numbers) from None
        return code == _msit.OK or self._is_recorded(code)

    def record_value(
        self,
        value: Any,
        *,
        op: str,
        io: str = "output",
        index: str = "0",
        token: int | None = None,
        call: int | None = None,
        device: str | None = None,
        stack: str | None = None,
    ) -> bool:
        """Records an argument that is not a tensor.

        Numbers, strings, None, dtypes and short objects such as a slice or a device are
        recorded as their repr, strings as they are. Numbers can be compared like
        tensors of one element. For an object of another class, the name of the class is
        recorded. Texts are cut to 1024 bytes.

        Args:
            value: Any object except a tensor.
            op: See `record`, as for all other arguments.

        Returns:
            See `record`.

        Raises:
            TypeError: `value` is a tensor.
            ValueError: An argument is out of its range.
            MsitError: The client is closed.
        """
        self._check_open()
        place = place_of(op, io, index, token, call, device)
        kind, number, text = values.describe(value)
        try:
            code = self._native.record_value(kind, number, text, place, stack)
        except TypeError as error:
            texts: dict[str, str | None] = {"op": op, "index": index, "stack": stack}
            texts |= {"device": device}
            raise problem_of(error, texts, {"token": token, "call": call}) from None
        return code == _msit.OK or self._is_recorded(code)

    def selects(
        self, op: str, io: str | None = "output", token: int | None = None
    ) -> bool:
        """Returns whether the capture policy selects such tensors.

        `io` may be None for any side of the op.

        False means that `record` would only count the tensors as filtered, on any
        device, so copying them to the host would be wasted. The policy may change at
        any time. In a forked child the result is always False, and what is skipped for
        that reason is not counted.
        """
        try:
            return self._native.selects(
                TOKEN_CURRENT if token is None else token,
                op,
                IO_ANY if io is None else IO_NUMBERS[io],
            )
        except TypeError as error:
            raise problem_of(error, {"op": op}, {"token": token}) from None

    @property
    def token(self) -> int:
        """The current token, which starts at 0."""
        return self._native.token_number(TOKEN_CURRENT)

    @token.setter
    def token(self, token: int) -> None:
        self._check_open()
        raise_for(self._set_token(token))

    def _set_token(self, token: int) -> int:
        """Makes `token` the current one; returns a code of msit.h."""
        self._numbering.is_by_program = True
        return self._native.set_token(token)

    @property
    def run(self) -> str:
        """Name of the run: the requested one, or the one that `if_exists` chose."""
        return self._native.run()

    def next_token(self) -> int:
        """Advances to the next token and returns it."""
        return self._native.token_number(self._advance())

    def _advance(self) -> int:
        """Advances to the next token. Returns a reference to it."""
        self._check_open()
        self._losses.warn_of_conflicts()
        return self._native.next_token()

    def begin_call(self, op: str, token: int | None = None) -> int:
        """Returns the number of the call of `op` that begins now in the token: 0, 1, 2,
        …

        Pass this number to all records of the call.

        Raises:
            ValueError: An argument is out of its range.
        """
        self._check_open()
        try:
            code, call = self._native.begin_call(
                TOKEN_CURRENT if token is None else token, op
            )
        except TypeError as error:
            raise problem_of(error, {"op": op}, {"token": token}) from None
        if code == _msit.FORKED:
            return 0
        raise_for(code)
        return call

    def flush(self, timeout: float = 30.0, *, check: bool | None = None) -> int:
        """Waits until all records so far are acknowledged or dropped.

        Args:
            timeout: Maximum time to wait, in seconds.
            check: Whether losses raise the exceptions marked with * below. Default: as
                set by `on_drop`.

        Returns:
            Number of records lost since the last `flush`, if no exception is raised.

        Raises:
            ValueError: `timeout` is negative.
            TimeoutError: The time ran out. No record is lost as a result.
            DroppedError: * Records were dropped or truncated since the last `flush`.
            MsitError: * The daemon ended the stream permanently. Or the client is
                closed, or belongs to the parent process.
        """
        self._check_open()
        return self._flush(timeout, check)

    def _flush(self, timeout: float, check: bool | None) -> int:
        left = self._copies.wait(timeout)
        self._not_recorded.tell()
        code = self._native.flush(microseconds(max(left, min(timeout, 0))))
        if code == _msit.OK and left < 0 <= timeout:
            raise TimeoutError("a device has not done its work in time")
        if code != _msit.REFUSED or self._losses.must_raise(check):
            raise_for(code)
        return self._losses.tell(check)

    def counters(self) -> Counters:
        """Returns the counters of the client, which may be closed."""
        return Counters(*self._native.counters())

    def stream_error(self) -> str:
        """Returns why the stream is broken or ended; empty if there is no error."""
        return self._native.stream_error()

    def close(self, timeout: float | None = None, *, check: bool | None = None) -> int:
        """Flushes and ends the stream. Further calls have no effect.

        While another client shares the stream, by `if_exists="append"`, the stream is
        flushed and stays open for that client.

        Args:
            timeout: Maximum time in seconds to wait for the daemon. Records that are
                not acknowledged by then are dropped and counted. If everything is
                acknowledged, ending the stream in order may take up to one more second.
                Default: `close_timeout`, or 5 s without a connection.
            check: Whether losses raise the exceptions marked with * below. Default: as
                set by `on_drop`.

        Returns:
            Number of records lost since the last `flush`, if no exception is raised.

        Raises:
            ValueError: `timeout` is negative. The client stays open.
            TimeoutError: * Not everything was acknowledged in time. Unlike with
                `flush`, the other records are lost.
            DroppedError: * Records were dropped or truncated since the last `flush`.
            MsitError: * The daemon ended the stream permanently.
        """
        gives_up = timeout is None
        timeout = self._close_timeout if timeout is None else timeout
        if timeout < 0:
            raise ValueError(f"timeout {timeout} is negative")
        if self._finalizer.alive and self.stream.client_count == 1:
            timeout = max(self._copies.wait(timeout), 0)
            self._not_recorded.finish()
        if not self._end_membership():
            return 0
        if self.stream.leave_if_last():
            return self._end_stream(timeout, check, gives_up)
        # Leaves after the flush, because the last one to leave ends the stream.
        deadline = time.monotonic() + timeout
        try:
            lost = self._flush_shared(timeout, check)
        except BaseException:
            if self.stream.leave():
                self._finish_stream(0, check=False)
            raise
        if self.stream.leave():
            lost += self._finish_stream(max(deadline - time.monotonic(), 0), check)
        return lost

    def _finish_stream(self, timeout: float, check: bool | None) -> int:
        try:
            self._not_recorded.finish()
        finally:
            lost = self._end_stream(timeout, check, False)
        return lost

    def _flush_shared(self, timeout: float, check: bool | None) -> int:
        try:
            return self._flush(timeout, check)
        except TimeoutError:
            if self._losses.must_raise(check):
                raise
            return self._losses.tell(check)

    def _end_stream(self, timeout: float, check: bool | None, gives_up: bool) -> int:
        """Closes the native client. Returns and raises what `close` does."""
        try:
            code = close_native(self._native, timeout, gives_up)
        except BaseException:
            # A signal handler has raised it. The client is closed in any case.
            self._copies.stop()
            raise
        if code == _msit.FORKED:
            return 0
        self._copies.stop()
        if code not in (_msit.REFUSED, _msit.TIMEOUT) or self._losses.must_raise(check):
            raise_for(code)
        return self._losses.tell(check)

    def _is_recorded(self, code: int) -> bool:
        """Returns False for a lost record. Raises an exception for other failures."""
        if code in (_msit.DROPPED, _msit.FORKED):
            self._losses.warn_once()
        else:
            raise_for(code)
        return code == _msit.OK
