"""Checks that a store kept its promises, using only the ledgers and the API."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from msitd.v1 import node_service_pb2 as node_pb
from msitd.v1 import node_service_pb2_grpc as node_grpc
from msitd.v1 import run_service_pb2 as run_pb
from msitd.v1 import run_service_pb2_grpc as run_grpc
from msitd.v1 import tensor_service_pb2 as tensor_pb
from msitd.v1 import tensor_service_pb2_grpc as tensor_grpc
from names import tensor_name
from recorded import Entries, Key, Ledger, hash_of, ops_of, tensor_bytes

TIMEOUT_S = 60
PAGE = 1000
# Bytes are deleted in whole frames, until no more than the limit are left.
FRAME_BYTES_MAX = 4 << 20
# Recorded tensors have at most two parts. The first part has this size.
PART_BYTES = 4 << 20
# Number of tensors found correct before that each check reads again.
SAMPLE = 20


@dataclass(frozen=True)
class RankLedger:
    """The ledger of one rank, and the identity of the rank."""

    run: str
    rank: int
    path: Path


class Judge:
    """Compares the contents of the daemon with the ledgers.

    The bytes of a tensor are read when it is first seen. Each check reads those
    of a few tensors again; a full check reads them all.
    """

    def __init__(
        self, seed: int, ledgers: Iterable[RankLedger], expiring: dict[str, int]
    ) -> None:
        """`expiring`: runs whose bytes are deleted, and how many bytes are kept."""
        self._seed = seed
        self._ledgers = list(ledgers)
        self._expiring = expiring
        # Answers of the daemon about tensors that were correct.
        self._known: dict[str, str] = {}
        self.acknowledged_count = 0
        self.read_count = 0

    def check(self, channel: grpc.Channel, rng: random.Random) -> list[str]:
        """Returns all violations. Ranks may continue to record in the meantime."""
        return self._check(channel, rng, is_all=False)

    def check_all(
        self, channel: grpc.Channel, torn_max: Mapping[str, int] | None = None
    ) -> list[str]:
        """Returns all violations, reading all bytes. The ranks have ended.

        `torn_max`: for each run, how many tensors may have lost their last part
        with the rank that recorded them. Such tensors are counted, but not
        listed.
        """
        findings = self._check(channel, random.Random(0), is_all=True)
        for run in self._runs():
            counters = self._counters(channel, run)
            tensors = self._list(channel, run)
            counted = (counters.tensor_count, counters.size_bytes)
            listed = (len(tensors), sum(t.size_bytes for t in tensors))
            torn = counted[0] - listed[0]
            is_torn = 0 <= torn <= (torn_max or {}).get(run, 0)
            if not is_torn or counted[1] - listed[1] != torn * PART_BYTES:
                findings.append(f"{run}: counts {counted}, lists {listed}")
            for what in ("duplicate", "conflict", "dropped", "truncated"):
                name = f"{what}_count"
                if (count := getattr(counters, name)) != 0:
                    findings.append(f"{run}: {name} is {count}")
        return findings

    def _runs(self) -> list[str]:
        return sorted({ledger.run for ledger in self._ledgers})

    def _check(
        self, channel: grpc.Channel, rng: random.Random, is_all: bool
    ) -> list[str]:
        # Read before the tensors are listed: everything that is acknowledged
        # now must be there.
        entries = {
            (ledger.run, ledger.rank): Ledger(ledger.path).read()
            for ledger in self._ledgers
        }
        self.acknowledged_count = sum(len(e.acknowledged) for e in entries.values())
        findings = self._check_node(channel)
        for run in self._runs():
            tensors = self._list(channel, run)
            # Copied before the next reading: what a rank begins from now on is
            # listed later.
            begun = {
                (ledger.run, ledger.rank): Ledger(ledger.path).read().begun
                for ledger in self._ledgers
            }
            findings += duplicates(tensors)
            of_run = {key: e for key, e in entries.items() if key[0] == run}
            findings += self._check_ledgers(of_run, {t.name for t in tensors})
            again = set(rng.sample(range(len(tensors)), min(SAMPLE, len(tensors))))
            for i, tensor in enumerate(tensors):
                must_read = is_all or i in again or tensor.name not in self._known
                findings += self._check_tensor(channel, tensor, begun, must_read)
            findings += self._check_expiry(channel, run)
        return findings

    def _check_node(self, channel: grpc.Channel) -> list[str]:
        status = node_grpc.NodeServiceStub(channel).GetNodeStatus(
            node_pb.GetNodeStatusRequest(), timeout=TIMEOUT_S
        )
        findings = []
        if status.storage_state != node_pb.NodeStatus.OK:
            findings.append(f"the storage is not OK: {status.storage_error}")
        for name in ("corrupt_frame_count", "refused_chunk_count"):
            if (count := getattr(status, name)) != 0:
                findings.append(f"node status: {name} is {count}")
        return findings

    def _list(self, channel: grpc.Channel, run: str) -> list[Any]:
        stub = tensor_grpc.TensorServiceStub(channel)
        tensors: list[Any] = []
        token = ""
        while True:
            response = stub.ListTensors(
                tensor_pb.ListTensorsRequest(run=run, page_size=PAGE, page_token=token),
                timeout=TIMEOUT_S,
            )
            tensors += response.tensors
            token = response.next_page_token
            if not token:
                return tensors

    def _check_ledgers(
        self, entries: dict[tuple[str, int], Entries], listed: set[str]
    ) -> list[str]:
        findings = []
        for (run, rank), of_rank in entries.items():
            for (token, op), digest in of_rank.acknowledged.items():
                name = tensor_name(run, op, rank=rank, token=token)
                if name not in listed:
                    findings.append(f"{name}: acknowledged, and not there")
                if name in self._known:
                    continue
                key = Key(run, rank, token, op)
                if hash_of(tensor_bytes(self._seed, key)) != digest:
                    findings.append(f"{name}: acknowledged with other bytes")
        return findings

    def _check_tensor(
        self,
        channel: grpc.Channel,
        tensor: Any,
        begun: dict[tuple[str, int], set[int]],
        must_read: bool,
    ) -> list[str]:
        name = tensor.name
        key = Key(tensor.run, tensor.rank, tensor.token, tensor.op)
        place = tensor_name(key.run, key.op, rank=key.rank, token=key.token)
        if (
            name != place
            or key.token not in begun.get((key.run, key.rank), ())
            or key.op not in ops_of(self._seed, key.run, key.rank, key.token)
        ):
            return [f"{name}: nobody recorded that"]
        if self._known.get(name, tensor.hash) != tensor.hash:
            return [f"{name}: has another hash than before"]
        if not must_read:
            return []
        expected = tensor_bytes(self._seed, key)
        findings = [f"{name}: {what}" for what in check_summary(tensor, expected)]
        if tensor.has_bytes:
            findings += self._check_bytes(channel, tensor, expected)
        elif expected and key.run not in self._expiring:
            findings.append(f"{name}: its bytes are gone")
        if not findings:
            self._known[name] = tensor.hash
        return findings

    def _check_bytes(
        self, channel: grpc.Channel, tensor: Any, expected: bytes
    ) -> list[str]:
        stub = tensor_grpc.TensorServiceStub(channel)
        request = tensor_pb.ReadTensorRequest(name=tensor.name)
        self.read_count += 1
        try:
            pieces = [p.data for p in stub.ReadTensor(request, timeout=TIMEOUT_S)]
        except grpc.RpcError as error:
            # Its bytes may have been deleted since it was listed.
            if tensor.run in self._expiring and not self._has_bytes(
                channel, tensor.name
            ):
                return []
            return [f"{tensor.name}: cannot be read: {error.details()}"]
        if b"".join(pieces) != expected:
            return [f"{tensor.name}: has other bytes than were recorded"]
        return []

    def _has_bytes(self, channel: grpc.Channel, name: str) -> bool:
        stub = tensor_grpc.TensorServiceStub(channel)
        request = tensor_pb.GetTensorRequest(name=name)
        return stub.GetTensor(request, timeout=TIMEOUT_S).has_bytes

    def _check_expiry(self, channel: grpc.Channel, run: str) -> list[str]:
        counters = self._counters(channel, run)
        kept = counters.size_bytes - counters.expired_size_bytes
        limit = self._expiring.get(run, 0)
        if counters.expired_size_bytes > 0 and kept + FRAME_BYTES_MAX < limit:
            return [f"{run}: keeps {kept} bytes, less than it was told to"]
        return []

    def _counters(self, channel: grpc.Channel, run: str) -> Any:
        stub = run_grpc.RunServiceStub(channel)
        return stub.GetRun(run_pb.GetRunRequest(run=run), timeout=TIMEOUT_S).counters


def duplicates(tensors: Iterable[Any]) -> list[str]:
    """Returns a line for each name that is listed more than once."""
    counts = Counter(tensor.name for tensor in tensors)
    return [f"{n}: listed {count} times" for n, count in counts.items() if count > 1]


def check_summary(tensor: Any, expected: bytes) -> list[str]:
    """Returns the errors in the summary of a tensor."""
    summary = tensor.summary
    said = [tensor.size_bytes, *tensor.shape, summary.count]
    true = [len(expected)] * 3
    if expected:
        elements = np.frombuffer(expected, np.uint8)
        said += [summary.zero_count, summary.sum, summary.min, summary.max]
        true += [
            expected.count(0),
            int(elements.sum()),
            int(elements.min()),
            int(elements.max()),
        ]
    return [] if said == true else [f"the index says {said}, true is {true}"]
