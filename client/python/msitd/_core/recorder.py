"""The client: from the tensors of Python libraries to the library libmsit."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from msitd import _msit
from msitd._core import open_clients, openings
from msitd._core.arguments import io_number, place_of, problem_of
from msitd._core.codes import raise_for
from msitd._core.counters import Counters
from msitd._core.devices.copies import DeviceCopies
from msitd._core.documents import Documents
from msitd._core.errors import DroppedError, MsitError
from msitd._core.graph import compiled
from msitd._core.leaf import memory, values
from msitd._core.losses import Losses, close_forgotten
from msitd._core.not_recorded import NotRecorded
from msitd._core.open_clients import OpenOnce, rank_of, run_of
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


def _microseconds(seconds: float) -> int:
    return int(seconds * 1_000_000)


class Client(OpenOnce, Documents, StatisticsRecords):
    """One rank of one run.

    `record` copies a tensor into memory of the client and returns; threads of
    libmsit send it. The memory is bounded. When it is full, `record` waits for
    at most `max_block` seconds, then drops the record and counts it. `overflow`
    selects other behaviours.

    Any thread may use a client. Ctrl-C, like every other exception of a signal
    handler, ends a call that waits: the record is then dropped, and `close`
    drops what is not acknowledged. In a forked child the client is off:
    `record` returns False. A client that nobody has closed is closed when the
    interpreter exits.

    Args:
        run: Name of the run, 1 to 128 bytes of UTF-8. The run is made if it
            does not exist. Default: the environment variable MSITD_RUN.
        rank: Rank of this process, 0 to `world_size` - 1. Default: the
            environment variable RANK, or 0.
        world_size: Ranks of the job. Default: WORLD_SIZE, or 1.
        endpoint: Where the daemon is. `/path` or `unix:/path` for a daemon of
            this node: its socket directory or a socket in it. The client shares
            memory with a daemon that does so. `host:port` or `dns:///name:port`
            for any other daemon. Default: MSITD_ENDPOINT, or /run/msitd if a
            daemon shares memory there, or 127.0.0.1:7741. The environment
            variables MSITD_TLS, MSITD_CA_FILE, MSITD_CERT_FILE and
            MSITD_KEY_FILE turn on encryption: see msit.h.
        max_block: Longest time in seconds that one `record` waits for room.
            After one has waited in vain, later ones do not wait until the
            daemon has taken something.
        buffer_bytes: Memory in bytes for records that are not yet durable. Pages
            are taken from the system when they are first needed. Default: the
            records of the first token may take 1/64 of the memory that the node
            has available and the control group of the process allows, later
            ones twice what the largest token so far took; at least 64 MiB and
            at most 1 GiB in both cases.
        linger: A chunk that is not full is sent this many seconds after its
            first record.
        open_timeout: Longest time in seconds to wait for the daemon. 0: does
            not wait, connects in the background. A refusal for good, such as a
            run of another owner, ends the wait at once. A refusal that may
            pass, such as a full disk or too many streams, is tried again until
            the time is over; the error then has the last reason of the daemon.
        close_timeout: Longest time in seconds to wait for the daemon at the end
            of a `with` block, and at the interpreter's exit.
        device: Device of tensors in host memory.
        reduce_on_device: At level `summary`, an accelerator reduces its tensors
            itself. Nothing but the result comes to the host: a record of kind
            statistics, without a hash. It is recorded when it comes, behind
            what is recorded of tensors and values of the host meanwhile.
            Default: whether the environment variable MSITD_REDUCE_ON_DEVICE is
            `1`.
        on_drop: What `flush`, `close` and the end of a `with` block do about
            lost records, and about a daemon that has ended the stream for good
            or, at the end, not answered in time: `raise`, or `warn` with a line
            of the logger `msitd` if records are lost. It is always a line at
            the interpreter's exit, and where another exception is already on
            its way.
        overflow: What `record` does when tensors come faster than the daemon
            takes them. `block` waits for room for at most `max_block`, then
            drops the record. `drop-newest` drops it at once.
            `drop-oldest-token` drops records of the oldest token that were not
            sent yet; it waits only if no token lower than that of the record
            can be dropped. `degrade` keeps summary and hash, but no bytes, of
            tensors that come while memory is short; it waits if there is none.
            The counters say what was dropped and degraded. See msit_overflow in
            msit.h.
        if_exists: What to do if the run already has tensors of this rank from
            another client, of this process or of another one. A stream that
            resumes after a broken connection does not count as another. `fail`
            raises. `append` adds to them, as a restarted job wants: tokens
            continue after the last one of the run, the same for all ranks of a
            launch, unless the program names a token before the daemon answers.
            What is recorded before the answer moves along, also by hooks.
            Where the run already has a tensor, its first bytes stay; the logger
            `msitd` says so once, and `Counters.conflict_count` counts later
            records with other bytes.
            `replace` deletes the run and makes it again: the first rank of a
            launch does, and a rank that is opened again. `new` gives the launch
            a run of its own, the same for all its ranks: `run-2` and so on, the
            next one if a rank is opened again; see `Client.run`. The second
            recordings of all ranks belong together, like the third ones; with
            `replace`, a rank is refused if another one has replaced the run
            with a later recording. Each
            daemon chooses by itself: if ranks stream to several daemons, give
            the launch a run name of its own. If a client of this process for
            the same rank of the run is still open, `fail` raises at once and
            says where it was opened; `append` shares the stream of that client and
            its tokens, and does not use the other arguments: the stream ends
            when all its clients are closed or no longer referred to; `replace`
            closes them first;
            `new` records into another run beside it.
        job: A text that the ranks of this launch share and no other launch has,
            for `replace` and `new`. Default: MSITD_JOB; with a `world_size` of
            1, this process; what torchrun, Slurm, PMIx or MASTER_ADDR and
            MASTER_PORT say; or the parent process.

    Raises:
        ValueError: An argument is out of its range.
        MsitError: The daemon does not take the stream, or not in time. Also if
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
        if on_drop not in ("raise", "warn"):
            raise ValueError(f"on_drop {on_drop!r} is neither 'raise' nor 'warn'")
        for name, word, words in (
            ("overflow", overflow, OVERFLOW_NUMBERS),
            ("if_exists", if_exists, IF_EXISTS_NUMBERS),
        ):
            if word not in words:
                raise ValueError(f"{name} {word!r} is none of {list(words)}")
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
            self._on_drop = on_drop
            self._has_warned = False
            try:
                self._native = _msit.Client(
                    endpoint,
                    run,
                    rank,
                    world_size,
                    _microseconds(max_block),
                    buffer_bytes,
                    _microseconds(linger),
                    _microseconds(open_timeout),
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
            self._losses = Losses(self._native)
            self._not_recorded = NotRecorded(self._native)
            self._copies = DeviceCopies(
                self._native, self._not_recorded, max_block, reduce_on_device
            )
            self.stream = open_clients.SharedStream()
            self._add_to_open(endpoint, rank, world_size)
        for tell in openings.opened:
            tell(run, endpoint, self.run)

    def _share(self, other: OpenOnce, endpoint: str | None) -> None:
        """Uses the stream of another client, which has joined it for this one."""
        own = {"_finalizer", "opening", "_is_closed", "_stops", *vars(self)}
        shared = {key: value for key, value in vars(other).items() if key not in own}
        vars(self).update(shared)
        self._add_to_open(endpoint, other.opening.rank, other.opening.world_size)

    def _add_to_open(self, endpoint: str | None, rank: int, world_size: int) -> None:
        self._stops = []
        parts = (self._losses, self._native, self._copies, self._not_recorded)
        self._finalizer = weakref.finalize(
            self,
            close_forgotten,
            self.stream,
            *parts,
            _microseconds(self._close_timeout),
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
            # The error that is already on its way says more than this one.
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

        The caller may overwrite the tensor afterwards. A tensor on an
        accelerator is copied on its device, and comes to the host in the
        background.

        Args:
            tensor: A numpy array or scalar, a torch tensor, or anything with
                `__dlpack__` or the buffer protocol. Any shape of at most 32
                dimensions. Views are recorded row-major, without gaps.
            op: Name of the module, API, graph node or kernel, 1 to 1024 bytes.
            io: `input`, `output`, `weight`, `grad_input`, `grad_output`,
                `grad_weight` or `state`.
            index: Which argument: `0`, `1.0`, a keyword; at most 128 bytes.
            token: Generated token or step, 0 to 2^40 - 1. Default: the current
                one, see `next_token`.
            call: Which call of the op within the token, as `begin_call` numbers
                them. Default: records of the same device, token, op, io and
                index are counted.
            device: Where the tensor lives, such as `npu:3`. Default: the device
                of the tensor; for host memory, that of the client.
            dtype: Takes the elements as this dtype of the same size, such as
                `float8_e4m3fn` for an array of uint8. Default: the dtype of the
                tensor.
            placement: For a shard, how the whole tensor lies on the ranks:
                `first+shape/strides:placements`, such as `0+2x4/4x1:R,S(0)`;
                see `msit_tensor` in msit.h. Default: that of a DTensor, whose
                local shard is recorded.
            requires_grad: Whether the tensor requires a gradient. Default: as a
                torch tensor says; for others, it is unknown.
            stack: Where in the source the tensor comes from: a line
                `file:line function` for each frame, the innermost first. Of a
                longer text, 8192 bytes are kept.
            identity: A number below 2^64 that you give to equal bytes only, or
                0. Two tensors of this client and token that have the same
                identity, dtype, shape and device have equal bytes. The later
                one may then be recorded as an *alias* of the earlier one,
                whose bytes are neither copied nor sent. If the number is wrong,
                the daemon shows wrong bytes.

        Returns:
            False if the record was dropped or truncated: there was no room in
            time, or the daemon has refused the stream for good. True otherwise,
            also if the capture policy does not ask for the tensor. True is no
            promise: the record may still be dropped later.

        Raises:
            TypeError: `tensor` is no tensor, or its dtype has no name here.
            ValueError: An argument is out of its range.
            MsitError: The client is closed.
            RuntimeError: An accelerator failed, or is `max_block` behind. The
                record counts as dropped.
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
        """Records an argument that is no tensor.

        Numbers, strings, None, dtypes and short objects such as a slice or a
        device are kept as their repr writes them, strings as they are; numbers
        can be compared like tensors of one element. Of an object of another
        class, the name of the class is kept. 1024 bytes of a text are kept.

        Args:
            value: Anything but a tensor.
            op: See `record`, and so for all others.

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
        """Returns whether the capture policy asks for such tensors.

        `io` may be None for any side of the op.

        False means that `record` would only count them as filtered, on any
        device, so there is no use in bringing them to the host. The policy may
        change at any time. In a forked child it is always False, and what is
        not recorded for that reason is counted nowhere.
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
        """The current token: 0 at first."""
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
        """Name of the run: the one asked for, or the one that `if_exists` chose."""
        return self._native.run()

    def next_token(self) -> int:
        """Makes the following token the current one and returns it."""
        return self._native.token_number(self._advance())

    def _advance(self) -> int:
        """Makes the following token the current one. Returns a reference to it."""
        self._check_open()
        self._losses.warn_of_conflicts()
        return self._native.next_token()

    def begin_call(self, op: str, token: int | None = None) -> int:
        """Returns which call of `op` within the token begins now: 0, 1, 2, …

        Give this number to all records of the call.

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
            timeout: Longest time to wait, in seconds.
            check: Whether losses raise what is marked with * below. Default:
                as `on_drop` says.

        Returns:
            Number of records lost since the last `flush`, if it raises nothing.

        Raises:
            ValueError: `timeout` is negative.
            TimeoutError: The time ran out. Nothing is lost by that.
            DroppedError: * Records were dropped or truncated since the last
                `flush`.
            MsitError: * The daemon ended the stream for good. Or the client is
                closed, or belongs to the parent process.
        """
        self._check_open()
        return self._flush(timeout, check)

    def _flush(self, timeout: float, check: bool | None) -> int:
        left = self._copies.wait(timeout)
        self._not_recorded.tell()
        code = self._native.flush(_microseconds(max(left, min(timeout, 0))))
        if code == _msit.OK and left < 0 <= timeout:
            raise TimeoutError("a device has not done its work in time")
        if code != _msit.REFUSED or self._must_raise(check):
            raise_for(code)
        return self._tell_losses(check)

    def counters(self) -> Counters:
        """Returns what the client has done so far. It may be closed."""
        return Counters(*self._native.counters())

    def stream_error(self) -> str:
        """Returns why the stream is broken or ended; empty if all is well."""
        return self._native.stream_error()

    def close(self, timeout: float | None = None, *, check: bool | None = None) -> int:
        """Flushes and ends the stream. Closing again does nothing.

        While another client shares the stream, by `if_exists="append"`, the stream is
        flushed and stays open for that client.

        Args:
            timeout: Longest time in seconds to wait for the daemon. What is not
                acknowledged by then is dropped and counted. If everything is
                acknowledged, up to one second more goes by to end the stream in
                good order. Default: `close_timeout`.
            check: Whether losses raise what is marked with * below. Default:
                as `on_drop` says.

        Returns:
            Number of records lost since the last `flush`, if it raises nothing.

        Raises:
            ValueError: `timeout` is negative. The client stays open.
            TimeoutError: * Not everything was acknowledged in time. Unlike in
                `flush`, what was not is lost.
            DroppedError: * Records were dropped or truncated since the last
                `flush`.
            MsitError: * The daemon ended the stream for good.
        """
        if timeout is None:
            timeout = self._close_timeout
        if timeout < 0:
            raise ValueError(f"timeout {timeout} is negative")
        if self._finalizer.alive and self.stream.client_count == 1:
            timeout = max(self._copies.wait(timeout), 0)
            self._not_recorded.finish()
        is_last = self._leave_stream()
        if is_last is None:
            return 0
        if not is_last:
            try:
                return self._flush(timeout, check)
            except TimeoutError:
                if self._must_raise(check):
                    raise
                return self._tell_losses(check)
        try:
            code = self._native.close(_microseconds(timeout))
        except BaseException:
            # A signal handler has raised. The client is closed all the same.
            self._copies.stop()
            raise
        if code == _msit.FORKED:
            return 0
        self._copies.stop()
        if code not in (_msit.REFUSED, _msit.TIMEOUT) or self._must_raise(check):
            raise_for(code)
        return self._tell_losses(check)

    def _must_raise(self, check: bool | None) -> bool:
        return self._on_drop == "raise" if check is None else check

    def _tell_losses(self, check: bool | None) -> int:
        self._losses.warn_of_conflicts()
        lost = self._losses.take()
        if any(lost):
            if self._must_raise(check):
                raise DroppedError(*lost)
            if check is None:
                self._losses.warn(lost, self._native.stream_error())
        return sum(lost)

    def _is_recorded(self, code: int) -> bool:
        """Returns False for a lost record. Raises for other failures."""
        if code in (_msit.DROPPED, _msit.FORKED):
            self._warn_once()
        else:
            raise_for(code)
        return code == _msit.OK

    def _warn_once(self) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        _logger.warning(
            "records are dropped: %s (said once; see Client.counters)",
            _msit.last_error(),
        )
