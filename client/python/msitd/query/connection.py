"""The connection to one daemon: its address, its credentials, and calls with
deadlines.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, SupportsFloat

from msitd._core.endpoints import Choice, choose_endpoint
from msitd._core.errors import MsitError
from msitd._core.personal import START_MAX_S, ensure_personal_daemon
from msitd.query import arguments
from msitd.query.errors import QueryError
from msitd.query.messages import message_class, missing

# The same as in client/ask/query, like the constants below.
DEFAULT_ADDRESS = "127.0.0.1:7741"
UNARY_TIMEOUT_S = 60.0
STREAM_TIMEOUT_S = 24 * 3600.0
CONNECT_TIMEOUT_S = 5.0

# Large enough for a page of 1000 rows with the longest names.
_MESSAGE_BYTES_MAX = 64 << 20
_SOCKET_PATH_BYTES_MAX = 107
_RECONNECT_MS_MAX = 1000

# Metadata key that carries the details of a status.
_DETAILS_KEY = "grpc-status-details-bin"
# The same as in protos/base/daemon_id.h.
_DAEMON_ID_KEY = "msitd-daemon-id"

_HOST_PORT = re.compile(r"(\[[^\[\]]+\]|[^:/\[\]]+):(\d{1,5})")


def target_of(endpoint: str) -> str:
    """Checks an endpoint and returns the target for a gRPC channel.

    Args:
        endpoint: `unix:PATH`, `HOST:PORT` or `[V6]:PORT`.

    Raises:
        ValueError: The endpoint has none of these forms.
    """
    if endpoint.startswith("unix:"):
        path = endpoint.removeprefix("unix:")
        if not path or len(os.fsencode(path)) > _SOCKET_PATH_BYTES_MAX:
            raise ValueError(
                f"endpoint {endpoint!r}: a path has 1 to {_SOCKET_PATH_BYTES_MAX} bytes"
            )
        return endpoint
    match = _HOST_PORT.fullmatch(endpoint)
    if match is None or not 1 <= int(match[2]) <= 65535:
        raise ValueError(f"endpoint {endpoint!r} is neither HOST:PORT nor unix:PATH")
    return f"dns:///{endpoint}"


class Settings:
    """How to reach a daemon: from arguments, or from the environment variables
    of msitctl.
    """

    def __init__(
        self,
        endpoint: str | None,
        tls: bool | None,
        ca_file: str | None,
        cert_file: str | None,
        key_file: str | None,
        tls_host: str = "",
    ) -> None:
        """`tls_host` is the host name in the certificate, for endpoints that
        are addresses.

        `problem` is why this user has no daemon, and `personal` is set if the
        daemon is that of the user.
        """
        self.tls_host = tls_host
        self.ca_file = ca_file or os.environ.get("MSITCTL_CA_FILE", "")
        self.cert_file = cert_file or os.environ.get("MSITCTL_CERT_FILE", "")
        self.key_file = key_file or os.environ.get("MSITCTL_KEY_FILE", "")
        if tls is None:
            wants = os.environ.get("MSITCTL_TLS", "").lower()
            tls = wants not in ("", "0", "false", "off", "no")
            tls = tls or bool(self.ca_file or self.cert_file)
        elif not tls and (ca_file or cert_file):
            raise ValueError("tls=False goes with neither ca_file nor cert_file")
        self.tls = tls
        if tls and bool(self.cert_file) != bool(self.key_file):
            raise ValueError("cert_file and key_file go together")
        choice = choose_endpoint(endpoint)
        self.problem = ""
        self.personal: Choice | None = None
        if choice.is_default and tls:
            self.endpoint = DEFAULT_ADDRESS
        else:
            self.problem = choice.problem
            self.endpoint = choice.for_queries
            if choice.origin == "personal":
                self.personal = choice
        self.target = target_of(self.endpoint)
        if tls and self.endpoint.startswith("unix:"):
            raise ValueError(f"TLS does not go with {self.endpoint}: a socket has none")

    def channel(self, grpc: Any, connect_timeout: float) -> Any:
        """Creates the channel. Raises OSError for a file that cannot be read."""
        connect_ms = max(int(connect_timeout * 1000), 1)
        options: list[tuple[str, int | str]] = [
            ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
            # A daemon is reached directly, never through a web proxy.
            ("grpc.enable_http_proxy", 0),
            # Bounds the time of one connection attempt, despite its name.
            ("grpc.min_reconnect_backoff_ms", connect_ms),
            ("grpc.dns_ares_query_timeout", connect_ms),
            # Retries early, so that a daemon that was just started is found at
            # once.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", _RECONNECT_MS_MAX),
        ]
        if self.tls_host:
            options.append(("grpc.ssl_target_name_override", self.tls_host))
        if not self.tls:
            return grpc.insecure_channel(self.target, options=options)
        files = (self.ca_file, self.key_file, self.cert_file)
        pems = [Path(file).read_bytes() if file else None for file in files]
        credentials = grpc.ssl_channel_credentials(*pems)
        return grpc.secure_channel(self.target, credentials, options=options)


class Caller:
    """Makes the calls to one daemon; connects on the first call. Thread-safe."""

    def __init__(
        self,
        settings: Settings,
        timeout: float | None,
        connect_timeout: float | None,
    ) -> None:
        try:
            import grpc
        except ImportError as error:
            raise missing("grpcio") from error
        # Raises at once if the installation is incomplete.
        self._status_class = message_class("google.rpc.Status")
        self._info_class = message_class("google.rpc.ErrorInfo")
        self._grpc = grpc
        self.settings = settings
        self._endpoint = settings.endpoint
        self._problem = settings.problem
        self._personal = settings.personal
        self._timeout = timeout
        self._channel = settings.channel(
            grpc, CONNECT_TIMEOUT_S if connect_timeout is None else connect_timeout
        )
        # True once the daemon has answered any call. Affects only the wording
        # of errors.
        self._was_reached = False
        self.daemon_id = ""
        """The last id that the daemon reported: a random string that changes
        with each start.
        """
        self._is_closed = False

    def close(self) -> None:
        """Ends all calls. Further calls of `close` have no effect."""
        self._is_closed = True
        self._channel.close()

    def stream_deadline(self) -> float:
        """Returns the deadline, in time.monotonic(), of a wait or stream that
        starts now.
        """
        return time.monotonic() + (
            STREAM_TIMEOUT_S if self._timeout is None else self._timeout
        )

    def unary(self, method: str, request: Any, response: str) -> Any:
        """Makes one call, within the timeout.

        Args:
            method: `Service/Method` of msitd.v1.
            request: The request message.
            response: Name of the response message, either within msitd.v1 or in
                full.

        Raises:
            QueryError: The daemon refuses the call, or does not answer in time.
        """
        call = self._callable("unary_unary", method, response)
        return self._one_answer(call, request, UNARY_TIMEOUT_S)

    def stream(
        self, method: str, request: Any, response: str, deadline: float
    ) -> Iterator[Any]:
        """Makes a call that returns a stream of messages; see `unary`.

        A caller that stops reading cancels the call.
        """
        start = self._callable("unary_stream", method, response)
        call = start(request, timeout=max(deadline - time.monotonic(), 0.001))
        try:
            for number, answer in enumerate(call):
                if number == 0:
                    self._was_reached = True
                    self._note_daemon(call)
                yield answer
        except self._grpc.RpcError as error:
            raise self._query_error(error) from None
        finally:
            call.cancel()

    def upload(self, method: str, requests: Iterator[Any], response: str) -> Any:
        """Makes a call that sends a stream of messages; see `unary`."""
        call = self._callable("stream_unary", method, response)
        return self._one_answer(call, requests, STREAM_TIMEOUT_S)

    def _callable(self, shape: str, method: str, response: str) -> Any:
        """Returns gRPC's callable for a method.

        `shape` is the name of the channel method that creates it.
        """
        self._check_open()
        self._ensure_daemon()
        return getattr(self._channel, shape)(
            f"/msitd.v1.{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=_class_of(response).FromString,
        )

    def _one_answer(self, call: Any, sent: Any, default_timeout_s: float) -> Any:
        timeout = default_timeout_s if self._timeout is None else self._timeout
        try:
            answer, made = call.with_call(sent, timeout=timeout)
        except self._grpc.RpcError as error:
            raise self._query_error(error) from None
        self._was_reached = True
        self._note_daemon(made)
        return answer

    def _note_daemon(self, made: Any) -> None:
        """Stores the daemon's id from the metadata of an answered call."""
        for key, value in made.initial_metadata() or ():
            if key == _DAEMON_ID_KEY:
                self.daemon_id = str(value)

    def _check_open(self) -> None:
        if self._is_closed:
            raise QueryError("CANCELLED", "", "the connection is closed")

    def _ensure_daemon(self) -> None:
        """Starts the daemon of the user, which may have ended since the last call."""
        if self._problem:
            raise QueryError("UNAVAILABLE", "", self._problem)
        if self._personal is not None:
            limit = START_MAX_S if self._timeout is None else self._timeout
            try:
                ensure_personal_daemon(self._personal, limit)
            except MsitError as error:
                raise QueryError("UNAVAILABLE", "", str(error)) from None

    def _query_error(self, error: Any) -> QueryError:
        code = error.code().name
        reason = self._reason_of(error)
        message = error.details() or ""
        if code != "UNAVAILABLE" or reason:
            self._was_reached = True
        elif not self._was_reached:
            message = f"cannot reach {self._endpoint}: {message}"
        return QueryError(code, reason, message)

    def _reason_of(self, error: Any) -> str:
        """Returns the reason in the error details; empty if a daemon did not
        send them.
        """
        from google.protobuf.message import DecodeError

        for key, value in error.trailing_metadata() or ():
            if key != _DETAILS_KEY:
                continue
            try:
                for detail in self._status_class.FromString(value).details:
                    info = self._info_class()
                    if detail.Unpack(info):
                        return str(info.reason)
            except DecodeError:
                return ""
        return ""


def _class_of(name: str) -> Any:
    return message_class(name if "." in name else f"msitd.v1.{name}")


def seconds_of(timeout: float | timedelta | None) -> float | None:
    """Returns a time limit in seconds.

    Raises:
        TypeError: The limit is not a number or a timedelta.
        ValueError: The limit is not positive.
    """
    if isinstance(timeout, timedelta):
        timeout = timeout.total_seconds()
    if timeout is not None and (
        isinstance(timeout, (str, bool)) or not isinstance(timeout, SupportsFloat)
    ):
        raise TypeError(f"timeout: expected seconds, got {arguments.named(timeout)}")
    if timeout is not None and not timeout > 0:
        raise ValueError(f"a timeout of {timeout!r} is not above zero")
    return timeout
