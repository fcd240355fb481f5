"""Runs: named captures of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, cast

from msitd.query.connection import Caller
from msitd.query.listing import Listing
from msitd.query.messages import from_message, new
from msitd.query.resuming import check_whole, read_to_the_end, take
from msitd.query.types import Attachment, Retention, Run

# As in protos/base/attachment_limits.h.
_PIECE_BYTES = 1 << 20


class Runs:
    """What `msitctl run` does. Every method may raise QueryError."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self, *, limit: int | None = None) -> Listing[Run]:
        """Lists runs in the order of their names.

        Args:
            limit: Most runs; None: all.
        """
        return Listing(self._caller, "RunService/ListRuns", "runs", Run, {}, limit)

    def get(self, run: str) -> Run:
        """Returns one run. QueryError `NOT_FOUND` if there is none of that name."""
        return self._call("GetRun", new("GetRunRequest", run=run))

    def create(
        self,
        run: str,
        *,
        world_size: int = 0,
        labels: Mapping[str, str] | None = None,
    ) -> Run:
        """Makes an empty run, so that it has labels before it gets tensors.

        Args:
            run: Name, 1 to 128 bytes of UTF-8.
            world_size: Number of ranks of the job; 0: what the first producer
                says.
            labels: Any texts to keep with the run, at most 64.

        Raises:
            QueryError: `ALREADY_EXISTS`, or `INVALID_ARGUMENT`.
        """
        made = new("Run", name=run, world_size=world_size, labels=labels or {})
        return self._call("CreateRun", new("CreateRunRequest", run=made))

    def seal(self, run: str) -> Run:
        """Ends the capture of a run: it takes no more tensors."""
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
        """Sets how much of a run is kept. Arguments that are None leave it as it is.

        Args:
            run: Name of the run.
            size_bytes_max: Most bytes of tensors to keep; 0: the limit of the
                daemon.
            age_max: How long bytes are kept; zero: the limit of the daemon.
            token_count: How many tokens to keep, from the highest down; 0: the
                limit of the daemon.
            pinned: True keeps all bytes, whatever the limits.
        """
        retention = Retention(pinned, size_bytes_max, age_max, token_count)
        request = new("SetRunRetentionRequest", run=run, retention=retention)
        return self._call("SetRunRetention", request)

    def delete(self, run: str) -> None:
        """Removes a run with its tensors and their bytes, without asking."""
        request = new("DeleteRunRequest", run=run)
        self._caller.unary("RunService/DeleteRun", request, "google.protobuf.Empty")

    def attachments(self, run: str, *, limit: int | None = None) -> Listing[Attachment]:
        """Lists what is kept with a run, in the order of names.

        Args:
            run: Name of the run.
            limit: Most attachments; None: all.
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
        """Returns what is known of one attachment; `NOT_FOUND` if there is none."""
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
        """Keeps bytes with a run; they are there whole or not at all.

        Args:
            run: Name of the run; it may be sealed.
            name: Of the attachment, 1 to 128 bytes of UTF-8.
            data: At most 64 MiB.
            media_type: What they are, such as `application/json`.
            replace: One of that name goes, if there is one.

        Raises:
            QueryError: `ALREADY_EXISTS`; `RESOURCE_EXHAUSTED` if it is too large,
                or the run or the daemon has too many.
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
        """Reads all bytes of an attachment; `NOT_FOUND` if there is none."""
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
                    # What is read on must be of the same bytes.
                    request.hash = piece.attachment.hash
                take(data, piece.offset_bytes, piece.data, size)
            check_whole(data, size)

        read_to_the_end(data, read)
        return bytes(data)

    def detach(self, run: str, name: str) -> None:
        """Removes an attachment. Asks nobody."""
        request = new("DeleteAttachmentRequest", run=run, name=name)
        self._caller.unary(
            "AttachmentService/DeleteAttachment", request, "google.protobuf.Empty"
        )

    def _call(self, method: str, request: object) -> Run:
        answer = self._caller.unary(f"RunService/{method}", request, "Run")
        return cast(Run, from_message(answer))


def _pieces(opening: Any, data: bytes) -> Iterator[Any]:
    """The messages that write an attachment."""
    yield new("WriteAttachmentRequest", open=opening)
    for at in range(0, len(data), _PIECE_BYTES):
        yield new("WriteAttachmentRequest", data=data[at : at + _PIECE_BYTES])
    yield new("WriteAttachmentRequest", commit=new("WriteAttachmentRequest.Commit"))
