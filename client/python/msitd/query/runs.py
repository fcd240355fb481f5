"""Runs, which are named captures of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, cast

from msitd.query.connection import Caller
from msitd.query.listing import Listing
from msitd.query.messages import from_message, new
from msitd.query.origin_types import FoundOrigins
from msitd.query.resuming import check_whole, read_to_the_end, take
from msitd.query.types import Attachment, Retention, Run

# The same as in protos/base/attachment_limits.h.
_PIECE_BYTES = 1 << 20


class Runs:
    """The operations of `msitctl run`. Every method may raise QueryError."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self, *, limit: int | None = None) -> Listing[Run]:
        """Lists runs by name.

        Args:
            limit: Maximum number of runs; None: all.
        """
        return Listing(self._caller, "RunService/ListRuns", "runs", Run, {}, limit)

    def get(self, run: str) -> Run:
        """Returns one run. Raises QueryError `NOT_FOUND` if no run has that name."""
        return self._call("GetRun", new("GetRunRequest", run=run))

    def create(
        self,
        run: str,
        *,
        world_size: int = 0,
        labels: Mapping[str, str] | None = None,
    ) -> Run:
        """Creates an empty run, so that it has labels before it receives tensors.

        Args:
            run: Name, 1 to 128 bytes of UTF-8.
            world_size: Number of ranks of the job; 0: the number that the first
                producer reports.
            labels: Labels to store with the run, at most 64.

        Raises:
            QueryError: `ALREADY_EXISTS` or `INVALID_ARGUMENT`.
        """
        made = new("Run", name=run, world_size=world_size, labels=labels or {})
        return self._call("CreateRun", new("CreateRunRequest", run=made))

    def seal(self, run: str) -> Run:
        """Ends the capture of a run. It then accepts no more tensors."""
        return self._call("SealRun", new("SealRunRequest", run=run))

    def retain(
        self,
        run: str,
        *,
        size_bytes_max: int | None = None,
        age_max: timedelta | None = None,
        token_count: int | None = None,
        pinned: bool | None = None,
    ) -> Run:
        """Sets how much of a run is kept. Arguments that are None change nothing.

        Args:
            run: Name of the run.
            size_bytes_max: Maximum number of tensor bytes to keep; 0: the limit
                of the daemon.
            age_max: Maximum age of the bytes; zero: the limit of the daemon.
            token_count: Number of tokens to keep, counted from the highest; 0:
                the limit of the daemon.
            pinned: True keeps all bytes, regardless of the limits.
        """
        retention = Retention(pinned, size_bytes_max, age_max, token_count)
        request = new("SetRunRetentionRequest", run=run, retention=retention)
        return self._call("SetRunRetention", request)

    def origin(
        self, run: str, *, where: str = "", strict: bool = False
    ) -> FoundOrigins:
        """Finds where NaN, infinities or another condition began in a run.

        Args:
            run: Name of the run.
            where: Condition on the summary of a tensor, as in `tensors.find`.
                Without it, `nan_count > 0 or inf_count > 0`.
            strict: Whether tensors whose NaN or infinities are expected count,
                such as attention masks.

        Raises:
            QueryError: `NOT_FOUND` or `INVALID_ARGUMENT`.
        """
        request = new("FindOriginRequest", run=run, where=where, strict=strict)
        answer = self._caller.unary(
            "TensorService/FindOrigin", request, "FindOriginResponse"
        )
        return cast(FoundOrigins, from_message(answer))

    def delete(self, run: str) -> None:
        """Removes a run with its tensors and their bytes, without confirmation."""
        request = new("DeleteRunRequest", run=run)
        self._caller.unary("RunService/DeleteRun", request, "google.protobuf.Empty")

    def attachments(self, run: str, *, limit: int | None = None) -> Listing[Attachment]:
        """Lists the attachments of a run by name.

        Args:
            run: Name of the run.
            limit: Maximum number of attachments; None: all.
        """
        return Listing(
            self._caller,
            "AttachmentService/ListAttachments",
            "attachments",
            Attachment,
            {"run": run},
            limit,
        )

    def attachment(self, run: str, name: str) -> Attachment:
        """Returns the metadata of one attachment.

        Raises `NOT_FOUND` if it does not exist.
        """
        request = new("GetAttachmentRequest", run=run, name=name)
        answer = self._caller.unary(
            "AttachmentService/GetAttachment", request, "Attachment"
        )
        return cast(Attachment, from_message(answer))

    def attach(
        self,
        run: str,
        name: str,
        data: bytes,
        *,
        media_type: str = "application/octet-stream",
        replace: bool = False,
    ) -> Attachment:
        """Stores bytes as an attachment of a run, atomically.

        Args:
            run: Name of the run, which may be sealed.
            name: Name of the attachment, 1 to 128 bytes of UTF-8.
            data: At most 64 MiB.
            media_type: Media type of the bytes, such as `application/json`.
            replace: Whether to replace an existing attachment of that name.

        Raises:
            QueryError: `ALREADY_EXISTS`; `RESOURCE_EXHAUSTED` if the attachment
                is too large, or the run or the daemon has too many.
        """
        opening = new(
            "WriteAttachmentRequest.Open",
            run=run,
            name=name,
            media_type=media_type,
            size_bytes=len(data),
            replace=replace,
        )
        answer = self._caller.upload(
            "AttachmentService/WriteAttachment", _pieces(opening, data), "Attachment"
        )
        return cast(Attachment, from_message(answer))

    def read_attachment(self, run: str, name: str) -> bytes:
        """Reads all bytes of an attachment. Raises `NOT_FOUND` if it does not exist."""
        data = bytearray()
        request = new("ReadAttachmentRequest", run=run, name=name)
        deadline = self._caller.stream_deadline()
        size = 0

        def read() -> None:
            nonlocal size
            request.offset_bytes = len(data)
            for piece in self._caller.stream(
                "AttachmentService/ReadAttachment",
                request,
                "ReadAttachmentResponse",
                deadline,
            ):
                if piece.HasField("attachment"):
                    size = piece.attachment.size_bytes
                    # The rest must be read from the same version of the
                    # attachment.
                    request.hash = piece.attachment.hash
                take(data, piece.offset_bytes, piece.data, size)
            check_whole(data, size)

        read_to_the_end(data, read)
        return bytes(data)

    def detach(self, run: str, name: str) -> None:
        """Removes an attachment, without confirmation."""
        request = new("DeleteAttachmentRequest", run=run, name=name)
        self._caller.unary(
            "AttachmentService/DeleteAttachment", request, "google.protobuf.Empty"
        )

    def _call(self, method: str, request: object) -> Run:
        answer = self._caller.unary(f"RunService/{method}", request, "Run")
        return cast(Run, from_message(answer))


def _pieces(opening: Any, data: bytes) -> Iterator[Any]:
    """Yields the messages that write an attachment."""
    yield new("WriteAttachmentRequest", open=opening)
    for at in range(0, len(data), _PIECE_BYTES):
        yield new("WriteAttachmentRequest", data=data[at : at + _PIECE_BYTES])
    yield new("WriteAttachmentRequest", commit=new("WriteAttachmentRequest.Commit"))
