"""Daemons on hosts of a real network, one of which is lost and returns."""

import json
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import node_runs
import pytest
import trustme
from chunk_bytes import Chunk, Record
from hosts import Namespace, Network, why_no_namespace
from wire import write

from daemon import BIN_DIR, Daemon

pytestmark = pytest.mark.skipif(
    bool(why_no_namespace()), reason=why_no_namespace() or "there are namespaces"
)

FAILED, PARTIAL, UNAVAILABLE = 1, 4, 64 + 14
HOSTS = 3
PORT = 7741
PEER_TIMEOUT_S = 2.0
NODE_TIMEOUT_S = 2.0
# Time in seconds for a process to start and to end on a busy machine.
SLACK_S = 4.0
LONG_TOKENS, LONG_OPS = 16, 16
MANY_TOKENS, MANY_OPS = 320, 12


class HostDaemon(Daemon):
    """A daemon on a host; the test connects to its socket, which is a file."""

    def __init__(self, folder: Path, host: Namespace) -> None:
        super().__init__(folder)
        self.prefix = host.prefix
        self.flags: list[str] = []

    def begin(self, *flags: str) -> None:
        """Starts the daemon with these flags, or restarts it with the earlier ones."""
        self.flags = list(flags) or self.flags
        self.start(*self.flags)

    @property
    def endpoint(self) -> str:
        return f"unix:{self.socket_dir}/msitd.sock"


@dataclass
class Cluster:
    """Daemons on hosts, and one elsewhere that holds the same ranks as all of them."""

    network: Network
    daemons: list[HostDaemon]
    whole: Daemon
    ca: str

    def place(self, number: int) -> str:
        return f"{self.network.address(number)}:{PORT}"

    @property
    def places(self) -> list[str]:
        return [self.place(number) for number in range(HOSTS)]

    def command(self, *words: str) -> list[str]:
        """Returns the words of an msitctl that runs on the network and queries
        all hosts.
        """
        timeout = ["--node-timeout", f"{NODE_TIMEOUT_S:.0f}s"]
        return self._command("--endpoints", ",".join(self.places), *timeout, *words)

    def _command(self, *words: str) -> list[str]:
        program = [*self.network.switch.prefix, str(BIN_DIR / "msitctl")]
        return [*program, "--ca-file", self.ca, *words]

    def ask(self, *words: str, expect: int = 0) -> "subprocess.CompletedProcess[str]":
        return self._run(self.command(*words), expect)

    def ask_one(
        self, number: int, *words: str, expect: int = 0
    ) -> "subprocess.CompletedProcess[str]":
        return self._run(
            self._command("--endpoint", self.place(number), *words), expect
        )

    def _run(self, words: list[str], expect: int) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == expect, (words, done.stdout, done.stderr)
        return done

    def ask_json(self, *words: str, expect: int = 0) -> dict[str, Any]:
        answer = json.loads(self.ask(*words, "-o", "json", expect=expect).stdout)
        assert isinstance(answer, dict)
        return answer


def certificates(folder: Path, network: Network) -> tuple[str, list[list[str]]]:
    """Returns the file of an authority, and the flags of each host's daemon."""
    authority = trustme.CA()
    ca = str(folder / "ca.pem")
    authority.cert_pem.write_to_path(ca)
    flags = []
    for number in range(HOSTS):
        issued = authority.issue_cert(network.address(number))
        cert, key = str(folder / f"{number}.pem"), str(folder / f"{number}.key")
        issued.cert_chain_pems[0].write_to_path(cert)
        issued.private_key_pem.write_to_path(key)
        own = ["--tls-cert", cert, "--tls-key", key]
        flags.append([*own, "--peer-ca-file", ca])
    return ca, flags


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Hosts with daemons that may read from each other."""
    folder = tmp_path_factory.mktemp("hosts")
    network = Network(HOSTS)
    made: list[Daemon] = []
    try:
        if network.delay_ms == 0:
            warnings.warn("nothing delays packets here", stacklevel=1)
        ca, tls = certificates(folder, network)
        daemons = []
        for number, host in enumerate(network.hosts):
            (folder / f"host-{number}").mkdir()
            daemons.append(HostDaemon(folder / f"host-{number}", host))
        (folder / "whole").mkdir()
        whole = Daemon(folder / "whole")
        made = [*daemons, whole]
        cluster = Cluster(network, daemons, whole, ca)
        for number, daemon in enumerate(daemons):
            timeout = ["--peer-timeout-ms", str(int(PEER_TIMEOUT_S * 1000))]
            peers = [f"--peers={place}" for place in cluster.places]
            listen = ["--listen", cluster.place(number)]
            daemon.begin(*listen, *tls[number], *timeout, *peers)
        whole.start()
        record(cluster)
        yield cluster
    finally:
        for one in made:
            one.clean()
        network.end()


def send_some(daemon: Daemon, name: str, run: node_runs.Run, ranks: list[int]) -> None:
    if ranks:
        node_runs.send(daemon, name, {rank: run[rank] for rank in ranks})


def record(cluster: Cluster) -> None:
    """Records runs whose ranks are on all hosts, and two that are on one host each."""
    golden = node_runs.golden(7)
    target = node_runs.target(golden, 107)
    for name, run in (("g", golden), ("t", target)):
        node_runs.send(cluster.whole, name, run)
    for number, daemon in enumerate(cluster.daemons):
        send_some(daemon, "g", golden, [number])
        # No rank of both runs is on one host.
        send_some(daemon, "t", target, [(number + 1) % HOSTS])
    for name, run, number in (("g-at-0", golden, 0), ("t-at-1", target, 1)):
        for daemon in (cluster.whole, cluster.daemons[number]):
            node_runs.send(daemon, name, run)


def test_one_of_the_hosts_compares_what_is_on_all(cluster: Cluster) -> None:
    words = ("compare", "run", "g", "t", "--rows", "all")
    expected = cluster.whole.ctl_json(*words, expect=FAILED)
    for number in range(HOSTS):
        at = ("--at", cluster.place(number))
        answer = cluster.ask_json(*words, *at, expect=FAILED)
        assert answer["rows"] == expected["rows"]
        first = answer["comparison"]["first_divergence"]
        assert first == expected["comparison"]["first_divergence"]
        assert answer["comparison"].get("partial", False) is False
    assert len(expected["rows"]) > 50


def test_golden_run_is_on_another_host(cluster: Cluster) -> None:
    words = ("compare", "run", "g-at-0", "t-at-1", "--rows", "all")
    flags = ("--golden-endpoint", cluster.place(0), "-o", "json")
    done = cluster.ask_one(1, *words, *flags, expect=FAILED)
    expected = cluster.whole.ctl_json(*words, expect=FAILED)
    assert json.loads(done.stdout)["rows"] == expected["rows"]


def test_reductions_have_the_bits_of_one_store(cluster: Cluster) -> None:
    for by in ((), ("--by", "op"), ("--by", "token"), ("--by", "rank")):
        words = ("tensor", "stats", "--run", "t", *by)
        expected = cluster.whole.ctl_json(*words)["groups"]
        at = ("--at", cluster.place(2))
        assert cluster.ask_json(*words, *at)["groups"] == expected
        if by == ("--by", "rank"):
            assert cluster.ask_json(*words)["groups"] == expected


def test_hosts_are_apart(cluster: Cluster) -> None:
    if cluster.network.delay_ms == 0:
        pytest.skip("nothing delays packets here")
    connect = (
        "import socket, sys, time\n"
        "begin = time.monotonic()\n"
        "socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()\n"
        "print(time.monotonic() - begin)\n"
    )
    words = [sys.executable, "-c", connect, cluster.network.address(1), str(PORT)]
    host = cluster.network.hosts[0]
    took = subprocess.check_output([*host.prefix, *words], timeout=10)
    assert float(took) >= 4 * cluster.network.delay_ms / 1000


def test_groups_cost_no_round_trip_each(cluster: Cluster) -> None:
    round_trip_s = 4 * cluster.network.delay_ms / 1000
    if round_trip_s == 0:
        pytest.skip("nothing delays packets here")
    for name, fill, number in (("many", b"abcd", 0), ("others", b"efgh", 1)):
        chunks = []
        for token in range(MANY_TOKENS):
            records = [
                Record(f"op.{i}", fill * 16, [16], token=token) for i in range(MANY_OPS)
            ]
            for i, record in enumerate(records):
                record.sequence = token * MANY_OPS + i
            chunks.append(Chunk(name, records, sequence=token).pack())
        write(cluster.daemons[number].channel(), name, chunks)
        cluster.daemons[number].ctl("run", "seal", name)
    words = ("compare", "run", "many", "others", "--rows", "none")
    golden = ("--golden-endpoint", cluster.place(0))
    for reading in ("bytes", "samples", "unproven"):
        begin = time.monotonic()
        done = cluster.ask_one(1, *words, *golden, "--read", reading, expect=FAILED)
        assert time.monotonic() - begin < MANY_TOKENS * round_trip_s
        assert f"{MANY_TOKENS * MANY_OPS} fail, 0 unmatched" in done.stdout


def test_a_connection_that_died_unseen_is_made_anew(cluster: Cluster) -> None:
    words = ("compare", "run", "g-at-0", "t-at-1", "--rows", "none")
    golden = ("--golden-endpoint", cluster.place(0))
    cluster.ask_one(1, *words, *golden, expect=FAILED)
    # The end of its connections does not reach the others.
    cluster.network.cut(0)
    cluster.daemons[0].kill()
    cluster.network.heal(0)
    cluster.daemons[0].begin()
    cluster.ask_one(1, *words, *golden, expect=FAILED)


def record_long(cluster: Cluster) -> None:
    """Records a run on all hosts and its target on the first; all bytes differ."""
    for name, fill, places in (
        ("long", b"\x01\x02\x03\x3f", range(HOSTS)),
        ("other", b"\x05\x06\x07\x3f", [0] * HOSTS),
    ):
        for rank, number in enumerate(places):
            data = fill * (1 << 16)
            chunks = []
            for token in range(LONG_TOKENS):
                records = [
                    Record(f"op.{i}", data, [1 << 16], token=token, sequence=i)
                    for i in range(LONG_OPS)
                ]
                for one in records:
                    one.sequence += LONG_OPS * token
                packed = Chunk(name, records, rank=rank, sequence=token)
                chunks.append(packed.pack())
            channel = cluster.daemons[number].channel()
            write(channel, name, chunks, rank=rank, world_size=HOSTS)
        for number in set(places):
            cluster.daemons[number].ctl("run", "seal", name)


def test_host_that_is_cut_off_is_named_and_comes_back(cluster: Cluster) -> None:
    network, lost = cluster.network, cluster.place(2)
    record_long(cluster)
    stats = ("tensor", "stats", "--run", "long")
    before = cluster.ask_json(*stats)["groups"]
    words = ("compare", "run", "long", "other", "--rows", "none")
    at = ("--at", cluster.place(0))

    sent = network.received_bytes(2)
    compare = subprocess.Popen(
        cluster.command(*words, *at),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 20
        # In the middle: the host has sent some of its 64 MiB.
        while network.received_bytes(2) - sent < 2 << 20:
            assert compare.poll() is None, compare.communicate()
            assert time.monotonic() < deadline
        network.cut(2)
        begin = time.monotonic()
        output, error = compare.communicate(timeout=30)
        assert time.monotonic() - begin < PEER_TIMEOUT_S + SLACK_S
        assert compare.returncode == UNAVAILABLE, (output, error)
        assert "verdict           - (failed)" in output
        made = f"c-[0-9]+@{re.escape(cluster.place(0))}"
        assert re.search(rf"\(SOURCE_FAILED\): {made} failed: ", error), error
        assert f"peer {lost}: nothing has come from it for" in error

        # A query of all hosts names the lost one within its time limit, and
        # answers for the others.
        begin = time.monotonic()
        done = cluster.ask(*stats, expect=PARTIAL)
        assert time.monotonic() - begin < NODE_TIMEOUT_S + SLACK_S
        assert (
            f"partial: no answer from {lost}: UNAVAILABLE: cannot reach" in done.stderr
        )
        assert "partial: 2 of 3 ranks; run long lacks rank 2\n" in done.stdout
        done = cluster.ask(*words, *at, expect=FAILED)
        assert f"partial: no answer from {lost}: " in done.stderr
        assert "partial: 2 of 3 ranks; run long lacks rank 2\n" in done.stdout
        assert "first divergence  at or before op.0" in done.stdout
    finally:
        compare.kill()
        compare.communicate()
        network.heal(2)
    answer = cluster.ask_json(*words, *at, expect=FAILED)
    assert answer["comparison"]["fail_count"] == str(HOSTS * LONG_TOKENS * LONG_OPS)
    assert cluster.ask_json(*stats)["groups"] == before
