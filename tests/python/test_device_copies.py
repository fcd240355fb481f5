"""Tensors of devices, whose bytes arrive after the hook has returned."""

import os
import threading
import time

import msitd
import pytest
import torch
from fake_device import FakeDevice, OnDevice, on_device
from msitd._core.devices import batch, streams, underway
from msitd._core.devices.pins import Pins
from msitd._core.leaf import parts

# Time in seconds in which a record that must not be sent would have arrived.
SHORT = 0.2


@pytest.fixture
def device(monkeypatch):
    fake = FakeDevice()
    # One batch per tensor; test_device_batches has larger ones.
    monkeypatch.setattr(batch, "COUNT_MAX", 1)
    accelerator = streams.Accelerator(torch, fake)
    monkeypatch.setitem(streams._by_type, "cuda", accelerator)
    monkeypatch.setattr(
        torch.Tensor, "cpu", lambda self: pytest.fail("it waits for the device")
    )
    yield fake
    fake.run()


def bytes_of(tensor):
    plain = tensor.as_subclass(torch.Tensor).resolve_conj().resolve_neg()
    return plain.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_nothing_is_sent_before_the_event(client, daemon, device):
    tensor = on_device(torch.arange(6.0).view(2, 3))
    begin = time.monotonic()
    assert client.record(tensor, op="op")
    assert client.record(torch.ones(2), op="behind")
    assert time.monotonic() - begin < 10
    with pytest.raises(TimeoutError):
        client.flush(SHORT)
    assert daemon.records == []
    # The bytes have arrived, but the device has not reported it.
    device.run(1)
    with pytest.raises(TimeoutError):
        client.flush(SHORT)
    assert daemon.records == []
    device.run()
    client.flush()
    assert [r.op for r in daemon.records] == ["op", "behind"]
    record = daemon.records[0]
    assert record.data == bytes_of(tensor)
    assert record.device == "cuda:1"
    assert record.shape == (2, 3)
    assert record.dtype == "float32"
    assert device.side[0].waited_for == [device.main]


def test_later_changes_are_not_recorded(client, daemon, device):
    tensor = on_device(torch.arange(6.0))
    before = bytes_of(tensor)
    assert client.record(tensor, op="op", token=3)
    tensor.add_(1)
    client.token = 4
    device.run()
    client.flush()
    assert daemon.records[0].data == before
    assert daemon.records[0].token == 3


def test_token_and_calls_are_those_of_the_hook(client, daemon, device):
    for number in range(3):
        assert client.record(on_device(torch.tensor([number])), op="op")
    client.next_token()
    assert client.record(on_device(torch.tensor([3])), op="op")
    device.run()
    client.flush()
    assert [(r.token, r.call, r.data[0]) for r in daemon.records] == [
        (0, 0, 0),
        (0, 1, 1),
        (0, 2, 2),
        (1, 0, 3),
    ]


COMPLEX = torch.tensor([[1 + 2j, 3 - 4j], [5j, 6]])


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(24).view(2, 3, 4).transpose(0, 2)[1:],
        torch.tensor(True),
        torch.ones(3, dtype=torch.bfloat16).expand(2, 3),
        torch.ones(5).to(torch.float8_e4m3fn),
        COMPLEX.conj(),
        COMPLEX.conj().imag,
        torch.ones(2, 2).as_strided((2, 2), (1, 1)),
        torch.ones(3, requires_grad=True),
    ],
)
def test_views_and_dtypes(client, daemon, device, tensor):
    assert client.record(on_device(tensor), op="op")
    device.run()
    client.flush()
    record = daemon.records[0]
    assert record.data == bytes_of(tensor.detach())
    assert record.shape == tuple(tensor.shape)
    assert record.dtype == str(tensor.dtype).removeprefix("torch.")
    assert record.requires_grad is tensor.requires_grad


def test_tensor_without_elements_needs_no_copy(client, daemon, device):
    assert client.record(on_device(torch.ones(0, 3)), op="op")
    client.flush()
    assert daemon.records[0].shape == (0, 3)
    assert device.events == []


def test_large_tensor_in_parts(client, daemon, device):
    tensor = on_device(torch.arange(3 << 20, dtype=torch.int32))
    assert client.record(tensor, op="op")
    with pytest.raises(TimeoutError):
        client.flush(SHORT)
    assert daemon.records == []
    device.run()
    client.flush()
    assert b"".join(r.data for r in daemon.records) == bytes_of(tensor)
    assert client.counters().acknowledged_count == 1


def test_tensor_for_which_there_is_no_memory_is_waited_for(
    client, daemon, device, monkeypatch
):
    monkeypatch.setattr(
        OnDevice, "cpu", lambda self: self.as_subclass(torch.Tensor), raising=False
    )
    tensor = on_device(torch.arange(40 << 20, dtype=torch.uint8))
    assert client.record(tensor, op="op")
    client.flush()
    assert b"".join(r.data for r in daemon.records) == bytes_of(tensor)
    assert device.events == []


def test_device_without_streams_is_waited_for(client, daemon, monkeypatch):
    monkeypatch.setattr(streams, "_by_type", {})
    monkeypatch.setattr(torch, "cuda", object())
    monkeypatch.setattr(
        OnDevice, "cpu", lambda self: self.as_subclass(torch.Tensor), raising=False
    )
    assert client.record(on_device(torch.ones(3)), op="op")
    client.flush()
    assert daemon.records[0].data == bytes_of(torch.ones(3))


def test_wrapper_without_memory_is_no_loss(client, daemon, device, monkeypatch):
    class Wrapper(OnDevice):
        def data_ptr(self):
            return 0

        def cpu(self):
            return self

    monkeypatch.setattr(
        parts, "parts_of", lambda leaf: [("inner", on_device(torch.ones(3)))]
    )
    model = torch.nn.Identity()
    with msitd.register_hook(model, client, inputs=False) as handle:
        model(torch.ones(3).as_subclass(Wrapper))
    device.run()
    client.flush()
    assert [r.index for r in daemon.records] == ["0.inner"]
    assert handle.skipped == {}
    assert client.counters().dropped_count == 0


def test_alias_is_not_copied(client, daemon, device):
    tensor = on_device(torch.arange(6.0))
    for op in ("a", "b"):
        assert client.record(tensor, op=op, identity=7)
    assert len(device.events) == 1
    device.run()
    client.flush()
    assert [r.alias_of for r in daemon.records] == [None, ("a", 0, "output", "0")]


def test_hook_waits_for_the_oldest_of_too_many(client, daemon, device, monkeypatch):
    monkeypatch.setattr(underway, "PENDING_MAX", 2)
    for number in range(2):
        assert client.record(on_device(torch.tensor([number])), op="op")
    hook = threading.Thread(
        target=client.record, args=(on_device(torch.tensor([2])),), kwargs={"op": "op"}
    )
    hook.start()
    hook.join(SHORT)
    assert hook.is_alive()
    assert len(device.events) == 2
    device.run(2)
    hook.join(30)
    assert not hook.is_alive()
    device.run()
    client.flush()
    assert [r.data[0] for r in daemon.records] == [0, 1, 2]


@pytest.mark.parametrize(("bound", "size"), [("PENDING_BYTES_MAX", 40), ("", 1 << 22)])
def test_record_is_dropped_if_the_device_is_behind(
    daemon, device, monkeypatch, bound, size
):
    if bound:
        monkeypatch.setattr(underway, bound, 64)
    with msitd.Client(
        "run", endpoint=daemon.endpoint, max_block=SHORT, buffer_bytes=0, on_drop="warn"
    ) as client:
        tensor = on_device(torch.ones(size, dtype=torch.uint8))
        assert client.record(tensor, op="op")
        if bound:
            with pytest.raises(RuntimeError, match="within max_block"):
                client.record(tensor, op="op")
        else:
            # The memory of the client is also full.
            assert client.record(tensor, op="op")
            assert not client.record(tensor, op="op")
        assert client.counters().dropped_count == 1
        device.run()
        client.flush()
        assert client.counters().acknowledged_count == (1 if bound else 2)


def test_copy_that_fails_is_counted(client, daemon, device, caplog):
    for op in ("a", "b", "c"):
        assert client.record(on_device(torch.ones(3)), op=op)
    device.events[1].error = RuntimeError("device lost")
    device.run()
    with pytest.raises(msitd.DroppedError):
        client.flush()
    assert [r.op for r in daemon.records] == ["a", "c"]
    assert client.counters().dropped_count == 1
    assert "b 0 is not recorded: the copy from the device failed: device lost" in (
        caplog.text
    )
    client.flush()
    (document,) = [t for n, t in daemon.documents.items() if "not_recorded" in n]
    assert "the copy from the device failed: device lost" in document


@pytest.mark.parametrize("where", ["snapshot", "copy"])
def test_device_that_fails_in_the_hook_is_counted(
    client, daemon, device, monkeypatch, where
):
    def fail(*_):
        raise RuntimeError("out of memory")

    class Model(torch.nn.Module):
        def forward(self, x):
            return x.mul(2)

    model = Model()
    with msitd.register_hook(model, client) as handle:
        with monkeypatch.context() as patch:
            patch.setattr(streams.Accelerator, where, fail)
            model(on_device(torch.ones(3)))
        model(on_device(torch.ones(3)))
        # A hook takes the snapshot; the copy may follow later.
        told = {"out of memory": 2} if where == "snapshot" else {}
        assert handle.skipped == told
    device.run()
    with pytest.raises(msitd.DroppedError):
        client.flush()
    assert [(r.io, r.data) for r in daemon.records] == [
        ("input", bytes_of(torch.ones(3))),
        ("output", bytes_of(torch.full((3,), 2.0))),
    ]


def test_memory_is_given_back_when_the_device_is_done_with_it(
    client, daemon, device, monkeypatch
):
    tensor = on_device(torch.ones(3))
    assert client.record(tensor, op="a")
    with monkeypatch.context() as patch:
        # The copy is already under way.
        patch.setattr(device, "Event", lambda **_: pytest.fail("no events left"))
        with pytest.raises(pytest.fail.Exception):
            client.record(tensor, op="b")
    assert device.side[0].work == []
    assert client.record(tensor, op="c")
    device.run()
    with pytest.raises(msitd.DroppedError):
        client.flush()
    assert [r.op for r in daemon.records] == ["a", "c"]


def test_close_does_not_wait_for_ever(client, daemon, device):
    assert client.record(torch.ones(3), op="sent")
    client.flush()
    assert client.record(on_device(torch.ones(3)), op="op")
    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        client.close(SHORT)
    assert time.monotonic() - begin < 20
    assert client.counters().dropped_count == 1
    # The device still has the memory.
    device.run()
    wait_until(lambda: client._copies.underway.collector is None)
    assert [r.op for r in daemon.records] == ["sent"]
    with pytest.raises(msitd.MsitError):
        client.record(on_device(torch.ones(3)), op="op")
    assert client.counters().dropped_count == 2


def test_close_waits_for_copies(client, daemon, device):
    assert client.record(on_device(torch.ones(3)), op="op")
    timer = threading.Timer(SHORT, device.run)
    timer.start()
    client.close()
    timer.join()
    assert daemon.records[0].data == bytes_of(torch.ones(3))
    wait_until(lambda: client._copies.underway.collector is None)


def test_forgotten_client_ends_its_thread(daemon, device):
    client = msitd.Client("run", endpoint=daemon.endpoint)
    assert client.record(on_device(torch.ones(3)), op="op")
    device.run()
    collector = client._copies.underway.collector
    del client
    collector.join(30)
    assert not collector.is_alive()
    assert len(daemon.records) == 1


def test_what_copies_do_is_not_recorded(client, daemon, device):
    with msitd.register_api(client, operators=True, values=False) as handle:
        torch.ones(3).as_subclass(OnDevice).add_(1)
    assert handle.skipped == {}
    device.run()
    client.flush()
    functions = {r.op.split(".")[1] for r in daemon.records}
    assert functions == {"ones", "add_"}


def test_copies_outlive_the_handle(client, daemon, device):
    model = torch.nn.Identity()
    handle = msitd.register_hook(model, client)
    model(on_device(torch.ones(3)))
    handle.remove()
    assert daemon.records == []
    device.run()
    client.flush()
    assert [r.io for r in daemon.records] == ["input", "output"]


def test_forked_child_forgets_copies(client, daemon, device):
    assert client.record(on_device(torch.ones(3)), op="op")
    child = os.fork()
    if child == 0:
        try:
            is_off = not client.record(on_device(torch.ones(3)), op="op")
            client.close()
            os._exit(0 if is_off and len(device.events) == 1 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    device.run()
    client.flush()
    assert len(daemon.records) == 1


def test_threads_record_at_once(client, daemon, device):
    is_over = threading.Event()

    def run_device():
        while not is_over.is_set():
            device.run()

    def record(thread):
        for number in range(100):
            tensor = on_device(torch.full((1000,), number, dtype=torch.uint8))
            assert client.record(tensor, op=f"{thread}.{number}")

    device_thread = threading.Thread(target=run_device)
    device_thread.start()
    threads = [threading.Thread(target=record, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.flush()
    is_over.set()
    device_thread.join()
    assert len(daemon.records) == 400
    for record in daemon.records:
        assert record.data == bytes([int(record.op.split(".")[1])]) * 1000
    assert len({r.op for r in daemon.records}) == 400


def test_memory_that_is_not_shared_is_said_once(client, device, caplog):
    for _ in range(2):
        assert client.record(on_device(torch.ones(3)), op="op")
    assert caplog.text.count("is not pinned") == 1
    assert device.pinned == {}


class TwoPieces:
    """A native client with memory that can be pinned."""

    def memory(self):
        return [(1000, 500), (2000, 500)]


def test_memory_is_pinned_once(device, caplog):
    accelerator = streams.Accelerator(torch, device)
    pins = Pins(TwoPieces())
    for address in (1000, 1499, 1200):
        pins.cover(accelerator, address)
    assert device.pinned == {1000: 500}
    pins.cover(accelerator, 2000)
    assert device.pinned == {1000: 500, 2000: 500}
    assert caplog.text == ""
    pins.cover(accelerator, 1500)
    assert caplog.text.count("not shared with a daemon") == 1
    pins.remove()
    assert device.pinned == {}


def test_memory_that_is_refused_is_not_asked_for_again(device, caplog):
    accelerator = streams.Accelerator(torch, device)
    pins = Pins(TwoPieces())
    device.pin_error = 801
    pins.cover(accelerator, 1000)
    device.pin_error = 0
    pins.cover(accelerator, 1000)
    assert device.pinned == {}
    assert caplog.text.count("cudaHostRegister says 801") == 1
    pins.remove()
