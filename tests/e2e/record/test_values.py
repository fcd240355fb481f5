"""Values, documents and aliases: stored, listed, read, counted and compared."""

import struct
import subprocess
from dataclasses import replace

import chunk_bytes as cb
import numpy as np
from chunk_bytes import Chunk, Record, float32
from msitd import query
from msitd.v1 import tensor_service_pb2
from msitd.v1 import tensor_service_pb2_grpc as tensors_grpc
from names import tensor_name
from wire import write

from daemon import BIN_DIR, Daemon

DATA = float32(1, -2, 0.5)
TREE = b'{"class": "Net"}'
LINEAR = Record("linear", DATA, [3], requires_grad=True, stack="a.py:1 f\nb.py:2 g")
RELU = Record(
    "relu",
    b"",
    [3],
    sequence=1,
    io=cb.INPUT,
    tensor_bytes=len(DATA),
    alias_of=("linear", 0, cb.OUTPUT, "0"),
)
NUMBER = Record(
    "dropout",
    struct.pack("<d", 0.5),
    [],
    sequence=2,
    dtype=cb.FLOAT64,
    io=cb.INPUT,
    index="p",
    kind=cb.NUMBER,
    value="0.5",
)
DTYPE = Record(
    "to",
    b"",
    [0],
    sequence=3,
    dtype=cb.UINT8,
    io=cb.INPUT,
    index="dtype",
    kind=cb.DTYPE,
    value="torch.float32",
)
DOCUMENT = Record(
    "module_tree.json",
    TREE,
    [len(TREE)],
    sequence=4,
    dtype=cb.UINT8,
    io=cb.STATE,
    index="",
    kind=cb.DOCUMENT,
)
ALL = [LINEAR, RELU, NUMBER, DTYPE, DOCUMENT]


def send(daemon: Daemon, run: str, records: list[Record]) -> None:
    """Writes a chunk for each record, so that aliases are in later ones."""
    chunks = [
        Chunk(run, [record], sequence=i, version=2).pack()
        for i, record in enumerate(records)
    ]
    write(daemon.channel(), run, chunks)


def ops(daemon: Daemon, run: str, *flags: str) -> list[str]:
    listed = daemon.ctl_json("tensor", "list", "--run", run, *flags)
    return [tensor["op"] for tensor in listed.get("tensors", [])]


def test_values_are_listed_where_their_kind_is_asked_for(daemon: Daemon) -> None:
    send(daemon, "r", ALL)
    assert ops(daemon, "r") == ["linear", "relu"]
    assert ops(daemon, "r", "--kind", "number,dtype") == ["dropout", "to"]
    assert ops(daemon, "r", "--kind", "value") == ["dropout", "to"]
    assert ops(daemon, "r", "--kind", "document") == ["module_tree.json"]
    assert len(ops(daemon, "r", "--kind", "all")) == len(ALL)
    table = daemon.ctl("tensor", "list", "--run", "r", "--kind", "value").stdout
    head, *rows = table.splitlines()
    assert head.split()[-2:] == ["kind", "value"]
    assert [row.split()[-2:] for row in rows] == [
        ["number", "0.5"],
        ["dtype", "torch.float32"],
    ]
    assert "kind" not in daemon.ctl("tensor", "list", "--run", "r").stdout
    with query.connect(daemon.endpoint) as client:
        select = query.select(kinds=("number", "document"))
        found = {t.op: t for t in client.tensors.list("r", select)}
        assert found["dropout"].kind == "number"
        assert found["dropout"].value == "0.5"
        assert client.tensors.read(found["dropout"].name) == np.float64(0.5)
        assert bytes(client.tensors.read(found["module_tree.json"].name)) == TREE


def test_an_alias_reads_as_its_original(daemon: Daemon) -> None:
    send(daemon, "r", ALL)
    original = daemon.ctl_json("tensor", "get", tensor_name("r", "linear"))
    assert original["requires_grad"] is True
    assert original["stack"] == "a.py:1 f\nb.py:2 g"
    assert not original.get("alias_of")
    name = tensor_name("r", "relu", io="input")
    alias = daemon.ctl_json("tensor", "get", name)
    assert alias["alias_of"] == tensor_name("r", "linear")
    assert "requires_grad" not in alias
    assert alias["hash"] == original["hash"]
    assert alias["summary"] == original["summary"]
    read = daemon.ctl("tensor", "read", name, "--out", "-", binary=True).stdout
    assert read == DATA
    counters = daemon.ctl_json("run", "get", "r")["counters"]
    assert counters["tensor_count"] == "2"
    assert counters["value_count"] == "3"
    assert counters["dangling_count"] == "0"


def test_a_dangling_alias_is_counted_and_shown(daemon: Daemon) -> None:
    send(daemon, "r", [replace(RELU, sequence=0), LINEAR])
    assert ops(daemon, "r") == ["linear"]
    assert daemon.ctl_json("run", "get", "r")["counters"]["dangling_count"] == "1"
    coverage = daemon.ctl("capture", "coverage", "r").stdout.splitlines()
    cells = dict(zip(coverage[0].split(), coverage[1].split(), strict=False))
    assert cells["dangling"] == "1"
    assert cells["stored"] == "1"


def test_all_of_it_outlives_the_daemon(daemon: Daemon) -> None:
    send(daemon, "r", ALL)
    daemon.kill()
    daemon.start()
    assert len(ops(daemon, "r", "--kind", "all")) == len(ALL)
    assert (
        daemon.ctl(
            "tensor",
            "read",
            tensor_name("r", "relu", io="input"),
            "--out",
            "-",
            binary=True,
        ).stdout
        == DATA
    )
    daemon.stop()
    subprocess.run(
        [BIN_DIR / "msitd-inspect", "verify", "--data-dir", daemon.data_dir],
        check=True,
    )


def test_long_stacks_make_short_pages(daemon: Daemon) -> None:
    records = [
        replace(LINEAR, op=f"op{i}", sequence=i, stack=f"{i:0>8000}")
        for i in range(200)
    ]
    send(daemon, "r", records)
    stub = tensors_grpc.TensorServiceStub(daemon.channel())
    request = tensor_service_pb2.ListTensorsRequest(run="r", page_size=1000)
    page = stub.ListTensors(request, timeout=30)
    assert 1 << 20 < page.ByteSize() < 4 << 20
    assert len(page.tensors) < len(records)
    request.page_token = page.next_page_token
    rest = stub.ListTensors(request, timeout=30)
    assert len(page.tensors) + len(rest.tensors) == len(records)
    assert rest.next_page_token == ""


def test_values_are_compared_where_they_are_asked_for(daemon: Daemon) -> None:
    send(daemon, "golden", ALL)
    other = replace(DTYPE, value="torch.bfloat16")
    send(daemon, "target", [LINEAR, RELU, NUMBER, other, DOCUMENT])
    daemon.ctl("compare", "run", "golden", "target")
    daemon.ctl("compare", "run", "golden", "target", "--kind", "all", expect=1)
    compared = daemon.ctl_json("compare", "rows", "c-000002")["rows"]
    rows = {row["op"]: row for row in compared}
    assert set(rows) == {"linear", "relu", "dropout", "to"}
    assert rows["to"]["verdict"] == "FAIL"
    assert rows["to"]["reason"] == (
        "the values differ: target torch.bfloat16, golden torch.float32"
    )
    assert rows["dropout"]["verdict"] == "PASS"
