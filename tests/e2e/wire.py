"""Raw gRPC: one ingest stream, and errors with their ErrorInfo."""

import queue
from collections.abc import Iterator
from dataclasses import dataclass, field

import grpc
from chunk_bytes import stream_id_of
from google.rpc import error_details_pb2, status_pb2
from msitd.v1 import ingest_service_pb2 as pb
from msitd.v1 import ingest_service_pb2_grpc as pb_grpc

TIMEOUT_S = 30


@dataclass
class Refusal:
    """How a call ended."""

    code: grpc.StatusCode
    message: str
    reason: str = ""
    metadata: dict[str, str] = field(default_factory=dict)


def refusal(error: grpc.RpcError) -> Refusal:
    """Reads code, message and ErrorInfo of a failed call."""
    out = Refusal(error.code(), error.details())
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status = status_pb2.Status.FromString(value)
            for detail in status.details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info):
                    assert info.domain == "msitd"
                    out.reason = info.reason
                    out.metadata = dict(info.metadata)
    return out


class IngestStream:
    """One stream of IngestService.WriteChunks."""

    def __init__(
        self,
        channel: grpc.Channel,
        run: str,
        rank: int = 0,
        world_size: int = 1,
        stream_id: int | None = None,
        if_exists: int = pb.IF_EXISTS_UNSPECIFIED,
    ) -> None:
        if stream_id is None:
            stream_id = stream_id_of(run, rank)
        self._requests: queue.Queue[pb.WriteChunksRequest | None] = queue.Queue()
        self._call = pb_grpc.IngestServiceStub(channel).WriteChunks(
            self._pull(), timeout=TIMEOUT_S
        )
        self.committed = 0
        self.send(
            pb.WriteChunksRequest(
                open=pb.OpenStream(
                    run=run,
                    rank=rank,
                    world_size=world_size,
                    stream_id=stream_id,
                    if_exists=if_exists,
                )
            )
        )

    def _pull(self) -> Iterator[pb.WriteChunksRequest]:
        while (request := self._requests.get()) is not None:
            yield request

    def send(self, request: pb.WriteChunksRequest) -> None:
        """Sends any message."""
        self._requests.put(request)

    def send_chunk(self, chunk: bytes) -> None:
        """Sends a chunk."""
        self.send(pb.WriteChunksRequest(chunk=chunk))

    def opened(self) -> int:
        """Waits for the response to the opening. Returns the committed count in it."""
        self.committed = next(self._call).committed_chunk_count
        return self.committed

    def wait_committed(self, count: int) -> None:
        """Waits until `count` chunks are acknowledged."""
        while self.committed < count:
            now = next(self._call).committed_chunk_count
            assert now >= self.committed
            self.committed = now

    def finish(self) -> None:
        """Half-closes the stream and waits until it ends without an error."""
        self._requests.put(None)
        for response in self._call:
            self.committed = response.committed_chunk_count

    def refused(self) -> Refusal:
        """Waits until the daemon ends the stream, and returns the status."""
        try:
            for response in self._call:
                self.committed = response.committed_chunk_count
        except grpc.RpcError as error:
            self._requests.put(None)
            return refusal(error)
        raise AssertionError("the stream ended well")

    def cut(self) -> None:
        """Breaks the connection, like a client that dies."""
        self._call.cancel()
        self._requests.put(None)


def write(channel: grpc.Channel, run: str, chunks: list[bytes], **opening: int) -> None:
    """Writes chunks in one stream and waits until all are acknowledged."""
    stream = IngestStream(channel, run, **opening)
    stream.opened()
    for chunk in chunks:
        stream.send_chunk(chunk)
    stream.wait_committed(len(chunks))
    stream.finish()
