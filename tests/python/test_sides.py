"""Native code records the same of a call as Python does."""

import enum
import gc
import threading
from collections import OrderedDict, namedtuple

import msitd
import pytest
import torch
from msitd._core.leaf import memory
from torch import nn

Pair = namedtuple("Pair", ["left", "right"])


class Sub(torch.Tensor):
    pass


class Word(str):
    pass


class Color(enum.IntEnum):
    RED = 1


def tensors():
    complex_numbers = torch.arange(6).reshape(2, 3).to(torch.complex64) * (1 + 2j)
    yield "plain", torch.arange(6.0).reshape(2, 3)
    yield "gradient", torch.ones(2, requires_grad=True)
    yield "computed", torch.ones(2, requires_grad=True) * 2
    yield "parameter", nn.Parameter(torch.ones(3))
    yield "scalar", torch.tensor(3.5)
    yield "empty", torch.ones(0, 3)
    yield "transposed", torch.arange(20.0).reshape(4, 5).t()
    yield "inside", torch.arange(20.0).reshape(4, 5)[1:, ::2]
    yield "expanded", torch.ones(3, 1).expand(3, 4)
    yield "complex", complex_numbers
    yield "conjugated", complex_numbers.conj()
    yield "negated", complex_numbers.conj().imag
    yield "deep", torch.ones([1] * 17)
    yield "inference", torch.inference_mode()(lambda: torch.ones(2))()
    yield "sub-class", torch.ones(2).as_subclass(Sub)
    yield "sparse", torch.eye(3).to_sparse()
    yield "meta", torch.ones(2, device="meta")
    yield "zero", torch._efficientzerotensor(3)
    for dtype in (
        *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool),
        *(torch.float16, torch.bfloat16, torch.float64, torch.complex128),
        *(torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16, torch.uint64),
    ):
        yield str(dtype), torch.tensor([0, 1, 1]).to(dtype)


def structures():
    one, two = torch.ones(2), torch.zeros(3)
    cycle: list[object] = [one]
    cycle.append(cycle)
    yield "nested", ([one, {"a": two, 7: (one, None)}], {"b": []})
    yield "named", Pair(one, [two])
    yield "ordered", OrderedDict(first=one, second={"third": two})
    yield "cycle", cycle
    yield "many values", [*range(300), one, "end"]
    yield "empty ones", ((), [], {}, one)
    yield (
        "values",
        [None, True, 3, -(1 << 63), 1 << 70, 0.1, float("nan"), 2j, "text", "a\0b"],
    )
    yield (
        "rare values",
        ["\udc80", Word("w"), Color.RED, torch.float32, slice(1), object],
    )
    yield "shape", one.shape
    yield "key with a NUL", {"a\0b": one, "c": two}
    yield "key without a letter", {"": one, "a": {"": (two,)}}
    yield "long key", {"k" * 200: one, "c": two}


class Takes(nn.Module):
    def forward(self, *args, **kwargs):
        return args[0]


@pytest.fixture
def recorded(client, daemon):
    """Returns the records of one call without their token, and what was skipped."""

    def recorded(*args, **kwargs):
        model = Takes()
        known = len(daemon.all_records)
        with msitd.register_hook(model, client) as handle:
            model(*args, **kwargs)
        client.flush()
        records = [
            (r.place[1:], r.kind, r.dtype, r.shape, r.data, r.value, r.requires_grad)
            for r in daemon.all_records[known:]
            if r.kind != "document"
        ]
        return records, handle.skipped

    return recorded


CASES = [*tensors(), *structures()]


@pytest.mark.parametrize("value", [c[1] for c in CASES], ids=[c[0] for c in CASES])
def test_native_code_records_what_python_does(recorded, monkeypatch, value):
    assert memory.torch_reader() is not None
    native = recorded(value, key=value)
    monkeypatch.setattr(memory, "torch_reader", lambda: None)
    assert native[0]
    assert native == recorded(value, key=value)


def test_a_tensor_without_memory_is_none_for_native_code(recorded):
    tensor = torch.ones(3)
    tensor.untyped_storage().resize_(0)
    records, skipped = recorded(tensor)
    assert ["no bytes" in r[5] for r in records] == [True, True]
    assert sum(skipped.values()) == 2


def test_a_list_that_shrinks_meanwhile_is_recorded_up_to_there(recorded):
    class Shrinks(list):
        pass

    values: list[object] = [torch.ones(2), Shrinks(), torch.ones(3)]

    class Evil:
        @property
        def __dict__(self):
            values.clear()
            gc.collect()
            return {}

    values[1] = Evil()
    records, _ = recorded(values)
    assert records[0][0][-1] == "0.0"


def test_threads_record_sides_at_once(client, daemon):
    model = Takes()

    def work():
        for _ in range(50):
            model(torch.ones(4), {"a": 1})

    with msitd.register_hook(model, client, time="step"):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    client.flush()
    places = [r.place for r in daemon.all_records if r.kind != "document"]
    assert len(places) == len(set(places)) == 4 * 50 * 3
