"""Programs that reuse a run name, as notebooks, tests and trainers do.

The records that arrive are compared with those that were made.
"""

import gc
import logging
import os
import threading

import msitd
import numpy as np
import pytest
import torch
from msitd import query

from daemon import Daemon

# Like a cell of a notebook: the names of the earlier run exist when it runs
# again.
CELL = """
client = msitd.Client("run", endpoint=endpoint, if_exists=how)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 3))
handle = msitd.register_hook(model, client)
for _ in range(2):
    value += 1
    with torch.no_grad():
        model(torch.full((1, 3), float(value)))
client.flush()
"""


def inputs_of(daemon: Daemon, run: str = "run", op: str = "root.0") -> dict[int, float]:
    """Returns the first element of an op's input, by token."""
    with query.connect(daemon.endpoint) as connection:
        listed = connection.tensors.list(run, query.select(ops=op, io="input"))
        return {
            each.token: float(connection.tensors.read(each).ravel()[0])
            for each in listed
        }


def values_of(daemon: Daemon, run: str = "run") -> dict[tuple[str, int, int], float]:
    """Returns the first element of each tensor, by op, token and call."""
    with query.connect(daemon.endpoint) as connection:
        return {
            (each.op, each.token, each.call): float(
                connection.tensors.read(each).ravel()[0]
            )
            for each in connection.tensors.list(run, query.select(kinds="tensor"))
        }


def conflicts_of(daemon: Daemon, run: str = "run") -> int:
    counters = daemon.ctl_json("run", "get", run)["counters"]
    return int(counters.get("conflict_count", 0))


def notebook(daemon: Daemon, how: str) -> dict[str, object]:
    endpoint = str(daemon.socket_dir)
    return {
        "msitd": msitd,
        "torch": torch,
        "endpoint": endpoint,
        "how": how,
        "value": 0,
    }


def run_cell(names: dict[str, object]) -> None:
    exec(CELL, names)  # noqa: S102 - what a notebook does


def test_cell_that_runs_again_fails(daemon: Daemon) -> None:
    names = notebook(daemon, "fail")
    run_cell(names)
    with pytest.raises(msitd.MsitError, match="RANK_BUSY"):
        run_cell(names)
    assert inputs_of(daemon) == {0: 1, 1: 2}
    # Without the client, whose hooks ended with their model, the run is in the
    # way.
    names["client"].close()
    with pytest.raises(msitd.MsitError, match="RUN_EXISTS"):
        run_cell(names)


def test_cell_that_runs_again_replaces(daemon: Daemon) -> None:
    names = notebook(daemon, "replace")
    for _ in range(3):
        run_cell(names)
    names["client"].close()
    assert inputs_of(daemon) == {0: 5, 1: 6}


def test_cell_that_runs_again_gets_a_new_run(daemon: Daemon) -> None:
    names = notebook(daemon, "new")
    for _ in range(3):
        run_cell(names)
    names["client"].close()
    runs = ["run", "run-2", "run-3"]
    assert [inputs_of(daemon, run) for run in runs] == [
        {0: 1, 1: 2},
        {0: 3, 1: 4},
        {0: 5, 1: 6},
    ]


@pytest.mark.parametrize("restarts", [False, True])
def test_cell_that_runs_again_appends(daemon: Daemon, restarts: bool) -> None:
    names = notebook(daemon, "append")
    for _ in range(3):
        run_cell(names)
        if restarts:
            daemon.kill()
            daemon.start()
    names["client"].close()
    del names["model"], names["handle"], names["client"]
    run_cell(names)
    names["client"].close()
    found = {}
    with query.connect(daemon.endpoint) as connection:
        for each in connection.tensors.list("run", query.select(io="input")):
            if each.op.endswith(".0"):
                value = connection.tensors.read(each).ravel()[0]
                found.setdefault(each.token, []).append(float(value))
    assert {token: set(values) for token, values in found.items()} == {
        token: {token + 1.0} for token in range(8)
    }
    assert conflicts_of(daemon) == 0


@pytest.mark.parametrize("wait", [0, 5])
def test_clients_of_tests_that_nobody_closes_append(daemon: Daemon, wait: int) -> None:
    endpoint = str(daemon.socket_dir)

    def run_test(value: int) -> None:
        client = msitd.Client(
            "run", endpoint=endpoint, if_exists="append", open_timeout=wait
        )
        model = torch.nn.Linear(3, 3)
        msitd.register_hook(model, client)
        with torch.no_grad():
            model(torch.full((1, 3), float(value)))
        client.record(np.full(3, value), op="own")

    for value in range(4):
        run_test(value)
        gc.collect()
    # The token of a pass has ended when the next record is made.
    values = values_of(daemon)
    own = {token: value for (op, token, _), value in values.items() if op == "own"}
    assert list(own.values()) == [0, 1, 2, 3]
    assert sorted(inputs_of(daemon, op="root").values()) == [0, 1, 2, 3]
    assert conflicts_of(daemon) == 0


@pytest.mark.parametrize("wait", [0, 5])
def test_attempts_that_fail_in_the_middle_append(daemon: Daemon, wait: int) -> None:
    endpoint = str(daemon.socket_dir)
    made = []

    def attempt(number: int) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
        with (
            msitd.Client(
                "run", endpoint=endpoint, if_exists="append", open_timeout=wait
            ) as client,
            msitd.register_hook(model, client, gradients=True),
        ):
            for step in range(3):
                made.append(float(10 * number + step))
                loss = model(torch.full((1, 3), made[-1])).sum()
                if step == 1 and number < 2:
                    raise RuntimeError("of the program")
                loss.backward()
                model.zero_grad()

    for number in range(3):
        try:
            attempt(number)
        except RuntimeError:
            assert number < 2
    assert inputs_of(daemon) == dict(enumerate(made))
    assert conflicts_of(daemon) == 0


def test_threads_share_one_recording(daemon: Daemon) -> None:
    endpoint = str(daemon.socket_dir)
    start = threading.Barrier(4)
    errors = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                if turn == 0:
                    start.wait(30)
                with msitd.Client(
                    "run", endpoint=endpoint, if_exists="append"
                ) as client:
                    client.record(
                        np.full(3, 10 * number + turn), op=f"op{number}.{turn}"
                    )
                    client.next_token()
        except Exception as error:  # noqa: BLE001 - shown by the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    values = values_of(daemon)
    assert {op: value for (op, _, _), value in values.items()} == {
        f"op{number}.{turn}": 10 * number + turn
        for number in range(4)
        for turn in range(5)
    }
    assert conflicts_of(daemon) == 0


def test_last_client_of_a_stream_waits_for_a_flush_of_another(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = str(daemon.socket_dir)
    first, second = (
        msitd.Client("run", endpoint=endpoint, if_exists="append") for _ in range(2)
    )
    for number, client in enumerate((first, second)):
        client.record(np.full(3, number), op=f"op{number}")
    wait = first._copies.wait

    def close_second_and_wait(timeout: float) -> float:
        monkeypatch.setattr(first._copies, "wait", wait)
        second.close()
        return wait(timeout)

    # Runs inside the flush of the first client.
    monkeypatch.setattr(first._copies, "wait", close_second_and_wait)
    assert first.close() == 0
    assert {op: value for (op, _, _), value in values_of(daemon).items()} == {
        "op0": 0,
        "op1": 1,
    }
    # The stream has ended, so the rank is free.
    with msitd.Client("run", endpoint=endpoint, if_exists="replace"):
        pass


def in_child(work: object) -> int:
    """Runs `work` in a forked child. Returns its exit status."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_forked_children_have_recordings_of_their_own(daemon: Daemon) -> None:
    endpoint = str(daemon.socket_dir)
    client = msitd.Client("run", endpoint=endpoint, if_exists="append")
    client.record(np.full(3, 1), op="op")
    client.next_token()
    client.flush()

    def busy() -> None:
        assert not client.record(np.full(3, 99), op="op")
        try:
            msitd.Client("run", endpoint=endpoint, if_exists="append", open_timeout=0.5)
        except msitd.MsitError as error:
            assert "RANK_BUSY" in str(error)
        else:
            raise AssertionError

    def append() -> None:
        with msitd.Client("run", endpoint=endpoint, if_exists="append") as own:
            assert own.token == 1
            own.record(np.full(3, 2), op="op")

    assert in_child(busy) == 0
    client.close()
    assert in_child(append) == 0
    with msitd.Client("run", endpoint=endpoint, if_exists="append") as again:
        again.record(np.full(3, 3), op="op")
    assert values_of(daemon) == {("op", token, 0): token + 1 for token in range(3)}


def test_closed_client_of_a_shared_stream_leaves_its_hooks_silent(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = str(daemon.socket_dir)
    caplog.set_level(logging.WARNING, "msitd")
    first = msitd.Client("run", endpoint=endpoint)
    second = msitd.Client("run", endpoint=endpoint, if_exists="append")
    model = torch.nn.Linear(3, 3)
    handle = msitd.register_hook(model, first)
    first.close()
    with torch.no_grad():
        model(torch.ones(1, 3))
    second.record(np.full(3, 1), op="own")
    second.close()
    assert values_of(daemon) == {("own", 0, 0): 1}
    assert handle.skipped_count == 1
    assert "closed" in caplog.text
    coverage = daemon.ctl("capture", "coverage", "run").stderr
    assert "1 not recorded in 1 rank" in coverage


def test_threads_record_before_the_daemon_is_there(daemon: Daemon) -> None:
    endpoint = str(daemon.socket_dir)
    with msitd.Client("run", endpoint=endpoint, if_exists="append") as client:
        client.record(np.full(3, -1), op="op")
        client.next_token()
        client.record(np.full(3, -2), op="op")
    daemon.kill()
    client = msitd.Client("run", endpoint=endpoint, if_exists="append", open_timeout=0)
    models = [torch.nn.Linear(3, 3) for _ in range(3)]
    handles = [
        msitd.register_hook(model, client, name=f"model{number}", time="step")
        for number, model in enumerate(models)
    ]
    go_on = threading.Barrier(4)

    def work(model: torch.nn.Module) -> None:
        for step in range(6):
            go_on.wait(60)
            with torch.no_grad():
                model(torch.full((1, 3), float(step)))
            client.record_requests([f"step{step}"])
            go_on.wait(60)

    threads = [threading.Thread(target=work, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for step in range(6):
        go_on.wait(60)
        if step == 3:
            # The answer arrives while threads record.
            daemon.start()
        go_on.wait(60)
        client.next_token()
    for thread in threads:
        thread.join(60)
    for handle in handles:
        handle.remove()
    client.close()
    expected = {step + 2: float(step) for step in range(6)}
    for number in range(3):
        assert inputs_of(daemon, op=f"model{number}") == expected
    with query.connect(daemon.endpoint) as connection:
        requests = {
            each.op: each.token
            for each in connection.tensors.list("run", query.select(kinds="document"))
            if each.op.startswith("request/")
        }
    assert requests == {f"request/step{step}": step + 2 for step in range(6)}
    assert conflicts_of(daemon) == 0
