"""Ranks that share memory with the real daemon, and failures of both."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import msitd
import numpy as np
import pytest
from chunk_bytes import Chunk, Record, float32
from names import tensor_name
from shm_client import ARENA_BYTES, ENTRIES_AT, TABLE_BYTES, ShmProducer

from daemon import BIN_DIR, Daemon

SEED = 20261121
KILLS = 5


def read_raw(daemon: Daemon, name: str) -> bytes:
    args = ("tensor", "read", name, "--out", "-", "--format", "raw")
    return daemon.ctl(*args, binary=True).stdout


def tensor_count(daemon: Daemon, run: str) -> int:
    return int(daemon.ctl_json("run", "get", run)["counters"].get("tensor_count", 0))


def duplicate_count(daemon: Daemon) -> int:
    return int(daemon.ctl_json("node", "status").get("duplicate_count", 0))


def shares_memory(pid: int | str = "self") -> bool:
    with open(f"/proc/{pid}/maps") as maps:
        return "msitd-arena" in maps.read()


def inspect(daemon: Daemon, *args: str) -> str:
    return subprocess.run(
        [BIN_DIR / "msitd-inspect", "--data-dir", daemon.data_dir, *args],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


def rank_process(daemon: Daemon, program: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "MSITD_ENDPOINT": str(daemon.socket_dir)},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("form", ["{}", "unix:{}", "unix:{}/msitd.sock"])
def test_local_endpoints_share_memory(daemon: Daemon, form: str) -> None:
    endpoint = form.format(daemon.socket_dir)
    with msitd.Client("r", endpoint=endpoint) as client:
        assert shares_memory()
        assert client.record(np.arange(9, dtype=np.float32), op="op")
    del client
    assert not shares_memory()
    data = np.arange(9, dtype=np.float32).tobytes()
    assert read_raw(daemon, tensor_name("r", "op")) == data
    assert "transport=shm" in daemon.log()


def test_daemon_that_shares_no_memory_takes_grpc(new_daemon) -> None:
    daemon = new_daemon()
    daemon.start()
    assert (daemon.socket_dir / "ingest.sock").exists()
    daemon.kill()
    # The socket of the killed daemon must not mislead clients.
    daemon.start("--shared-memory", "false")
    assert not (daemon.socket_dir / "ingest.sock").exists()
    with msitd.Client("r", endpoint=str(daemon.socket_dir)) as client:
        assert not shares_memory()
        assert client.record(np.zeros(3), op="op")
    assert tensor_count(daemon, "r") == 1


def test_buffered_disk_takes_the_same_bytes(new_daemon) -> None:
    daemon = new_daemon()
    daemon.start("--direct-io", "false")
    big = np.random.default_rng(SEED).standard_normal(3 << 20, dtype=np.float32)
    with msitd.Client("r", endpoint=str(daemon.socket_dir)) as client:
        assert client.record(big, op="big")
        client.record(big[:7], op="small")
    assert read_raw(daemon, tensor_name("r", "big")) == big.tobytes()
    assert read_raw(daemon, tensor_name("r", "small")) == big[:7].tobytes()


def test_killed_daemon_gets_every_chunk_once(new_daemon) -> None:
    """Kills the daemon at random moments while two threads record."""
    daemon = new_daemon()
    daemon.start()
    rng = random.Random(SEED)
    count = 150

    def tensor(thread: int, i: int) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
        return np.full(60_000, thread * 1000 + i, np.int32)

    def record(client: msitd.Client, thread: int) -> None:
        for i in range(count):
            assert client.record(tensor(thread, i), op=f"{thread}.{i}")
            time.sleep(0.005)

    endpoint = str(daemon.socket_dir)
    with msitd.Client("r", endpoint=endpoint, max_block=60) as client:
        threads = [
            threading.Thread(target=record, args=(client, thread)) for thread in (0, 1)
        ]
        for thread in threads:
            thread.start()
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.02, 0.15))
            daemon.kill()
            daemon.start()
        for thread in threads:
            thread.join(60)
        client.flush(60)
        counters = client.counters()
    assert counters.acknowledged_count == 2 * count
    assert counters.dropped_count == 0
    assert counters.reconnect_count >= 1
    assert tensor_count(daemon, "r") == 2 * count
    assert duplicate_count(daemon) == 0
    for thread in (0, 1):
        for i in range(0, count, 7):
            data = read_raw(daemon, tensor_name("r", f"{thread}.{i}"))
            assert data == tensor(thread, i).tobytes(), (thread, i)
    assert daemon.stop() == 0
    verified = inspect(daemon, "verify")
    assert f" records={2 * count} " in verified, verified
    assert f" entries={2 * count} " in verified, verified


def test_what_a_killed_rank_published_is_stored(daemon: Daemon) -> None:
    program = (
        "import msitd, numpy as np, time\n"
        "client = msitd.Client('killed')\n"
        "for i in range(40):\n"
        "    client.record(np.full(300_000, i, np.int32), op=f'op.{i}')\n"
        "client.flush()\n"
        "print('flushed', flush=True)\n"
        "for i in range(40, 10_000):\n"
        "    client.record(np.full(300_000, i, np.int32), op=f'op.{i}')\n"
    )
    rank = rank_process(daemon, program)
    assert rank.stdout is not None
    assert rank.stdout.readline() == "flushed\n"
    assert shares_memory(rank.pid)
    time.sleep(0.05)
    rank.kill()
    rank.wait(60)
    # The rank may reconnect at once, because its memory and its slot were
    # released.
    with msitd.Client(
        "killed", endpoint=str(daemon.socket_dir), if_exists="append"
    ) as client:
        client.record(np.zeros(1), op="after")
    listed = daemon.ctl_json("tensor", "list", "--run", "killed", "--limit", "0")
    ops = {t["op"] for t in listed["tensors"]}
    assert {f"op.{i}" for i in range(40)} < ops
    for op in sorted(ops - {"after"})[::9]:
        expected = np.full(300_000, int(op[3:]), np.int32).tobytes()
        assert read_raw(daemon, tensor_name("killed", op)) == expected
    assert daemon.process is not None
    deadline = time.monotonic() + 30
    while shares_memory(daemon.process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_stopped_daemon_costs_a_rank_its_deadline_once(daemon: Daemon) -> None:
    assert daemon.process is not None
    big = np.zeros(1 << 20, np.float32)
    client = msitd.Client(
        "r", endpoint=str(daemon.socket_dir), max_block=0.2, buffer_bytes=20 << 20
    )
    assert client.record(big, op="before")
    client.flush()
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        start = time.monotonic()
        taken = sum(client.record(big, op=f"op.{i}") for i in range(200))
        assert time.monotonic() - start < 10
        assert 1 <= taken < 10
        counters = client.counters()
        assert counters.dropped_count == 200 - taken
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert client.flush(60, check=False) == 200 - taken
    client.close()
    assert client.counters().acknowledged_count == taken + 1
    run = daemon.ctl_json("run", "get", "r")
    assert int(run["counters"]["tensor_count"]) == taken + 1
    assert int(run["counters"]["dropped_count"]) == 200 - taken
    ranks = daemon.ctl_json("capture", "coverage", "r")["ranks"]
    assert int(ranks[0]["asked_count"]) == 201
    assert int(ranks[0]["stored_count"]) == taken + 1
    assert int(ranks[0]["dropped_count"]) == 200 - taken


def test_stopped_rank_holds_nobody_up(daemon: Daemon) -> None:
    program = (
        "import msitd, numpy as np\n"
        "client = msitd.Client('r', rank=0, world_size=2)\n"
        "client.record(np.zeros(1000), op='op')\n"
        "client.flush()\n"
        "print('flushed', flush=True)\n"
        "while client.record(np.zeros(100_000), op='op'): pass\n"
    )
    rank = rank_process(daemon, program)
    assert rank.stdout is not None
    assert rank.stdout.readline() == "flushed\n"
    rank.send_signal(signal.SIGSTOP)
    try:
        endpoint = str(daemon.socket_dir)
        with msitd.Client("r", 1, 2, endpoint=endpoint) as client:
            for i in range(50):
                assert client.record(np.full(10_000, i), op=f"op.{i}")
            client.flush()
        assert client.counters().acknowledged_count == 50
    finally:
        rank.kill()
        rank.wait(60)


def chunk(run: str, sequence: int, rank: int = 0) -> bytes:
    record = Record(f"op.{sequence}", float32(sequence, 1), [2], sequence=sequence)
    return Chunk(run, [record], sequence=sequence, rank=rank, stream_id=STREAM).pack()


STREAM = 0x1234


def test_producer_that_knows_the_documents_only(daemon: Daemon) -> None:
    producer = ShmProducer(daemon.socket_dir, "r", 0, STREAM)
    for i in range(20):
        producer.publish(chunk("r", i), i * 65536)
    producer.wait_committed(20)
    producer.finish()
    assert producer.wait_end() == (0, "")
    producer.close()
    for i in range(20):
        assert read_raw(daemon, tensor_name("r", f"op.{i}")) == float32(i, 1)


def test_conflicts_are_in_the_ring_with_their_commits(daemon: Daemon) -> None:
    # It does not read packets, so some of them cannot be delivered.
    producer = ShmProducer(daemon.socket_dir, "r", 0, STREAM)
    for i in range(600):
        record = Record("op", float32(i, 1), [2], sequence=i)
        packed = Chunk("r", [record], sequence=i, rank=0, stream_id=STREAM).pack()
        producer.publish(packed, i % 100 * 65536)
        deadline = time.monotonic() + 60
        while producer.committed() <= i:
            assert time.monotonic() < deadline
        assert producer.conflicts() == i
    producer.close()


def spoil(producer: ShmProducer, rng: random.Random) -> None:
    """Overwrites chunks, entries and counts while the daemon reads them."""
    for _ in range(rng.randrange(1, 300)):
        where = rng.randrange(3)
        if where == 0:
            at = rng.randrange(64 * 1024)
            producer.arena[at] = rng.randrange(256)
        elif where == 1:
            at = rng.randrange(ENTRIES_AT, TABLE_BYTES - 8, 8)
            number = rng.choice([rng.getrandbits(64), rng.randrange(99) * 4096])
            producer.table[at : at + 8] = number.to_bytes(8, "little")
        else:
            at = rng.randrange(0, ENTRIES_AT - 8, 8)
            producer.table[at : at + 8] = rng.getrandbits(64).to_bytes(8, "little")
        if rng.random() < 0.1:
            producer.wake()
    producer.wake()


def test_garbage_in_a_live_ring_ends_that_stream_only(daemon: Daemon) -> None:
    rng = random.Random(SEED)
    good = msitd.Client("good", endpoint=str(daemon.socket_dir))
    ends = set()
    for i in range(150):
        bad = ShmProducer(daemon.socket_dir, "bad", 0, STREAM)
        first = bad.committed_at_open
        for j in range(rng.randrange(4)):
            bad.publish(chunk("bad", first + j), j * 16384)
        spoil(bad, rng)
        bad.publish_entry(
            rng.choice([first, rng.getrandbits(64)]),
            rng.choice([ARENA_BYTES, 4096 * rng.randrange(4000), rng.getrandbits(40)]),
            rng.choice([4096, 8192, rng.getrandbits(64)]),
        )
        if rng.random() < 0.5:
            ends.add(bad.wait_end()[1])
        bad.close()
        assert good.record(np.full(100, i), op=f"op.{i}")
    good.flush(60)
    good.close()
    assert good.counters().acknowledged_count == 150
    assert ends >= {"RING_INVALID"}
    for i in range(0, 150, 10):
        data = read_raw(daemon, tensor_name("good", f"op.{i}"))
        assert data == np.full(100, i).tobytes()
    # The data of the others is complete or absent, except for payload that was
    # changed during the read, which fails its hash and affects nothing else.
    assert daemon.stop() == 0
    daemon.start()
    daemon.ctl("run", "list")


def test_forked_child_leaves_the_memory_alone(daemon: Daemon) -> None:
    client = msitd.Client("r", endpoint=str(daemon.socket_dir))
    assert client.record(np.zeros(1000), op="before")
    child = os.fork()
    if child == 0:
        try:
            is_off = not client.record(np.zeros(1000), op="child")
            os._exit(0 if is_off and not shares_memory() else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert client.record(np.zeros(1000), op="after")
    client.close()
    assert client.counters().acknowledged_count == 2
    assert tensor_count(daemon, "r") == 2


def test_eight_ranks_of_one_node(daemon: Daemon) -> None:
    program = (
        "import msitd, numpy as np, sys, threading\n"
        "rank = int(sys.argv[1])\n"
        "client = msitd.Client('node', rank=rank, world_size=8, max_block=60)\n"
        "def work(thread):\n"
        "    for i in range(20):\n"
        "        value = np.full(50_000, 100 * rank + i, np.int32)\n"
        "        assert client.record(value, op=f'{thread}.{i}')\n"
        "threads = [threading.Thread(target=work, args=(t,)) for t in range(3)]\n"
        "[t.start() for t in threads]\n"
        "[t.join() for t in threads]\n"
        "client.close()\n"
        "assert client.counters().acknowledged_count == 60\n"
    )
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(rank)],
            env={**os.environ, "MSITD_ENDPOINT": str(daemon.socket_dir)},
        )
        for rank in range(8)
    ]
    assert [rank.wait(120) for rank in ranks] == [0] * 8
    assert tensor_count(daemon, "node") == 8 * 60
    for rank in range(8):
        name = tensor_name("node", "2.19", rank=rank)
        expected = np.full(50_000, 100 * rank + 19, np.int32).tobytes()
        assert read_raw(daemon, name) == expected
