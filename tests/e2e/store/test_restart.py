"""Acknowledged data survives the end of the daemon, however it ends."""

import random
import threading

import grpc
from chunk_bytes import Chunk, Record, float32
from msitd.v1 import tensor_service_pb2
from msitd.v1 import tensor_service_pb2_grpc as tensors_grpc
from names import tensor_name
from wire import IngestStream, write

from daemon import Daemon

KILLS = 6
SEED = 20260821


def sample(run: str, sequence: int, value: float) -> bytes:
    record = Record(f"op.{sequence}", float32(value, 1), [2], sequence=sequence)
    return Chunk(run, [record], sequence=sequence).pack()


def test_sigterm_ends_with_status_0_and_keeps_everything(daemon: Daemon) -> None:
    write(daemon.channel(), "a", [sample("a", i, i) for i in range(20)])
    write(daemon.channel(), "b", [sample("b", i, i + (i == 7)) for i in range(20)])
    daemon.ctl("run", "seal", "a")
    daemon.ctl("compare", "run", "a", "b", expect=1)
    commands = [
        ("run", "list"),
        ("tensor", "list", "--run", "a"),
        ("tensor", "stats", "--run", "b", "--by", "op"),
        ("compare", "list"),
        ("compare", "rows", "c-000001"),
    ]
    before = [daemon.ctl_json(*command) for command in commands]
    assert daemon.stop() == 0
    daemon.start()
    assert [daemon.ctl_json(*command) for command in commands] == before
    status = daemon.ctl_json("node", "status")
    # After a clean stop, nothing must be recovered.
    assert int(status.get("recovered_frame_count", 0)) == 0


def test_sigterm_ends_open_streams_after_their_acknowledgements(
    daemon: Daemon,
) -> None:
    stream = IngestStream(daemon.channel(), "r")
    stream.opened()
    for i in range(10):
        stream.send_chunk(sample("r", i, i))
    stream.wait_committed(10)
    assert daemon.process is not None
    daemon.process.terminate()
    assert stream.refused().code == grpc.StatusCode.UNAVAILABLE
    assert daemon.process.wait(40) == 0
    daemon.process = None
    daemon.start()
    again = IngestStream(daemon.channel(), "r")
    assert again.opened() == 10
    again.finish()


class Producer(threading.Thread):
    """Streams chunks of random bytes until the daemon dies.

    It logs what was sent, and how much was acknowledged.
    """

    def __init__(
        self, channel: grpc.Channel, rng: random.Random, payloads: list[bytes]
    ):
        super().__init__()
        self._channel = channel
        self._rng = rng
        self.payloads = payloads
        self.committed = 0
        self.resumed_at = -1
        self.started = threading.Event()

    def run(self) -> None:
        stream = IngestStream(self._channel, "crash", stream_id=42)
        try:
            self.resumed_at = stream.opened()
            self.committed = stream.committed
            at = self.resumed_at
            while True:
                for _ in range(4):
                    while len(self.payloads) <= at:
                        size = 4 * self._rng.randint(0, 30_000)
                        self.payloads.append(self._rng.randbytes(size))
                    stream.send_chunk(self._chunk(at))
                    at += 1
                stream.wait_committed(at - 3)
                self.committed = stream.committed
                self.started.set()
        except grpc.RpcError:
            stream.cut()
        finally:
            self.committed = stream.committed
            self.started.set()

    def _chunk(self, at: int) -> bytes:
        data = self.payloads[at]
        record = Record("op", data, [len(data) // 4], token=at, sequence=at)
        return Chunk("crash", [record], stream_id=42, sequence=at).pack()


def test_kill_loses_nothing_that_was_acknowledged(new_daemon) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    daemon = new_daemon()
    payloads: list[bytes] = []
    acknowledged = 0
    for round_number in range(KILLS):
        daemon.start()
        producer = Producer(daemon.channel(), rng, payloads)
        producer.start()
        assert producer.started.wait(30)
        producer.join(rng.random() * 0.3)
        daemon.kill()
        producer.join(30)
        assert not producer.is_alive()
        assert producer.resumed_at >= acknowledged, f"round {round_number}"
        assert producer.committed >= acknowledged
        acknowledged = producer.committed
    daemon.start()
    stub = tensors_grpc.TensorServiceStub(daemon.channel())
    for token in range(acknowledged):
        request = tensor_service_pb2.ReadTensorRequest(
            name=tensor_name("crash", "op", token=token)
        )
        data = b"".join(piece.data for piece in stub.ReadTensor(request, timeout=30))
        assert data == payloads[token], f"token {token} of {acknowledged}"
    assert acknowledged > KILLS
    # Records in flight may exist or not, but are never partial.
    listed = daemon.ctl_json("tensor", "list", "--run", "crash", "--limit", "0")
    for tensor in listed["tensors"]:
        assert int(tensor.get("size_bytes", 0)) == len(
            payloads[int(tensor.get("token", 0))]
        )
    assert len(listed["tensors"]) >= acknowledged
    assert daemon.stop() == 0
