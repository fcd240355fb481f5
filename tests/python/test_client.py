"""The life of a client: options, tokens, calls, flush, close, overflow."""

import gc
import os
import subprocess
import sys
import threading

import grpc
import msitd
import numpy as np
import pytest


def test_the_opening_says_who_streams(daemon):
    with msitd.Client("läuft", 2, 4, daemon.endpoint):
        pass
    assert daemon.opening[1].decode() == "läuft"
    assert daemon.opening[2] == 2
    assert daemon.opening[3] == 4
    assert daemon.opening[4] != 0
    assert daemon.opening[5].startswith(b"msitd-python/")


def test_defaults_come_from_the_environment(daemon, monkeypatch):
    monkeypatch.setenv("MSITD_ENDPOINT", daemon.endpoint)
    monkeypatch.setenv("MSITD_RUN", "from-env")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with msitd.Client():
        pass
    assert daemon.opening[1] == b"from-env"
    assert (daemon.opening[2], daemon.opening[3]) == (1, 2)


def test_nobody_listens():
    with pytest.raises(msitd.MsitError, match="UNAVAILABLE"):
        msitd.Client("run", endpoint="unix:/nonexistent", open_timeout=0.05)


def test_sealed_run_is_refused_at_once(daemon):
    daemon.refusal = (grpc.StatusCode.FAILED_PRECONDITION, "run `run` is sealed")
    with pytest.raises(msitd.MsitError, match="sealed"):
        msitd.Client("run", endpoint=daemon.endpoint)


@pytest.mark.parametrize(
    "options",
    [
        {"run": ""},
        {"run": "r" * 129},
        {"rank": 1},
        {"rank": -1},
        {"world_size": 0},
        {"endpoint": "nonsense"},
        {"device": ""},
        {"max_block": -1.0},
        {"overflow": "drop-all"},
    ],
)
def test_bad_options_are_refused(daemon, options):
    with pytest.raises(ValueError):
        msitd.Client(**{"run": "run", "endpoint": daemon.endpoint, **options})


def test_place_arrives_as_given(recorded):
    record = recorded(
        np.zeros(3, np.float32),
        op="model/läyer 1",
        io="grad_weight",
        index="a.0",
        token=7,
        call=5,
        device="npu:3",
    )
    assert record.place == (7, "model/läyer 1", 5, "grad_weight", "a.0")
    assert record.device == "npu:3"


def test_defaults_of_a_record(recorded):
    record = recorded(np.zeros(3, np.float32))
    assert record.place == (0, "op", 0, "output", "0")
    assert record.device == "cpu:0"
    assert recorded(np.zeros(3, np.float32)).call == 1


@pytest.mark.parametrize(
    "place",
    [
        {"op": ""},
        {"op": "o" * 1025},
        {"op": "a\0b", "io": "inputs"},
        {"io": "inputs"},
        {"index": "i" * 129},
        {"token": -2},
        {"token": 1 << 40},
        {"call": -2},
        {"device": "d" * 33},
    ],
)
def test_bad_places_are_refused(client, place):
    with pytest.raises(ValueError):
        client.record(np.zeros(3), **{"op": "op", **place})


def test_tokens_advance(client, daemon):
    assert client.token == 0
    assert client.next_token() == 1
    client.token = 41
    assert client.next_token() == 42
    client.record(np.zeros(1), op="op")
    client.flush()
    assert daemon.records[0].token == 42
    with pytest.raises(ValueError):
        client.token = -1


def test_begin_call_counts_within_the_token(client):
    assert [client.begin_call("a") for _ in range(3)] == [0, 1, 2]
    assert client.begin_call("b") == 0
    assert client.begin_call("a", token=9) == 0
    client.next_token()
    assert client.begin_call("a") == 0


def test_counters(client, daemon):
    client.record(np.zeros(4, np.float32), op="op")
    with pytest.raises(ValueError):
        client.record(np.zeros(4), op="")
    client.flush()
    counters = client.counters()
    assert counters.recorded_count == counters.acknowledged_count == 1
    assert counters.recorded_bytes == counters.acknowledged_bytes == 16
    assert counters.invalid_count == 1
    assert counters.dropped_count == 0
    assert client.stream_error() == ""


def test_closed_client_refuses(daemon):
    client = msitd.Client("run", endpoint=daemon.endpoint)
    client.record(np.zeros(4), op="op")
    client.close()
    client.close()
    assert len(daemon.records) == 1
    with pytest.raises(msitd.MsitError, match="closed"):
        client.record(np.zeros(4), op="op")
    with pytest.raises(msitd.MsitError, match="closed"):
        client.flush()
    assert client.counters().acknowledged_count == 1


def test_flush_runs_out_of_time(client, daemon):
    daemon.hold()
    client.record(np.zeros(4), op="op")
    with pytest.raises(TimeoutError):
        client.flush(timeout=0.01)
    daemon.release()
    client.flush()


def test_full_memory_drops_and_counts(daemon, caplog):
    daemon.hold()
    client = msitd.Client(
        "run", endpoint=daemon.endpoint, max_block=0.0, buffer_bytes=0
    )
    big = np.zeros(4 << 20, np.uint8)
    taken = [client.record(big, op="op") for _ in range(5)]
    assert taken == [True, True, False, False, False]
    assert client.counters().dropped_count == 3
    assert len([r for r in caplog.records if r.name == "msitd"]) == 1
    daemon.release()
    with pytest.raises(msitd.DroppedError):
        client.close()
    assert daemon.dropped_count == 3


def test_drop_newest_never_waits(daemon):
    daemon.hold()
    client = msitd.Client(
        "run",
        endpoint=daemon.endpoint,
        max_block=600.0,
        buffer_bytes=0,
        overflow="drop-newest",
    )
    big = np.zeros(4 << 20, np.uint8)
    assert [client.record(big, op="op") for _ in range(3)] == [True, True, False]
    daemon.release()
    assert client.close(check=False) == 1


def test_drop_oldest_token_makes_room_for_the_newest(daemon):
    daemon.hold()
    client = msitd.Client(
        "run",
        endpoint=daemon.endpoint,
        max_block=600.0,
        buffer_bytes=0,
        overflow="drop-oldest-token",
    )
    for token in range(20):
        assert client.record(np.zeros(4), op="op", token=token)
    daemon.release()
    lost_count = client.close(check=False)
    counters = client.counters()
    assert counters.dropped_count == lost_count
    assert counters.dropped_count == 20 - counters.acknowledged_count
    assert daemon.records[-1].token == 19
    assert len(daemon.records) == counters.acknowledged_count <= 2


def test_degraded_records_are_counted(daemon):
    daemon.hold()
    client = msitd.Client(
        "run",
        endpoint=daemon.endpoint,
        max_block=600.0,
        buffer_bytes=3 * (9 << 19),
        overflow="degrade",
    )
    for _ in range(3):
        assert client.record(np.zeros(4 << 20, np.uint8), op="op")
    daemon.release()
    client.close()
    counters = client.counters()
    assert counters.acknowledged_count == 3
    assert counters.degraded_count == 1


def test_waiting_releases_the_gil(daemon):
    # The fake daemon runs in this process: if record kept the GIL while it
    # waits for memory, the daemon could not free any.
    client = msitd.Client(
        "run", endpoint=daemon.endpoint, max_block=60.0, buffer_bytes=0
    )
    big = np.zeros(4 << 20, np.uint8)
    assert all(client.record(big, op="op") for _ in range(10))
    client.close()
    assert len(daemon.records) == 10


def test_threads_record_at_the_same_time(client, daemon):
    def work(number):
        for i in range(50):
            client.record(np.full(100 * i, number, np.int32), op=f"t{number}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.flush()
    records = daemon.records
    assert len(records) == 200
    for record in records:
        values = np.frombuffer(record.data, np.int32)
        assert (values == int(record.op[1:])).all()


def test_forked_child_is_off(client, daemon):
    client.record(np.zeros(1), op="parent")
    child = os.fork()
    if child == 0:
        is_off = not client.record(np.zeros(1), op="child")
        is_counted = client.counters().dropped_count == 1
        client.close()
        os._exit(0 if is_off and is_counted else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    client.flush()
    assert [r.op for r in daemon.records] == ["parent"]


def test_exit_of_the_interpreter_closes(daemon):
    script = (
        "import sys, array, msitd\n"
        "client = msitd.Client('run', endpoint=sys.argv[1], linger=60.0)\n"
        "client.record(array.array('d', [1, 2, 3]), op='op')\n"
    )
    subprocess.run([sys.executable, "-c", script, daemon.endpoint], check=True)
    assert daemon.records[0].shape == (3,)


def test_garbage_collection_closes(daemon):
    client = msitd.Client("run", endpoint=daemon.endpoint, linger=60.0)
    client.record(np.zeros(3), op="op")
    del client
    gc.collect()
    assert len(daemon.records) == 1


def test_error_in_the_with_block_comes_through(daemon):
    with pytest.raises(KeyError), msitd.Client("run", endpoint=daemon.endpoint):
        raise KeyError


def test_neither_torch_nor_numpy_is_imported(daemon):
    script = (
        "import sys, msitd\n"
        "client = msitd.Client('run', endpoint=sys.argv[1])\n"
        "client.record(b'abc', op='op')\n"
        "client.close()\n"
        "assert not {'torch', 'numpy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script, daemon.endpoint], check=True)
    assert daemon.records[0].data == b"abc"


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"op": "a\0b"}, ValueError, "op has a NUL character"),
        ({"op": "a\ud800b"}, ValueError, "op has a lone surrogate at 1"),
        ({"op": 5}, TypeError, "op is of type int, not str"),
        ({"op": None}, TypeError, "op is of type NoneType, not str"),
        ({"op": b"x"}, TypeError, "op is of type bytes, not str"),
        ({"index": 3}, TypeError, "index is of type int, not str"),
        ({"index": "1\0"}, ValueError, "index has a NUL character"),
        ({"device": "cpu\0"}, ValueError, "device has a NUL character"),
        ({"placement": 1}, TypeError, "placement is of type int, not str"),
        ({"token": "x"}, TypeError, "token is of type str, not int"),
        ({"token": 1.5}, TypeError, "token is of type float, not int"),
        ({"token": 1 << 80}, ValueError, "token does not fit into 64 bits"),
        ({"call": 1 << 40}, ValueError, "call does not fit into 32 bits"),
    ],
)
def test_what_is_wrong_with_a_record_is_said_in_one_line(daemon, options, kind, text):
    with msitd.Client("run", endpoint=daemon.endpoint) as client:
        with pytest.raises(kind) as caught:
            client.record(np.ones(1, np.float32), **{"op": "op", **options})
        assert text in str(caught.value)
        assert "\n" not in str(caught.value)
        if list(options) == ["op"]:
            with pytest.raises(kind, match=text):
                client.begin_call(options["op"])
            with pytest.raises(kind, match=text):
                client.selects(options["op"])
        client.flush()
        assert client.counters().recorded_count == 0


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"run": "a\0b"}, ValueError, "run has a NUL character"),
        ({"run": "\udfff"}, ValueError, "run has a lone surrogate at 0"),
        ({"run": 5}, TypeError, "run is of type int, not str"),
        ({"rank": "1"}, TypeError, "rank is of type str, not int"),
        ({"rank": 1 << 40}, ValueError, "rank does not fit into 32 bits"),
        ({"device": 1}, TypeError, "device is of type int, not str"),
        ({"endpoint": 1}, TypeError, "endpoint is of type int, not str"),
    ],
)
def test_what_is_wrong_with_a_client_is_said_in_one_line(daemon, options, kind, text):
    with pytest.raises(kind) as caught:
        msitd.Client(**{"run": "run", "endpoint": daemon.endpoint, **options})
    assert text in str(caught.value) and "\n" not in str(caught.value)
