"""Tensors of a device that are copied to the host together."""

import threading
import time

import msitd
import pytest
import torch
from fake_device import FakeDevice, Stream, on_device
from msitd._core.devices import batch, streams, underway

# Time in seconds in which a record that must not be sent would have arrived.
SHORT = 0.2


@pytest.fixture
def device(monkeypatch):
    fake = FakeDevice()
    monkeypatch.setitem(streams._by_type, "cuda", streams.Accelerator(torch, fake))
    # Only steps of a test launch a batch.
    monkeypatch.setattr(underway, "LINGER", 60)
    yield fake
    fake.run()


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def record(client, numbers):
    for number in numbers:
        assert client.record(on_device(torch.tensor([number])), op=f"op{number}")


def test_a_full_batch_has_one_event(client, daemon, device):
    record(client, range(batch.COUNT_MAX))
    assert len(device.events) == 1
    assert device.side[0].waited_for == [device.main]
    device.run()
    client.flush()
    assert [r.data[0] for r in daemon.records] == list(range(batch.COUNT_MAX))


def test_many_bytes_are_a_batch(client, daemon, device):
    for number in range(3):
        tensor = torch.full((batch.BYTES_MAX // 2,), number, dtype=torch.uint8)
        assert client.record(on_device(tensor), op=f"op{number}")
    assert len(device.events) == 1
    # A flush launches the open batch.
    with pytest.raises(TimeoutError):
        client.flush(SHORT)
    assert len(device.events) == 2
    device.run()
    client.flush()
    assert {r.op: r.data[0] for r in daemon.records} == {"op0": 0, "op1": 1, "op2": 2}


def test_a_batch_that_is_open_for_long_is_launched(client, daemon, device, monkeypatch):
    monkeypatch.setattr(underway, "LINGER", 0.01)
    record(client, range(3))
    wait_until(lambda: device.events)
    device.run()
    client.flush()
    assert len(daemon.records) == 3


def test_another_stream_has_another_batch(client, daemon, device):
    record(client, [0, 1])
    main, device.main = device.main, Stream(torch.device("cuda:1"))
    record(client, [2])
    # The copies of the first stream are already under way.
    assert len(device.events) == 1
    assert device.side[0].waited_for == [main]
    with pytest.raises(TimeoutError):
        client.flush(SHORT)
    assert device.side[0].waited_for == [main, device.main]
    device.run()
    client.flush()
    assert [r.op for r in daemon.records] == ["op0", "op1", "op2"]


def test_a_hook_that_waits_for_room_launches_what_is_open(
    client, daemon, device, monkeypatch
):
    monkeypatch.setattr(underway, "PENDING_MAX", 2)
    record(client, [0, 1])
    assert device.events == []
    hook = threading.Thread(target=record, args=(client, [2]))
    hook.start()
    wait_until(lambda: device.events)
    device.run()
    hook.join(30)
    assert not hook.is_alive()
    client.close(SHORT, check=False)
    device.run()


@pytest.mark.parametrize("how", ["close", "forget"])
def test_the_end_launches_what_is_open(daemon, device, how):
    client = msitd.Client("run", endpoint=daemon.endpoint)
    record(client, range(3))
    is_over = threading.Event()

    def run_device():
        while not is_over.is_set():
            device.run()
            time.sleep(0.001)

    thread = threading.Thread(target=run_device)
    thread.start()
    if how == "close":
        client.close()
    else:
        del client
    wait_until(lambda: len(daemon.records) == 3)
    is_over.set()
    thread.join()


def test_a_batch_that_fails_to_launch_is_dropped(client, daemon, device, monkeypatch):
    record(client, [0, 1])
    with monkeypatch.context() as patch:

        def fail(*_):
            raise RuntimeError("no streams left")

        patch.setattr(Stream, "wait_stream", fail)
        assert client.flush(check=False) == 2
    record(client, [2])
    client._copies.underway.launch()
    device.run()
    client.flush()
    assert [r.op for r in daemon.records] == ["op2"]


def test_batches_beside_each_other_keep_their_order(client, daemon, device):
    client_is_over = threading.Event()

    def run_device():
        while not client_is_over.is_set():
            device.run()
            time.sleep(0.0005)

    thread = threading.Thread(target=run_device)
    thread.start()
    record(client, range(250))
    client.flush()
    client_is_over.set()
    thread.join()
    assert [r.op for r in daemon.records] == [f"op{n}" for n in range(250)]
    assert len(device.events) < 250 / 8
