"""Lost records are reported once, and never disturb the program."""

import gc
import logging
import subprocess
import sys

import grpc
import msitd
import numpy as np
import pytest
from fake_daemon import FakeDaemon
from msitd._core.counters import Counters
from msitd._core.losses import Losses

BIG = np.zeros(4 << 20, np.uint8)


def lossy_client(daemon: FakeDaemon, **options: object) -> msitd.Client:
    """Returns a client that has accepted two records and dropped three."""
    daemon.hold()
    client = msitd.Client(
        "run", endpoint=daemon.endpoint, max_block=0.0, buffer_bytes=0, **options
    )
    taken = [client.record(BIG, op="op") for _ in range(5)]
    assert taken == [True, True, False, False, False]
    daemon.release()
    return client


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Returns log lines about losses. The first drop has its own line."""
    return [m for m in caplog.messages if "were dropped and" in m]


def test_flush_raises_and_says_each_loss_once(daemon):
    client = lossy_client(daemon)
    with pytest.raises(msitd.DroppedError, match="3 records were dropped") as lost:
        client.flush()
    assert (lost.value.dropped_count, lost.value.truncated_count) == (3, 0)
    assert client.flush() == 0
    assert client.close() == 0
    assert client.counters().acknowledged_count == 2


def test_close_raises_when_flush_has_not(daemon):
    client = lossy_client(daemon)
    with pytest.raises(msitd.DroppedError):
        client.close()
    assert client.close() == 0


def test_dropped_error_is_an_error_of_ours(daemon):
    assert issubclass(msitd.DroppedError, msitd.MsitError)


def test_caller_may_ask_for_the_count_instead(daemon, caplog):
    client = lossy_client(daemon)
    assert client.flush(check=False) == 3
    assert client.flush(check=False) == 0
    assert client.close(check=False) == 0
    assert warnings_of(caplog) == []


def test_client_may_be_told_to_warn(daemon, caplog):
    client = lossy_client(daemon, on_drop="warn")
    assert client.flush() == 3
    client.close()
    assert len(warnings_of(caplog)) == 1
    with pytest.raises(ValueError, match="on_drop"):
        msitd.Client("run", endpoint=daemon.endpoint, on_drop="ignore")


def test_truncated_records_count_as_lost(daemon):
    daemon.hold()
    client = msitd.Client(
        "run", endpoint=daemon.endpoint, max_block=0.0, buffer_bytes=0
    )
    assert not client.record(np.zeros(20 << 20, np.uint8), op="large")
    daemon.release()
    with pytest.raises(msitd.DroppedError, match="1 truncated") as lost:
        client.flush()
    assert (lost.value.dropped_count, lost.value.truncated_count) == (0, 1)
    client.close()


def test_close_that_runs_out_of_time_counts_what_it_drops(daemon):
    daemon.hold()
    client = msitd.Client("run", endpoint=daemon.endpoint)
    client.record(np.zeros(4), op="op")
    assert client.close(timeout=0.01, check=False) == 1
    again = msitd.Client("run", endpoint=daemon.endpoint, open_timeout=0)
    again.record(np.zeros(4), op="op")
    with pytest.raises(TimeoutError):
        again.close(timeout=0.01)
    daemon.release()


@pytest.mark.parametrize("on_drop", ["raise", "warn"])
def test_flush_and_close_tell_the_end_of_the_stream_alike(daemon, on_drop):
    daemon.refusal = (grpc.StatusCode.FAILED_PRECONDITION, "run `run` is sealed")
    client = msitd.Client(
        "run", endpoint=daemon.endpoint, open_timeout=0, on_drop=on_drop
    )
    client.record(np.zeros(4), op="op")
    assert client.flush(check=False) == 1
    with pytest.raises(msitd.MsitError, match="sealed"):
        client.flush(check=True)
    if on_drop == "warn":
        assert client.flush() == client.close() == 0
    else:
        with pytest.raises(msitd.MsitError, match="sealed"):
            client.close()


def test_no_check_does_not_hide_a_wrong_argument(client):
    for call in (client.flush, client.close):
        with pytest.raises(ValueError, match="negative"):
            call(-1.0, check=False)
    assert client.record(np.zeros(4), op="op")
    assert client.close() == 0


def test_with_block_raises_at_its_end(daemon):
    with pytest.raises(msitd.DroppedError), lossy_client(daemon):
        pass


def test_error_in_the_with_block_is_not_replaced(daemon, caplog):
    with pytest.raises(KeyError), lossy_client(daemon):
        raise KeyError
    assert len(warnings_of(caplog)) == 1


def test_client_that_nobody_closed_warns(daemon, caplog):
    client = lossy_client(daemon)
    del client
    gc.collect()
    assert len(warnings_of(caplog)) == 1


def test_exit_of_the_interpreter_warns_and_succeeds(daemon):
    script = (
        "import sys, msitd\n"
        "client = msitd.Client('run', endpoint=sys.argv[1], max_block=0.0,\n"
        "                      buffer_bytes=0, close_timeout=0.1)\n"
        "for _ in range(3):\n"
        "    client.record(bytes(4 << 20), op='op')\n"
    )
    daemon.hold()
    result = subprocess.run(
        [sys.executable, "-c", script, daemon.endpoint],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    daemon.release()
    assert "3 records were dropped" in result.stderr
    assert "Traceback" not in result.stderr


def test_hooks_do_not_raise_what_was_lost(daemon, caplog):
    torch = pytest.importorskip("torch")
    client = lossy_client(daemon)
    model = torch.nn.Identity()
    with msitd.register_hook(model, client):
        model(torch.zeros(1))
    assert client.flush(check=False) >= 3
    client.close()
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


def test_a_signal_handler_may_close_while_losses_are_counted():
    class Native:
        def __init__(self):
            self.dropped = 3
            self.handler = None

        def counters(self):
            seen, handler = self.dropped, self.handler
            self.handler = None
            if handler:
                handler()
            values = dict.fromkeys(Counters._fields, 0) | {"dropped_count": seen}
            return tuple(values.values())

    def handle():
        native.dropped = 5
        told.append(losses.take())

    native, told = Native(), []
    losses = Losses(native)
    native.handler = handle
    told.append(losses.take())
    told.append(losses.take())
    assert told == [(5, 0), (0, 0), (0, 0)]


def test_conflicts_are_said_once(caplog):
    class Native:
        conflicts = 0

        def counters(self):
            counts = dict.fromkeys(Counters._fields, 0)
            return tuple((counts | {"conflict_count": self.conflicts}).values())

        def run(self):
            return "used-again"

    native = Native()
    losses = Losses(native)
    losses.warn_of_conflicts()
    assert caplog.messages == []
    for native.conflicts in (2, 3):
        losses.warn_of_conflicts()
    (line,) = caplog.messages
    assert "run 'used-again' had 2 of these records already" in line
    assert losses.take() == (0, 0)


def test_if_exists_is_one_of_four(daemon):
    with pytest.raises(ValueError, match="if_exists"):
        msitd.Client("run", endpoint=daemon.endpoint, if_exists="overwrite")
    with pytest.raises(ValueError, match="open_timeout"):
        msitd.Client("run", endpoint=daemon.endpoint, if_exists="new", open_timeout=0)
    for if_exists in ("fail", "append", "replace", "new"):
        with msitd.Client(
            "run", endpoint=daemon.endpoint, if_exists=if_exists
        ) as client:
            assert client.run == "run"
