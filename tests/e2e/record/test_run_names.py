"""A run name that is used again: no data is kept or lost silently."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable

import msitd
import numpy as np
import pytest
from msitd import query
from names import tensor_name

from daemon import Daemon

TIMEOUT_S = 60

# One rank, which prints one line of JSON.
RANK = """
import json, logging, sys
import msitd
import numpy as np
logging.basicConfig(level=logging.WARNING)
options = json.loads(sys.argv[1])
value = options.pop("value")
try:
    with msitd.Client(**options) as client:
        # Clients that append would begin at another token by themselves.
        client.record(np.full(3, value, np.float32), op="op", token=0)
        client.flush()
        out = {"run": client.run, "conflicts": client.counters().conflict_count}
except msitd.MsitError as error:
    out = {"error": str(error)}
print(json.dumps(out))
"""


class Rank:
    """A process that records one tensor of one rank."""

    def __init__(self, daemon: Daemon, *, shm: bool = True, **options: object) -> None:
        endpoint = str(daemon.socket_dir) if shm else daemon.endpoint
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(
                ("MASTER_", "MSITD_", "TORCHELASTIC", "SLURM", "FLUX_", "PMIX_")
            )
        }
        environment |= options.pop("environment", {})
        arguments = {"run": "run", "endpoint": endpoint, "value": 1, **options}
        self.process = subprocess.Popen(
            [sys.executable, "-c", RANK, json.dumps(arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.stderr = ""

    def result(self) -> dict[str, object]:
        """Returns the output of the rank when it ends."""
        stdout, self.stderr = self.process.communicate(timeout=TIMEOUT_S)
        assert self.process.returncode == 0, self.stderr
        return json.loads(stdout)


def record(daemon: Daemon, **options: object) -> dict[str, object]:
    return Rank(daemon, **options).result()


def launch(daemon: Daemon, **options: object) -> list[dict[str, object]]:
    """Runs two ranks at the same time."""
    ranks = [Rank(daemon, rank=r, world_size=2, **options) for r in range(2)]
    return [rank.result() for rank in ranks]


def value_of(daemon: Daemon, run: str, rank: int = 0) -> float:
    """Returns the value of all elements of the rank's only tensor."""
    name = tensor_name(run, "op", rank=rank)
    args = ("tensor", "read", name, "--out", "-", "--format", "raw")
    return float(np.frombuffer(daemon.ctl(*args, binary=True).stdout, np.float32)[0])


def runs(daemon: Daemon) -> list[str]:
    return daemon.ctl("run", "list", "-o", "name").stdout.split()


@pytest.mark.parametrize("shm", [True, False])
def test_name_used_again_is_refused_unless_told_otherwise(
    daemon: Daemon, shm: bool
) -> None:
    assert record(daemon, shm=shm) == {"run": "run", "conflicts": 0}
    again = record(daemon, shm=shm, value=2)
    assert "RUN_EXISTS" in again["error"]
    assert "if_exists" in again["error"]
    assert value_of(daemon, "run") == 1
    # Neither another rank of the same run nor another run is a conflict.
    assert "error" not in record(daemon, shm=shm, run="other", value=2)


def test_rank_that_the_run_has_not_may_join(daemon: Daemon) -> None:
    assert "error" not in record(daemon, rank=0, world_size=2)
    assert "error" not in record(daemon, rank=1, world_size=2, value=2)
    assert value_of(daemon, "run", rank=1) == 2


def record_here(
    daemon: Daemon, value: float, shm: bool = True, rank: int = 0, **options: object
) -> tuple[str, int, int]:
    """Records a tensor from this process. Returns run, token and conflicts."""
    endpoint = str(daemon.socket_dir) if shm else daemon.endpoint
    with msitd.Client("run", rank, 2, endpoint, **options) as client:
        client.record(np.full(3, value, np.float32), op="op")
        client.flush()
        return client.run, client.token, client.counters().conflict_count


@pytest.mark.parametrize("shm", [True, False])
def test_each_client_of_a_process_is_a_recording(daemon: Daemon, shm: bool) -> None:
    assert record_here(daemon, 1, shm) == ("run", 0, 0)
    # Another rank of the same recording.
    assert record_here(daemon, 1, shm, rank=1) == ("run", 0, 0)
    with pytest.raises(msitd.MsitError, match="if_exists.*RUN_EXISTS"):
        record_here(daemon, 2, shm)
    assert value_of(daemon, "run") == 1

    for rank in (0, 1):
        again = record_here(daemon, 2, shm, rank, if_exists="replace")
        assert again == ("run", 0, 0)
    assert [value_of(daemon, "run", rank) for rank in (0, 1)] == [2, 2]
    for rank in (1, 0):
        again = record_here(daemon, 3, shm, rank, if_exists="new")
        assert again == ("run-2", 0, 0)
    assert [value_of(daemon, "run-2", rank) for rank in (0, 1)] == [3, 3]
    assert value_of(daemon, "run") == 2
    with pytest.raises(ValueError, match="if_exists"):
        record_here(daemon, 1, shm, if_exists="ignore")


@pytest.mark.parametrize("shm", [True, False])
def test_appending_continues_at_one_token_for_all_ranks(
    daemon: Daemon, shm: bool
) -> None:
    for rank in (0, 1):
        again = record_here(daemon, 1, shm, rank, if_exists="append")
        assert again == ("run", 0, 0)
    for token in (1, 2):
        for rank in (0, 1):
            again = record_here(daemon, token, shm, rank, if_exists="append")
            assert again == ("run", token, 0)
    listed = daemon.ctl("tensor", "list", "--run", "run", "--columns", "rank,token")
    assert [line.split() for line in listed.stdout.splitlines()[1:]] == [
        [rank, token] for rank in "01" for token in "012"
    ]


@pytest.mark.parametrize("shm", [True, False])
def test_ranks_that_are_not_in_step_share_their_recordings(
    daemon: Daemon, shm: bool
) -> None:
    # Rank 0 has finished two recordings when rank 1 begins.
    for rank in (0, 1):
        for value, name in ((1, "run"), (2, "run-2")):
            recorded = record_here(daemon, value, shm, rank, if_exists="new")
            assert recorded == (name, 0, 0)
    for name, value in (("run", 1), ("run-2", 2)):
        assert [value_of(daemon, name, rank) for rank in (0, 1)] == [value, value]


@pytest.mark.parametrize("shm", [True, False])
def test_ranks_that_are_not_in_step_append_at_their_tokens(
    daemon: Daemon, shm: bool
) -> None:
    for rank in (0, 1):
        for token in (0, 1, 2):
            recorded = record_here(daemon, token, shm, rank, if_exists="append")
            assert recorded == ("run", token, 0)


@pytest.mark.parametrize("shm", [True, False])
def test_rank_that_lags_behind_does_not_replace_a_later_recording(
    daemon: Daemon, shm: bool
) -> None:
    for value in (1, 2):
        assert record_here(daemon, value, shm, if_exists="replace") == ("run", 0, 0)
    with pytest.raises(msitd.MsitError, match="recording 1 of rank 1 is too late"):
        record_here(daemon, 1, shm, 1, if_exists="replace", open_timeout=0.5)
    assert record_here(daemon, 2, shm, 1, if_exists="replace") == ("run", 0, 0)
    assert [value_of(daemon, "run", rank) for rank in (0, 1)] == [2, 2]


@pytest.mark.parametrize("shm", [True, False])
def test_appending_without_waiting_continues_too(daemon: Daemon, shm: bool) -> None:
    endpoint = str(daemon.socket_dir) if shm else daemon.endpoint
    for first in (0, 2):
        with msitd.Client(
            "run", 0, 1, endpoint, if_exists="append", open_timeout=0
        ) as client:
            for _ in range(2):
                client.record(np.full(3, first, np.float32), op="op")
                client.next_token()
            client.flush()
            assert client.token == first + 2
            assert client.counters().conflict_count == 0
    listed = daemon.ctl("tensor", "list", "--run", "run", "--columns", "token")
    assert [line.split() for line in listed.stdout.splitlines()[1:]] == [
        [token] for token in "0123"
    ]


def test_run_is_not_replaced_by_a_client_that_is_refused(
    new_daemon: Callable[[], Daemon],
) -> None:
    daemon = new_daemon()
    daemon.start("--max-streams", "8")
    record(daemon)
    endpoint = str(daemon.socket_dir)
    with contextlib.ExitStack() as held:
        with pytest.raises(msitd.MsitError, match="STREAMS_EXHAUSTED"):
            for number in range(9):
                client = msitd.Client(
                    f"held{number}", endpoint=endpoint, open_timeout=0.5
                )
                held.enter_context(client)
        for name in ("run", "absent"):
            with pytest.raises(msitd.MsitError, match="STREAMS_EXHAUSTED"):
                msitd.Client(
                    name, endpoint=endpoint, if_exists="replace", open_timeout=0.5
                )
        assert value_of(daemon, "run") == 1
        assert "absent" not in runs(daemon)


def test_each_client_of_a_run_keeps_its_documents(daemon: Daemon) -> None:
    """A later version has a higher number, whichever client recorded it."""
    texts = {"run": ["first", "second"], "golden": ["first"]}
    for run, contents in texts.items():
        for text in contents:
            with msitd.Client(
                run, endpoint=str(daemon.socket_dir), if_exists="append"
            ) as client:
                client.record(np.zeros(3), op="op", token=0)
                for version in (text, f"{text} more", text):
                    client.record_document("tree.json", version)
                client.flush()
                assert client.counters().conflict_count == 0
    listed = daemon.ctl_json("tensor", "list", "run", "--kind", "document")["tensors"]
    assert len(listed) == 4
    with query.connect(daemon.endpoint) as connection:
        found = connection.tensors.list("run", query.select(kinds="document"))
        read = {each.call: connection.tensors.read(each).tobytes() for each in found}
    expected = [b"first", b"first more", b"second", b"second more"]
    assert [read[call] for call in sorted(read)] == expected
    compared = daemon.ctl("compare", "run", "golden", "run").stdout
    assert "PASS" in compared


def test_client_that_is_open_is_named(daemon: Daemon) -> None:
    endpoint = str(daemon.socket_dir)
    with msitd.Client("run", endpoint=endpoint) as client:
        with pytest.raises(msitd.MsitError, match=f"RANK_BUSY.*{__file__}"):
            msitd.Client("run", endpoint=endpoint)
        # By another address of the same daemon, only the daemon detects it.
        with pytest.raises(msitd.MsitError, match="from this process"):
            msitd.Client("run", endpoint=daemon.endpoint, open_timeout=0.5)
        with msitd.Client("run", endpoint=endpoint, if_exists="new") as other:
            assert other.run == "run-2"
        with msitd.Client("run", endpoint=endpoint, if_exists="append") as shared:
            assert shared.run == client.run
            shared.next_token()
            assert client.token == shared.token
            shared.token = 0
        client.record(np.zeros(3), op="op")
        busy = record(daemon, open_timeout=0.5)
        assert "from another process" in busy["error"]


@pytest.mark.parametrize("shm", [True, False])
def test_what_is_appended_in_vain_is_said_everywhere(daemon: Daemon, shm: bool) -> None:
    record(daemon, shm=shm)
    second = Rank(daemon, shm=shm, value=2, if_exists="append")
    assert second.result() == {"run": "run", "conflicts": 1}
    assert "run 'run' had 1 of these records already" in second.stderr
    assert value_of(daemon, "run") == 1

    assert "conflicts" in daemon.ctl("run", "list").stdout.splitlines()[0].split()
    listed = daemon.ctl("run", "list", "--columns", "name,conflicts").stdout
    assert listed.splitlines()[1].split() == ["run", "1"]
    (rank,) = daemon.ctl_json("capture", "coverage", "run")["ranks"]
    counts = {key: int(rank[f"{key}_count"]) for key in ("repeated", "conflict")}
    assert counts == {"repeated": 1, "conflict": 1}

    record(daemon, shm=shm, run="golden")
    compared = daemon.ctl("compare", "run", "golden", "run").stdout
    assert "recorded twice    target run: 1 record with different bytes" in compared
    assert "recorded twice    golden" not in compared


def test_equal_bytes_that_come_again_are_no_conflict(daemon: Daemon) -> None:
    record(daemon)
    again = Rank(daemon, if_exists="append")
    assert again.result() == {"run": "run", "conflicts": 0}
    assert "already" not in again.stderr
    (rank,) = daemon.ctl_json("capture", "coverage", "run")["ranks"]
    assert (rank["repeated_count"], rank["conflict_count"]) == ("1", "0")


@pytest.mark.parametrize("shm", [True, False])
def test_replaced_run_has_the_tensors_of_the_new_launch_only(
    daemon: Daemon, shm: bool
) -> None:
    launch(daemon, shm=shm, value=1)
    with_more = record(daemon, shm=shm, run="kept", value=1)
    for environment in ({"MSITD_JOB": "second"}, {}):
        launch(daemon, shm=shm, value=2, if_exists="replace", environment=environment)
        assert [value_of(daemon, "run", rank=r) for r in range(2)] == [2, 2]
    assert daemon.ctl_json("run", "get", "run")["counters"]["conflict_count"] == "0"
    assert with_more["run"] == "kept"
    assert runs(daemon) == ["kept", "run"]


def test_run_is_not_replaced_while_others_stream_into_it(daemon: Daemon) -> None:
    with msitd.Client("run", 0, 2, str(daemon.socket_dir)) as client:
        client.record(np.full(3, 1, np.float32), op="op")
        client.flush()
        refused = record(
            daemon, rank=1, world_size=2, if_exists="replace", open_timeout=0.5
        )
        assert "RANK_BUSY" in refused["error"]
    assert value_of(daemon, "run") == 1


@pytest.mark.parametrize("shm", [True, False])
@pytest.mark.parametrize(
    "launches",
    [
        [{}, {}, {}],
        [{"MSITD_JOB": name} for name in ("a", "b", "c")],
        [{"TORCHELASTIC_RUN_ID": name} for name in ("a", "b", "c")],
    ],
)
def test_each_launch_has_a_new_run_for_all_its_ranks(
    daemon: Daemon, shm: bool, launches: list[dict[str, str]]
) -> None:
    for number, environment in enumerate(launches, 1):
        results = launch(
            daemon, shm=shm, if_exists="new", value=number, environment=environment
        )
        name = "run" if number == 1 else f"run-{number}"
        assert [result["run"] for result in results] == [name, name]
        assert [value_of(daemon, name, rank=r) for r in range(2)] == [number, number]
    assert runs(daemon) == ["run", "run-2", "run-3"]


def test_new_run_may_be_one_that_was_made_for_it(daemon: Daemon) -> None:
    daemon.ctl("run", "create", "run", "--label", "model=small")
    assert record(daemon, if_exists="new")["run"] == "run"
    assert record(daemon, if_exists="new")["run"] == "run-2"
    daemon.ctl("run", "seal", "run-2")
    assert record(daemon, if_exists="new")["run"] == "run-3"
    with pytest.raises(ValueError, match="open_timeout"):
        msitd.Client("run", endpoint=daemon.endpoint, if_exists="new", open_timeout=0)


def test_new_run_keeps_its_name_when_the_daemon_comes_back(daemon: Daemon) -> None:
    record(daemon)
    endpoint = str(daemon.socket_dir)
    with msitd.Client("run", 0, 1, endpoint, if_exists="new") as client:
        client.record(np.full(3, 2, np.float32), op="op")
        client.flush()
        daemon.kill()
        client.record(np.full(3, 3, np.float32), op="op", token=1)
        daemon.start()
        client.flush()
        assert client.run == "run-2"
    assert runs(daemon) == ["run", "run-2"]
    counters = daemon.ctl_json("run", "get", "run-2")["counters"]
    assert counters["tensor_count"] == "2"


def verdict_of(daemon: Daemon, run: str, golden: str = "golden") -> str:
    """Compares a run with the golden run. Returns the word of the exit code."""
    codes = {0: "pass", 1: "fail", 4: "partial"}
    return codes[daemon.ctl("compare", "run", golden, run, expect=None).returncode]


@pytest.mark.parametrize("is_same_value", [True, False])
@pytest.mark.parametrize("if_exists", ["fail", "new", "replace", "append"])
def test_rank_that_restarts_alone_does_not_make_its_run_pass(
    daemon: Daemon, if_exists: str, is_same_value: bool
) -> None:
    """Rank 0 has recorded twice, rank 1 once, as in the golden run."""
    job = {"MASTER_ADDR": "node0", "MASTER_PORT": "29500"}
    launch(daemon, run="golden", environment=job)
    launch(daemon, environment=job)
    assert verdict_of(daemon, "run") == "pass"
    again = Rank(
        daemon,
        rank=0,
        world_size=2,
        value=1 if is_same_value else 2,
        if_exists=if_exists,
        environment=job,
    ).result()
    if if_exists == "fail":
        assert "RUN_EXISTS" in again["error"]
        assert verdict_of(daemon, "run") == "pass"
        return
    assert again["run"] == ("run-2" if if_exists == "new" else "run")
    if if_exists == "append":
        # The token is explicit, so the record is one that the run has.
        assert again["conflicts"] == (0 if is_same_value else 1)
        compared = daemon.ctl("compare", "run", "golden", "run").stdout
        note = "recorded twice    target run: 1 record "
        assert (note in compared) is not is_same_value
        return
    expected = "partial" if is_same_value else "fail"
    assert verdict_of(daemon, str(again["run"])) == expected


def test_rank_that_appends_alone_has_tokens_that_others_lack(daemon: Daemon) -> None:
    for run in ("golden", "run"):
        for rank in (0, 1):
            with msitd.Client(run, rank, 2, str(daemon.socket_dir)) as client:
                client.record(np.full(3, 1, np.float32), op="op")
    assert verdict_of(daemon, "run") == "pass"
    assert record_here(daemon, 1, if_exists="append") == ("run", 1, 0)
    assert verdict_of(daemon, "run") == "fail"
    assert (
        "rank 0 has recorded 2 times" in daemon.ctl("capture", "coverage", "run").stderr
    )


def test_restart_after_a_rank_missed_a_launch_has_a_run_of_its_own(
    daemon: Daemon,
) -> None:
    """All ranks start again, and the rank that missed the launch is the first."""
    job = {"TORCHELASTIC_RUN_ID": "job", "TORCHELASTIC_RESTART_COUNT": "0"}
    launch(daemon, run="golden", environment=job)
    options = {"world_size": 2, "if_exists": "new"}
    assert record(daemon, rank=0, environment=job, **options)["run"] == "run"
    assert verdict_of(daemon, "run") == "partial"
    job["TORCHELASTIC_RESTART_COUNT"] = "1"
    for rank in (1, 0):
        again = record(daemon, rank=rank, environment=job, **options)
        assert again["run"] == "run-2"
    assert verdict_of(daemon, "run") == "partial"
    assert verdict_of(daemon, "run-2") == "pass"


def test_rank_of_another_named_launch_does_not_join(daemon: Daemon) -> None:
    launch(daemon, run="golden")
    first = {"MSITD_JOB": "first"}
    assert record(daemon, rank=0, world_size=2, environment=first)["run"] == "run"
    second = {"MSITD_JOB": "second"}
    refused = record(daemon, rank=1, world_size=2, environment=second)
    assert "run 'run' belongs to launch 'first'" in refused["error"]
    assert "RUN_EXISTS" in refused["error"]
    assert verdict_of(daemon, "run") == "partial"
    # Each remedy that the error names works.
    for if_exists, run in (("new", "run-2"), ("append", "run"), ("replace", "run")):
        joined = record(
            daemon, rank=1, world_size=2, if_exists=if_exists, environment=second
        )
        assert joined["run"] == run
