"""Tensors of devices that the device itself reduces to statistics."""

import json
import math
import os
import threading

import msitd
import pytest
import torch
from fake_device import FakeDevice, on_device
from msitd._core.devices import batch, reductions, streams
from msitd._core.devices.copies import DeviceCopies

# Time in seconds in which a record that must not be sent would have arrived.
SHORT = 0.2


@pytest.fixture
def device(monkeypatch):
    fake = FakeDevice()
    # One batch per tensor; test_device_batches has larger ones.
    monkeypatch.setattr(batch, "COUNT_MAX", 1)
    monkeypatch.setattr(reductions, "BYTES_MIN", 0)
    monkeypatch.setitem(streams._by_type, "cuda", streams.Accelerator(torch, fake))
    yield fake
    fake.run()


is_summary = DeviceCopies._is_summary


@pytest.fixture(autouse=True)
def summaries(monkeypatch):
    """Replaces the policy; test_real_daemon has a real one."""
    monkeypatch.setattr(DeviceCopies, "_is_summary", lambda self, place: True)


@pytest.fixture
def reducing(daemon):
    """A client whose policy selects only summaries."""
    with msitd.Client(
        "run", endpoint=daemon.endpoint, reduce_on_device=True, on_drop="warn"
    ) as client:
        yield client


def expected_of(tensor):
    plain = tensor.as_subclass(torch.Tensor)
    wide = plain.to(torch.float64)
    expected = {
        "max": wide.max().item(),
        "min": wide.min().item(),
        "mean": wide.mean().item(),
        "l2_norm": wide.square().sum().sqrt().item(),
        "count": plain.numel(),
    }
    if plain.dtype.is_floating_point:
        expected["nan_count"] = int(wide.isnan().sum())
        expected["pos_inf_count"] = int((wide == math.inf).sum())
        expected["neg_inf_count"] = int((wide == -math.inf).sum())
    return expected


def is_close(a, b):
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-12)


def reduced(tensor):
    packed, told = reductions.reduce(torch, tensor)
    return told.statistics(packed)


torch.manual_seed(0)
TENSORS = [
    torch.randn(3, 5),
    torch.randn(3, 5).t()[1:],
    torch.randn(1000).to(torch.bfloat16),
    torch.randn(1000).to(torch.float16) * 100,
    torch.randn(7, dtype=torch.float64) * 1e100,
    torch.randn(64).to(torch.float8_e4m3fn),
    torch.randn(64).to(torch.float8_e5m2),
    torch.tensor([math.nan, 1.0, math.inf, -math.inf, -math.inf]),
    torch.tensor([math.inf, 1.0]),
    torch.tensor([-0.0]),
    torch.tensor(3.0),
    torch.full((4097,), 3e38),
    torch.tensor([True, False, True]),
    torch.tensor([2**31 - 1, -(2**31)], dtype=torch.int32),
    torch.arange(-5, 100, dtype=torch.int8),
    torch.arange(256, dtype=torch.uint8),
    torch.tensor([-300, 300], dtype=torch.int16),
]


@pytest.mark.parametrize("has_double", [True, False])
@pytest.mark.parametrize("tensor", TENSORS, ids=lambda t: f"{t.dtype}-{t.numel()}")
def test_statistics_are_those_of_numbers(tensor, has_double):
    if has_double:
        tensor = on_device(tensor)
    found, expected = reduced(tensor), expected_of(tensor)
    assert list(found) == list(expected)
    for name, value in expected.items():
        if has_double or name.endswith(("count", "max", "min")):
            assert is_close(found[name], value), name
        elif math.isfinite(value) and value < 1e38:
            assert found[name] == pytest.approx(value, rel=1e-5, abs=1e-6), name
    assert isinstance(found["max"], bool) == (tensor.dtype == torch.bool)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(3, dtype=torch.complex64),
        torch.tensor([2**63 - 1]),
        torch.ones(0),
        torch.ones(2, dtype=torch.uint16),
    ],
)
def test_other_tensors_are_not_reduced(tensor):
    assert not reductions.is_reducible(torch, tensor)


def test_nothing_is_recorded_before_the_event(reducing, daemon, device):
    tensor = on_device(torch.arange(6.0).view(2, 3))
    assert reducing.record(tensor, op="op")
    # Later changes must not affect what the hook has recorded.
    tensor.zero_()
    reducing.token = 5
    with pytest.raises(TimeoutError):
        reducing.flush(SHORT)
    assert daemon.values == []
    device.run()
    reducing.flush()
    (record,) = daemon.values
    assert record.kind == "statistics"
    assert (record.op, record.token, record.shape) == ("op", 0, (2, 3))
    assert (record.device, record.dtype, record.data) == ("cuda:1", "float32", b"")
    assert json.loads(record.value) == expected_of(torch.arange(6.0))


def test_records_keep_their_order(reducing, daemon, device):
    for number in range(30):
        assert reducing.record(on_device(torch.ones(number + 1)), op=f"op{number}")
    device.run()
    reducing.flush()
    assert [r.op for r in daemon.values] == [f"op{n}" for n in range(30)]


def test_calls_of_a_model_have_their_numbers(reducing, daemon, device):
    model = torch.nn.Identity()
    with msitd.register_hook(model, reducing) as handle:
        for _ in range(2):
            model(on_device(torch.ones(3)))
    assert handle.skipped == {}
    device.run()
    reducing.flush()
    assert [(r.token, r.io) for r in daemon.values] == [
        (0, "input"),
        (0, "output"),
        (1, "input"),
        (1, "output"),
    ]
    assert {r.kind for r in daemon.values} == {"statistics"}


def test_without_the_option_it_is_a_tensor(daemon, device):
    with msitd.Client("run", endpoint=daemon.endpoint) as client:
        client.record(on_device(torch.ones(3)), op="op")
        device.run()
        client.flush()
    assert daemon.records[0].kind == "tensor"


def test_environment_asks_for_it(daemon, device, monkeypatch):
    monkeypatch.setenv("MSITD_REDUCE_ON_DEVICE", "1")
    with msitd.Client("run", endpoint=daemon.endpoint) as client:
        client.record(on_device(torch.ones(3)), op="op")
        device.run()
    assert daemon.values[0].kind == "statistics"


def test_close_waits_for_the_device(daemon, device):
    client = msitd.Client("run", endpoint=daemon.endpoint, reduce_on_device=True)
    assert client.record(on_device(torch.ones(3)), op="op")
    timer = threading.Timer(SHORT, device.run)
    timer.start()
    client.close()
    timer.join()
    assert len(daemon.values) == 1


def test_close_does_not_wait_for_ever(reducing, daemon, device):
    assert reducing.record(on_device(torch.ones(3)), op="op")
    reducing.close(SHORT, check=False)
    device.run()
    assert reducing._copies.underway.wait(30)
    assert daemon.values == []
    assert reducing.counters().dropped_count == 1


def test_device_that_fails_is_counted(reducing, daemon, device, caplog):
    for op in ("a", "b", "c"):
        assert reducing.record(on_device(torch.ones(3)), op=op)
    device.events[1].error = RuntimeError("device lost")
    device.run()
    assert reducing.flush(check=False) == 1
    assert [r.op for r in daemon.values] == ["a", "c"]
    assert reducing.counters().dropped_count == 1
    assert "b 0 is not recorded: the reduction on the device failed" in caplog.text


def test_device_that_fails_in_the_hook_is_counted(reducing, device, monkeypatch):
    def fail(*_):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(reductions, "reduce", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        reducing.record(on_device(torch.ones(3)), op="op")
    assert reducing.counters().dropped_count == 1


def test_forked_child_waits_for_nothing(reducing, daemon, device):
    assert reducing.record(on_device(torch.ones(3)), op="op")
    child = os.fork()
    if child == 0:
        try:
            DeviceCopies._is_summary = is_summary
            is_off = not reducing.record(on_device(torch.ones(3)), op="op")
            reducing.close(60)
            os._exit(0 if is_off else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    device.run()
    reducing.flush()
    assert len(daemon.values) == 1
