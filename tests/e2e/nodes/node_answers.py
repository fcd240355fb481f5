"""Two daemons that share the ranks of two runs, queried by msitctl as one."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from chunk_bytes import Chunk, Record, float32
from wire import write

from daemon import BIN_DIR, Daemon

FAILED, USAGE, PARTIAL, NOT_FOUND = 1, 2, 4, 69

WORLD = 4


def record(
    daemon: Daemon,
    run: str,
    ranks: list[int],
    values: dict[int, float] | None = None,
) -> None:
    """Records two ops of two tokens in some ranks of a world of four."""
    for rank in ranks:
        value = (values or {}).get(rank, float(rank + 1))
        records = [
            Record(op, float32(value), [1], token=token, sequence=2 * token + i)
            for token in range(2)
            for i, op in enumerate(("a", "b"))
        ]
        chunk = Chunk(run, records, rank=rank).pack()
        write(daemon.channel(), run, [chunk], rank=rank, world_size=WORLD)


def socket_of(daemon: Daemon) -> str:
    return f"unix:{daemon.socket_dir}/msitd.sock"


def ask(
    endpoints: list[str], *words: str, expect: int = 0
) -> "subprocess.CompletedProcess[str]":
    """Runs msitctl over all endpoints."""
    result = subprocess.run(
        [BIN_DIR / "msitctl", "--endpoints", ",".join(endpoints), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == expect, (words, result.stdout, result.stderr)
    return result


def ask_json(endpoints: list[str], *words: str, expect: int = 0) -> dict[str, Any]:
    answer = json.loads(ask(endpoints, *words, "-o", "json", expect=expect).stdout)
    assert isinstance(answer, dict)
    return answer


@pytest.fixture(name="two")
def two_daemons(new_daemon: Callable[[], Daemon]) -> tuple[Daemon, Daemon]:
    """Two daemons that hold two ranks each of `g` and `t`; one op of `t` differs."""
    daemons = new_daemon(), new_daemon()
    for daemon, ranks in zip(daemons, ([0, 1], [2, 3]), strict=True):
        daemon.start()
        record(daemon, "g", ranks)
        record(daemon, "t", ranks, {3: 9.0})
    return daemons


@pytest.fixture(name="endpoints")
def endpoints_of_two(two: tuple[Daemon, Daemon]) -> list[str]:
    return [socket_of(daemon) for daemon in two]


@pytest.fixture(name="whole")
def daemon_of_all_ranks(new_daemon: Callable[[], Daemon]) -> Daemon:
    """One daemon that holds all of these ranks."""
    daemon = new_daemon()
    daemon.start()
    record(daemon, "g", list(range(WORLD)))
    record(daemon, "t", list(range(WORLD)), {3: 9.0})
    return daemon
