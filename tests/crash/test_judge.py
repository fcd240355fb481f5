"""The judge finds every kind of fault that it checks for."""

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msitd
import pytest
import remains
from chunk_bytes import PART, Chunk, Record
from judge import Judge, RankLedger, check_summary, duplicates
from msitd.v1.ingest_service_pb2 import IF_EXISTS_APPEND
from recorded import Key, Ledger, hash_of, ops_of, tensor_bytes
from wire import write

from daemon import Daemon

SEED = 7
RUN = "judged"
TOKENS = 12


class Case:
    """A daemon with the tensors of a ledger, and a judge of both."""

    def __init__(self, folder: Path) -> None:
        self.daemon = Daemon(folder)
        self.ledger = Ledger(folder / "ledger")
        self.daemon.start()
        self.record(SEED, range(TOKENS))

    def record(self, seed: int, tokens: range) -> None:
        """Records the tensors of the rank with this seed."""
        acknowledged = []
        endpoint = str(self.daemon.socket_dir)
        with msitd.Client(RUN, endpoint=endpoint, if_exists="append") as client:
            for token in tokens:
                self.ledger.begin(token)
                for op in ops_of(SEED, RUN, 0, token):
                    data = tensor_bytes(seed, Key(RUN, 0, token, op))
                    assert client.record(data, op=op, token=token, call=0)
                    acknowledged.append((token, op, hash_of(data)))
                # One frame per token.
                client.flush()
        self.ledger.acknowledge(acknowledged)

    def findings(self) -> list[str]:
        """Returns the findings of a new judge."""
        return self.judge().check_all(self.daemon.channel())

    def judge(self) -> Judge:
        return Judge(SEED, [RankLedger(RUN, 0, self.ledger.path)], {})

    def key(self) -> Key:
        """The key of a tensor in the middle of the log that is not small."""
        keys = [
            Key(RUN, 0, token, op)
            for token in range(2, TOKENS - 2)
            for op in ops_of(SEED, RUN, 0, token)
        ]
        return next(key for key in keys if len(tensor_bytes(SEED, key)) > 64)


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    case = Case(tmp_path)
    yield case
    case.daemon.clean()


def test_good_store_passes(case: Case) -> None:
    assert case.findings() == []
    judge = case.judge()
    assert judge.check(case.daemon.channel(), random.Random(1)) == []
    assert judge.acknowledged_count >= TOKENS
    case.daemon.kill()
    case.daemon.start()
    assert case.findings() == []


def test_byte_that_changed_on_the_disk_is_found(case: Case) -> None:
    key = case.key()
    judge = case.judge()
    assert judge.check_all(case.daemon.channel()) == []
    assert case.daemon.stop() == 0
    case.daemon.spoil(tensor_bytes(SEED, key))
    assert remains.inspect(case.daemon, is_live=False)
    case.daemon.start()
    findings = judge.check_all(case.daemon.channel())
    assert len(findings) == 1
    assert "cannot be read" in findings[0]


def test_tensor_that_the_index_lost_is_found(case: Case) -> None:
    # After a kill, the daemon builds the index from the log, which lacks a
    # frame.
    case.daemon.kill()
    case.daemon.spoil(b"op.0")
    case.daemon.start()
    findings = case.findings()
    assert any("acknowledged, and not there" in finding for finding in findings)


def test_line_that_was_forged_is_found(case: Case) -> None:
    token, op, digest = TOKENS + 1, ops_of(SEED, RUN, 0, TOKENS + 1)[0], "00" * 16
    case.ledger.acknowledge([(token, op, digest)])
    findings = case.findings()
    assert any("acknowledged, and not there" in finding for finding in findings)
    assert any("acknowledged with other bytes" in finding for finding in findings)


def test_bytes_of_another_rank_are_found(case: Case) -> None:
    case.record(SEED + 1, range(TOKENS, TOKENS + 1))
    findings = case.findings()
    assert any("other bytes than were recorded" in finding for finding in findings)
    assert any("the index says" in finding for finding in findings)


def test_tensor_without_its_last_part_counts_only_if_a_rank_died(case: Case) -> None:
    shape = [PART // 4 + 1]
    part = Record("op.0", b"1" * PART, shape, token=TOKENS, tensor_bytes=PART + 4)
    chunks = [Chunk(RUN, [part]).pack()]
    write(case.daemon.channel(), RUN, chunks, if_exists=IF_EXISTS_APPEND)
    assert case.findings() != []
    channel = case.daemon.channel()
    assert case.judge().check_all(channel, {RUN: 1}) == []


def test_tensor_that_nobody_recorded_is_found(case: Case) -> None:
    endpoint = str(case.daemon.socket_dir)
    with msitd.Client(RUN, endpoint=endpoint, if_exists="append") as client:
        client.record(b"1", op="op.0", token=TOKENS, call=0)
        client.record(b"1", op="op", token=0, call=0)
    findings = case.findings()
    assert len([f for f in findings if "nobody recorded that" in f]) == 2


def test_tensor_that_came_twice_is_found(case: Case) -> None:
    case.record(SEED, range(1))
    findings = case.findings()
    assert any("duplicate_count" in finding for finding in findings)
    listed = [SimpleNamespace(name=name) for name in ("a", "b", "a")]
    assert duplicates(listed) == ["a: listed 2 times"]


def test_summary_of_other_bytes_is_found() -> None:
    summary = SimpleNamespace(count=2, zero_count=0, sum=3.0, min=1.0, max=2.0)
    tensor = SimpleNamespace(size_bytes=2, shape=[2], summary=summary)
    assert check_summary(tensor, b"\1\2") == []
    for other in (b"\1\3", b"\1\2\0", b"\0\3", b""):
        assert check_summary(tensor, other)


def test_files_that_were_left_are_found(case: Case) -> None:
    daemon = case.daemon
    assert daemon.process is not None
    assert remains.shared_memory(daemon.process.pid) == []
    assert daemon.stop() == 0
    assert remains.in_store(daemon.data_dir) == []
    assert remains.of_sockets(daemon.socket_dir, set()) == []
    for name in ("extra", "segments/1.tmp", "index/000001.dbtmp", "index/000000.log"):
        path = daemon.data_dir / name
        path.touch()
        assert remains.in_store(daemon.data_dir), name
        path.unlink()
    (daemon.socket_dir / "ingest.sock").touch()
    assert remains.of_sockets(daemon.socket_dir, set())


def test_line_of_a_rank_that_was_killed_is_no_line(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.begin(3)
    ledger.acknowledge([(3, "op.0", "ab")])
    with open(ledger.path, "a") as file:
        file.write("ack 3 op.1 a")
    assert ledger.read().acknowledged == {(3, "op.0"): "ab"}
    ledger.cut_torn_line()
    ledger.begin(4)
    assert ledger.read().begun == {3, 4}
