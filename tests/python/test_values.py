"""Values, documents and facts: contents of a record other than the bytes of a
tensor.
"""

import decimal
import enum
import pathlib
import re
import struct

import msitd
import numpy as np
import pytest
import torch
import torch.distributed as dist
from msitd._core.leaf import values
from torch.testing._internal.distributed.fake_pg import FakeStore


class Color(enum.IntEnum):
    RED = 1


class Unknown:
    def __repr__(self):
        raise AssertionError("nobody asks an unknown class")


def double(x):
    return 2 * x


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (True, "number", "True"),
        (-7, "number", "-7"),
        ((1 << 63) - 1, "number", "9223372036854775807"),
        (1 << 63, "other", "9223372036854775808"),
        (0.1, "number", "0.1"),
        (float("-inf"), "number", "-inf"),
        (1 - 2j, "number", "(1-2j)"),
        (np.float64(0.5), "number", "0.5"),
        (np.int32(-3), "number", "-3"),
        (np.bool_(True), "number", "True"),
        ("läuft", "text", "läuft"),
        ("", "text", ""),
        ("a\0b", "text", "a\\x00b"),
        ("\ud800", "text", "\\ud800"),
        (None, "none", "None"),
        (torch.float32, "dtype", "torch.float32"),
        (np.dtype("i4"), "dtype", "dtype('int32')"),
        (torch.device("cpu"), "other", "device(type='cpu')"),
        (torch.channels_last, "other", "torch.channels_last"),
        (slice(1, None), "other", "slice(1, None, None)"),
        (Color.RED, "other", "<Color.RED: 1>"),
        (decimal.Decimal("1.50"), "other", "Decimal('1.50')"),
        (pathlib.PurePosixPath("/a"), "other", "PurePosixPath('/a')"),
        (b"\x00", "other", "b'\\x00'"),
        (
            b"x" * 1000,
            "other",
            "b'" + "x" * 256 + "'… (1000 bytes, hash 9a306b894c158617)",
        ),
        ([], "other", "[]"),
        (int, "other", "<class 'int'>"),
        (double, "other", "<function double>"),
        (Unknown(), "other", f"<{__name__}.Unknown>"),
        ([Unknown()], "other", "<builtins.list>"),
    ],
)
def test_value_arrives_as_its_repr(client, daemon, value, kind, text):
    assert client.record_value(value, op="op", io="input", index="scale", token=3)
    client.flush()
    (record,) = daemon.values
    assert record.place == (3, "op", 0, "input", "scale")
    assert (record.kind, record.value) == (kind, text)
    if kind != "number":
        assert (record.dtype, record.shape, record.data) == ("uint8", (0,), b"")


@pytest.mark.parametrize(
    ("value", "dtype", "data"),
    [
        (True, "bool", b"\1"),
        (-2, "int64", struct.pack("<q", -2)),
        (0.1, "float64", struct.pack("<d", 0.1)),
        (1 - 2j, "complex128", struct.pack("<dd", 1, -2)),
    ],
)
def test_number_has_bytes_that_can_be_compared(client, daemon, value, dtype, data):
    client.record_value(value, op="op")
    client.flush()
    (record,) = daemon.values
    assert (record.dtype, record.shape, record.data) == (dtype, (), data)


def test_number_of_very_many_digits(client, daemon):
    client.record_value(10**5000, op="op")
    client.flush()
    (record,) = daemon.values
    assert record.kind == "other"
    assert record.value.startswith("0x")
    assert re.search(r"bytes, hash [0-9a-f]{16}\)$", record.value)


def test_long_text_is_cut_at_a_character(client, daemon):
    client.record_value("ä" * 600, op="op")
    client.flush()
    (record,) = daemon.values
    assert re.search(r"ä… \(1200 bytes, hash [0-9a-f]{16}\)$", record.value)
    assert len(record.value.encode()) in (1023, 1024)


@pytest.mark.parametrize("of", [str, str.encode])
def test_long_texts_that_begin_alike_stay_different(client, daemon, of):
    for end in ("a", "b", "b"):
        client.record_value(of("x" * 2000 + end), op="op")
    client.flush()
    first, second, third = (record.value for record in daemon.values)
    assert first != second
    assert second == third


def test_statistics_arrive_as_text(client, daemon):
    known = {
        "max": (1 << 63) - 1,
        "min": np.float32(-0.5),
        "mean": float("nan"),
        "l2_norm": torch.tensor(2.0),
        "pos_inf_count": np.int64(3),
        "is_sparse": False,
        "crc32": "0badcafe",
    }
    assert client.record_statistics((2, 3), "bfloat16", known, op="op", token=3)
    client.flush()
    (record,) = daemon.values
    assert record.place == (3, "op", 0, "output", "0")
    assert (record.kind, record.dtype, record.shape) == (
        "statistics",
        "bfloat16",
        (2, 3),
    )
    assert record.value == (
        '{"max": 9223372036854775807, "min": -0.5, "mean": "nan", "l2_norm": 2.0, '
        '"pos_inf_count": 3, "is_sparse": false, "crc32": "0badcafe"}'
    )
    assert record.data == b""


def test_what_is_wrong_with_statistics_is_said(client):
    def record(known, dtype="float32", shape=(1,)):
        client.record_statistics(shape, dtype, known, op="op")

    with pytest.raises(TypeError, match="max is of type list"):
        record({"max": []})
    for known in ({"Max": 1}, {"max": 'a"b'}, {1: 1}, {"max": "x" * 65}):
        with pytest.raises(ValueError, match="the statistics are not like"):
            record(known)
    with pytest.raises(ValueError, match="dtype 'float31' is unknown"):
        record({}, dtype="float31")
    with pytest.raises(ValueError, match="a dimension is -1"):
        record({}, shape=(-1,))
    with pytest.raises(TypeError, match="dtype is of type"):
        record({}, dtype=torch.float32)


def test_statistics_for_an_old_daemon_are_counted(daemon, caplog):
    daemon.chunk_version = 0
    with msitd.Client(run="r", endpoint=daemon.endpoint) as client:
        assert not client.record_statistics((), "int64", {}, op="op")
        assert client.record_value(1, op="op")
        client.flush(check=False)
        assert client.counters().dropped_count == 1
        client.close(check=False)
    assert [r.kind for r in daemon.values] == ["number"]
    assert "too old for records of kind statistics" in caplog.text


@pytest.mark.parametrize(
    ("ranks", "group_id"), [([0], "553403f9"), ([0, 1, 2, 3], "67e9e248")]
)
def test_values_of_collectives_are_told_as_msprobe_does(ranks, group_id):
    dist.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
    try:
        group = values.describe(dist.new_group(ranks))
    finally:
        dist.destroy_process_group()
    told = {"type": "torch.ProcessGroup", "group_ranks": ranks, "group_id": group_id}
    assert group.text == repr(told)
    assert values.describe(dist.ReduceOp.MAX).text == "RedOpType.MAX"


def test_tensor_is_no_value(client):
    for tensor in (torch.zeros(1), np.zeros(1)):
        with pytest.raises(TypeError, match="is no value"):
            client.record_value(tensor, op="op")


def test_wrong_places_of_values_are_named(client):
    with pytest.raises(ValueError, match="io 'in'"):
        client.record_value(1, op="op", io="in")
    with pytest.raises(ValueError, match="op is empty"):
        client.record_value(1, op="")
    with pytest.raises(TypeError, match="op is of type int"):
        client.record_value(1, op=1)
    with pytest.raises(TypeError, match="stack is of type int"):
        client.record_value(1, op="op", stack=1)


def test_all_kinds_have_a_number():
    described = {values.describe(v).kind for v in (1, "", None, torch.int8, slice(1))}
    assert described == {1, 2, 3, 4, 5}


def test_document_arrives_once(client, daemon):
    text = "läuft " * (1 << 20)
    client.token = 5
    assert client.record_document("notes.txt", text)
    assert client.record_document("notes.txt", text)
    assert client.record_document("empty", "")
    client.flush()
    assert daemon.documents == {"notes.txt": text, "empty": ""}
    records = daemon.all_records
    assert {(r.token, r.io, r.index, r.call) for r in records} == {(0, "state", "", 0)}
    assert client.counters().recorded_count == 2


def test_wrong_documents_are_named(client):
    with pytest.raises(ValueError, match="op is empty"):
        client.record_document("", "text")
    with pytest.raises(ValueError, match="text has a lone surrogate"):
        client.record_document("name", "\ud800")
    with pytest.raises(TypeError, match="text is of type bytes"):
        client.record_document("name", b"text")


def test_tensor_of_torch_says_whether_it_requires_a_gradient(recorded):
    tensor = torch.zeros(1)
    assert recorded(tensor).requires_grad is False
    assert recorded(tensor.requires_grad_()).requires_grad is True
    assert recorded(tensor, requires_grad=False).requires_grad is False
    assert recorded(np.zeros(1)).requires_grad is None
    assert recorded(np.zeros(1), requires_grad=True).requires_grad is True


def test_stack_arrives(recorded):
    stack = "model.py:3 forward\nmain.py:1 <module>"
    assert recorded(np.zeros(1), stack=stack).stack == stack
    assert recorded(np.zeros(1)).stack == ""
    long = recorded(np.zeros(1), stack="\n".join(f"f.py:{i} g" for i in range(2000)))
    assert len(long.stack.encode()) <= 8192
    assert long.stack.splitlines()[-1].endswith(" frames")


def test_identity_makes_an_alias(recorded, client):
    data = np.arange(4.0)
    assert recorded(data, op="a", identity=7).alias_of is None
    again = recorded(data, op="b", identity=7)
    assert again.alias_of == ("a", 0, "output", "0")
    assert (again.shape, again.data) == ((4,), b"")
    assert recorded(data, op="c", identity=8).alias_of is None
    assert client.counters().aliased_count == 1
    assert client.counters().aliased_bytes == 32


@pytest.mark.parametrize("identity", [-1, 1 << 64])
def test_wrong_identities_are_refused(client, identity):
    with pytest.raises(ValueError, match="identity does not fit into 64 bits"):
        client.record(np.zeros(1), op="op", identity=identity)
    with pytest.raises(TypeError, match="identity is of type str"):
        client.record(np.zeros(1), op="op", identity="7")
