"""The C library and the Python package with the real daemon."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import msitd
import numpy as np
import pytest
import torch
from names import tensor_name

from daemon import BIN_DIR, ROOT, Daemon

LIB_DIR = BIN_DIR.parent / "lib"


@pytest.fixture(scope="session")
def record_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiles record.c as a user of libmsit would."""
    out = tmp_path_factory.mktemp("c") / "record"
    subprocess.run(
        [
            "cc",
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            f"-I{ROOT}/client/libmsit/include",
            ROOT / "tests/e2e/record.c",
            f"-L{LIB_DIR}",
            f"-Wl,-rpath,{LIB_DIR}",
            "-lmsit",
            "-o",
            out,
        ],
        check=True,
    )
    return out


def read_raw(daemon: Daemon, name: str) -> bytes:
    args = ("tensor", "read", name, "--out", "-", "--format", "raw")
    return daemon.ctl(*args, binary=True).stdout


def test_c_program_records(daemon: Daemon, record_program: Path) -> None:
    result = subprocess.run(
        [record_program, daemon.endpoint, "from-c"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["7", "0", "1"]
    matrix = struct.pack("<6f", 1, 2, 3, 4, 5, 6)
    assert read_raw(daemon, tensor_name("from-c", "matrix")) == matrix
    assert read_raw(daemon, tensor_name("from-c", "a/b c")) == matrix
    transposed = struct.pack("<6f", 1, 4, 2, 5, 3, 6)
    assert read_raw(daemon, tensor_name("from-c", "transposed")) == transposed
    scalar = struct.pack("<d", 2.5)
    assert read_raw(daemon, tensor_name("from-c", "scalar")) == scalar
    assert read_raw(daemon, tensor_name("from-c", "empty")) == b""
    for call in (0, 1):
        name = tensor_name("from-c", "matrix", token=1, call=call)
        assert read_raw(daemon, name) == matrix


def test_c_program_says_why_it_cannot_connect(record_program: Path) -> None:
    result = subprocess.run(
        [record_program, "127.0.0.1:1", "r"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.startswith("open: ")


def test_python_records_any_cpu_tensor(daemon: Daemon) -> None:
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    tensors = {
        "contiguous": base,
        "transposed": base.T,
        "strided": base[:, ::2, ::-1],
        "scalar": np.float64(2.5),
        "zero-d": np.array(7, dtype=np.int16),
        "empty": np.zeros((3, 0, 2), dtype=np.float32),
        "bool": np.array([True, False]),
        "complex": np.array([1 + 2j], dtype=np.complex64),
        "large": np.arange(3 << 20, dtype=np.float32),
    }
    torch_tensors = {
        "bfloat16": torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).T,
        "float8_e4m3fn": torch.tensor([1.0, -2.0]).to(torch.float8_e4m3fn),
        "float8_e5m2": torch.tensor([1.0, -2.0]).to(torch.float8_e5m2),
        "requires grad": torch.ones(3, requires_grad=True),
        "expanded": torch.ones(1, 3).expand(2, 3),
    }
    with msitd.Client("py", endpoint=daemon.endpoint) as client:
        for op, tensor in {**tensors, **torch_tensors}.items():
            assert client.record(tensor, op=op)
        assert client.record(memoryview(b"abc"), op="buffer")
    for op, tensor in tensors.items():
        got = daemon.ctl_json("tensor", "get", tensor_name("py", op))
        assert [int(d) for d in got.get("shape", [])] == list(np.shape(tensor)), op
        data = read_raw(daemon, tensor_name("py", op))
        assert data == np.ascontiguousarray(tensor).tobytes(), op
    for op, tensor in torch_tensors.items():
        expected = tensor.detach().contiguous().view(torch.uint8).numpy().tobytes()
        assert read_raw(daemon, tensor_name("py", op)) == expected, op
    assert read_raw(daemon, tensor_name("py", "buffer")) == b"abc"


class Block(torch.nn.Module):
    """Two layers, one of which is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.act = torch.nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.first(self.act(x)))


def test_hook_records_every_module_of_every_forward(daemon: Daemon) -> None:
    torch.manual_seed(0)
    model = Block()
    batches = [torch.randn(2, 4), torch.randn(2, 4)]
    with (
        msitd.Client("hook", endpoint=daemon.endpoint) as client,
        msitd.register_hook(model, client),
    ):
        results = [model(batch) for batch in batches]
    for token, (batch, result) in enumerate(zip(batches, results, strict=True)):

        def read(op: str, io: str, call: int = 0, token: int = token) -> bytes:
            name = tensor_name("hook", op, io=io, call=call, token=token)
            return read_raw(daemon, name)

        assert read("root", "input") == batch.numpy().tobytes()
        assert read("root", "output") == result.detach().numpy().tobytes()
        assert read("root.act", "input") == batch.numpy().tobytes()
        assert read("root.first", "output") == read("root.act", "input", call=1)
        assert read("root.act", "output", call=1) == read("root", "output")
    listed = daemon.ctl_json("tensor", "list", "--run", "hook", "--limit", "0")
    assert len(listed["tensors"]) == 2 * 2 * 4
    by_sequence = sorted(listed["tensors"], key=lambda t: int(t.get("sequence", 0)))
    order = [(t["op"], t["io"]) for t in by_sequence[:8]]
    assert order == [
        ("root", "IO_INPUT"),
        ("root.act", "IO_INPUT"),
        ("root.act", "IO_OUTPUT"),
        ("root.first", "IO_INPUT"),
        ("root.first", "IO_OUTPUT"),
        ("root.act", "IO_INPUT"),
        ("root.act", "IO_OUTPUT"),
        ("root", "IO_OUTPUT"),
    ]


def test_tampered_weight_is_the_first_divergence(daemon: Daemon) -> None:
    for run, change in (("golden", 0.0), ("target", 0.25)):
        torch.manual_seed(0)
        model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(5)))
        with torch.no_grad():
            model[2].weight[3, 3] += change
        with (
            msitd.Client(run, endpoint=daemon.endpoint) as client,
            msitd.register_hook(model, client),
        ):
            model(torch.randn(4, 8))
    daemon.ctl("compare", "run", "golden", "target", expect=1)
    divergence = daemon.ctl_json("compare", "get", "c-000001")["first_divergence"]
    assert (divergence["op"], divergence["io"]) == ("root.2", "IO_OUTPUT")


def test_ranks_are_processes(daemon: Daemon) -> None:
    program = (
        "import msitd, numpy as np\n"
        "with msitd.Client('ranks') as client:\n"
        "    rank = int(__import__('os').environ['RANK'])\n"
        "    for step in range(50):\n"
        "        client.record(np.full(1000, 100 * rank + step, np.int32), op='x')\n"
        "        client.next_token()\n"
    )
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={
                **os.environ,
                "MSITD_ENDPOINT": daemon.endpoint,
                "RANK": str(rank),
                "WORLD_SIZE": "3",
            },
        )
        for rank in range(3)
    ]
    assert [rank.wait(60) for rank in ranks] == [0, 0, 0]
    run = daemon.ctl_json("run", "get", "ranks")
    assert run["world_size"] == 3
    assert int(run["counters"]["tensor_count"]) == 150
    groups = daemon.ctl_json("tensor", "stats", "--run", "ranks", "--by", "rank")
    extremes = [
        (g["key"], g["summary"].get("min"), g["summary"]["max"])
        for g in groups["groups"]
    ]
    assert extremes == [("0", 0, 49), ("1", 100, 149), ("2", 200, 249)]


def test_client_outlives_a_restart_of_the_daemon(new_daemon) -> None:
    daemon = new_daemon()
    # The port must be the same after the restart, as a Unix socket is.
    daemon.start()
    socket = f"unix:{daemon.socket_dir}/msitd.sock"
    with msitd.Client("r", endpoint=socket, max_block=30) as client:
        for i in range(20):
            assert client.record(np.full(10, i), op=f"before.{i}")
        client.flush()
        daemon.kill()
        for i in range(20):
            assert client.record(np.full(10, i), op=f"between.{i}")
        daemon.start()
        client.flush(60)
        counters = client.counters()
    assert counters.acknowledged_count == 40
    assert counters.dropped_count == 0
    assert counters.reconnect_count >= 1
    for when in ("before", "between"):
        data = read_raw(daemon, tensor_name("r", f"{when}.19"))
        assert data == np.full(10, 19).tobytes()
