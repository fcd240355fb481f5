"""A rank that rewrites its shared memory once the daemon has hashed it."""

import re
import subprocess
import threading

from chunk_bytes import Chunk, Record
from shm_client import ShmProducer
from wire import write

from daemon import BIN_DIR, Daemon

STREAM = 0x1234
UINT8 = 6
PAYLOAD_BYTES = 2 << 20
CHUNKS = 40
MARK = b"0123456789abcdef" * 4
PROBLEMS_EXIT = 1


def lie(daemon: Daemon) -> None:
    """Publishes chunks and rewrites their payload until they are committed."""
    producer = ShmProducer(daemon.socket_dir, "liar", 3, STREAM)
    done = threading.Event()

    def rewrite() -> None:
        n = 0
        while not done.is_set():
            n = (n + 1) % 256
            for at in range(65536, PAYLOAD_BYTES, 65536):
                producer.arena[at] = n

    thread = threading.Thread(target=rewrite)
    thread.start()
    try:
        for i in range(CHUNKS):
            record = Record(
                "op", bytes(PAYLOAD_BYTES), [PAYLOAD_BYTES], dtype=UINT8, token=i
            )
            chunk = Chunk("liar", [record], rank=3, stream_id=STREAM, sequence=i)
            producer.publish(chunk.pack(), 0)
            producer.wait_committed(i + 1)
    finally:
        done.set()
        thread.join()
    producer.finish()
    producer.wait_end()
    producer.close()


def verify(daemon: Daemon) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [BIN_DIR / "msitd-inspect", "--data-dir", str(daemon.data_dir), "verify"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_verify_tells_a_liar_from_bit_rot(daemon: Daemon) -> None:
    record = Record("op", MARK, [len(MARK)], dtype=UINT8)
    write(daemon.channel(), "honest", [Chunk("honest", [record]).pack()])
    lie(daemon)
    assert daemon.stop() == 0
    result = verify(daemon)
    assert result.returncode == PROBLEMS_EXIT, result.stdout
    assert "memory shared with rank 3 of run liar" in result.stdout
    assert "bit rot" not in result.stdout
    assert re.search(r"stream run=liar rank=3 .* memory=shared", result.stdout)
    daemon.spoil(MARK)
    result = verify(daemon)
    (line,) = [x for x in result.stdout.splitlines() if "bit rot" in x]
    assert "op op of token 0" in line
    assert " bit_rot=1 " in result.stdout
