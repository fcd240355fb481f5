"""Exports of runs: numpy, torch and msitd's own readers read the recorded data."""

import json
import os
import re
import shlex
import signal
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import chunk_bytes as cb
import ml_dtypes
import numpy as np
import pytest
import torch
from chunk_bytes import Chunk, Record
from exports import EVIL_OPS, export, index, send
from wire import write

from daemon import BIN_DIR, ROOT, Daemon

DOCS = ROOT / "docs"
READER = BIN_DIR.parent / "tests" / "read_tensor_file"

# Numbers of dtypes that numpy supports, by itself or with ml_dtypes.
DTYPES = {
    1: np.bool_,
    2: np.int8,
    3: np.int16,
    4: np.int32,
    5: np.int64,
    6: np.uint8,
    7: np.uint16,
    8: np.uint32,
    9: np.uint64,
    10: np.float16,
    11: ml_dtypes.bfloat16,
    12: np.float32,
    13: np.float64,
    14: ml_dtypes.float8_e4m3fn,
    15: ml_dtypes.float8_e5m2,
    16: np.complex64,
    17: np.complex128,
    22: ml_dtypes.int4,
}


def arrays() -> dict[int, np.ndarray]:
    """Returns an array of each dtype, the last two without elements and dimensions."""
    rng = np.random.default_rng(1)
    out = {}
    for number, dtype in DTYPES.items():
        data = rng.integers(-7, 8, (2, 3))
        out[number] = (data != 0 if number == 1 else data).astype(dtype)
    return out


def typed(daemon: Daemon) -> dict[str, np.ndarray]:
    """Records the run `r` with a tensor of each dtype; returns them by op."""
    made = {f"op.{number}": array for number, array in arrays().items()}
    made["empty"] = np.zeros((0, 3), np.float32)
    made["scalar"] = np.asarray(2.5, np.float64)
    numbers = {np.dtype(dtype): number for number, dtype in DTYPES.items()}
    records = [
        Record(op, array.tobytes(), array.shape, dtype=numbers[array.dtype])
        for op, array in made.items()
    ]
    send(daemon, "r", records)
    return made


def test_numpy_reads_npy_and_npz(daemon: Daemon, tmp_path: Path) -> None:
    made = typed(daemon)
    counts = export(daemon, tmp_path / "npy", "--format", "npy")
    assert counts["tensor_count"] == len(made)
    assert counts["file_count"] == len(made) + 1
    assert counts["problem_count"] == 0
    export(daemon, tmp_path / "npz", "--format", "npz")
    archive = np.load(tmp_path / "npz/rank0/token0.npz")
    assert len(archive.files) == len(made)
    for form in ("npy", "npz"):
        lines = index(tmp_path / form)
        assert lines.keys() == made.keys()
        for op, array in made.items():
            line = lines[op]
            file = tmp_path / form / line["file"]
            read = np.load(file) if form == "npy" else archive[line["member"]]
            assert line["dtype"] == array.dtype.name
            # numpy has no name for a dtype that ml_dtypes adds.
            assert ("stored_as" in line) == (read.dtype.kind == "V")
            assert read.dtype.itemsize == array.dtype.itemsize
            assert line["shape"] == list(array.shape) == list(read.shape)
            assert read.tobytes() == array.tobytes()


def test_torch_reads_pt(daemon: Daemon, tmp_path: Path) -> None:
    made = typed(daemon)
    export(daemon, tmp_path / "out", "--format", "pt")
    for op, line in index(tmp_path / "out").items():
        file = tmp_path / "out" / line["file"]
        tensor = torch.load(file, weights_only=True)
        assert list(tensor.shape) == line["shape"]
        stored = line.get("stored_as", line["dtype"])
        assert str(tensor.dtype) == f"torch.{stored}"
        data = tensor.reshape(-1).view(torch.uint8) if tensor.numel() else tensor
        assert data.numpy().tobytes() == made[op].tobytes()
        with zipfile.ZipFile(file) as archive:
            assert archive.testzip() is None
            for info in archive.infolist():
                assert info.compress_type == zipfile.ZIP_STORED
        mapped = torch.load(file, weights_only=True, mmap=True)
        assert mapped.dtype == tensor.dtype


def test_the_pickle_is_that_of_torch(daemon: Daemon, tmp_path: Path) -> None:
    shapes: list[tuple[int, ...]] = [(), (3,), (2, 3), (2, 1, 300), (1, 2, 1, 2, 1)]
    shapes += [(0, 5), (70000,)]
    records = []
    for i, shape in enumerate(shapes):
        data = bytes(4 * int(np.prod(shape)))
        records.append(Record(f"op{i}", data, shape, requires_grad=i % 2 == 0))
    send(daemon, "r", records)
    export(daemon, tmp_path / "out", "--format", "pt")
    lines = index(tmp_path / "out")
    for i, shape in enumerate(shapes):
        line = lines[f"op{i}"]
        file = tmp_path / "out" / line["file"]
        torch.save(torch.zeros(shape, requires_grad=i % 2 == 0), tmp_path / "x.pt")
        with zipfile.ZipFile(file) as ours, zipfile.ZipFile(tmp_path / "x.pt") as own:
            assert ours.namelist()[0] == f"{file.stem}/data.pkl"
            for member in ("data.pkl", "data/0", "byteorder", "version"):
                assert ours.read(f"{file.stem}/{member}") == own.read(f"x/{member}")
            for info in ours.infolist():
                extra = int.from_bytes(
                    file.read_bytes()[info.header_offset + 28 :][:2], "little"
                )
                begin = info.header_offset + 30 + len(info.filename) + extra
                assert begin % 64 == 0


LAYER_OPS = ["attention", "attention.self", "output", "output.dense", "mlp", "norm"]
EXAMPLE = re.compile(r"^\$ msitctl (run export .*)\n(exported .*)$", re.MULTILINE)


def test_examples_of_the_documents(daemon: Daemon, tmp_path: Path) -> None:
    for rank in range(2):
        records = [
            Record(f"encoder.layer.{i}.{op}", bytes(2048), [8, 64], io=io)
            for i in range(2)
            for op in LAYER_OPS
            for io in (cb.INPUT, cb.OUTPUT)
        ]
        chunk = Chunk("golden-fp32", records, rank=rank).pack()
        write(daemon.channel(), "golden-fp32", [chunk], rank=rank, world_size=2)
    for page in ("export.md", "cli.md"):
        examples = EXAMPLE.findall((DOCS / page).read_text())
        assert examples
        for number, (command, printed) in enumerate(examples):
            words = shlex.split(command)
            at = words.index("--out") + 1
            folder = str(tmp_path / f"{page}-{number}")
            printed = printed.replace(f" {words[at]}:", f" {folder}:")
            words[at] = folder
            assert daemon.ctl(*words).stdout == printed + "\n"


def safetensors(file: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Returns the header and the bytes of a file, read by the format's
    specification.
    """
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + size])
    body = data[8 + size :]
    end = 0
    out = {}
    for name, row in head.items():
        if name == "__metadata__":
            continue
        begin, next_end = row["data_offsets"]
        assert begin == end
        end = next_end
        out[name] = body[begin:end]
    assert end == len(body)
    return head, out


def test_safetensors_have_all_of_a_token(daemon: Daemon, tmp_path: Path) -> None:
    made = typed(daemon)
    export(daemon, tmp_path / "out", "--format", "safetensors")
    file = tmp_path / "out/rank0/token0.safetensors"
    head, tensors = safetensors(file)
    assert head["__metadata__"]["msitd.run"] == "r"
    assert head["__metadata__"]["msitd.dtype.cpu:0/op.22/0/output/0"] == "int4"
    lines = index(tmp_path / "out")
    for op, array in made.items():
        name = f"cpu:0/{op}/0/output/0"
        assert lines[op]["member"] == name
        assert tensors[name] == array.tobytes()
    assert head["cpu:0/op.11/0/output/0"]["dtype"] == "BF16"
    assert head["cpu:0/op.14/0/output/0"]["dtype"] == "F8_E4M3"
    assert head["cpu:0/op.17/0/output/0"] == {
        "dtype": "F64",
        "shape": [2, 3, 2],
        "data_offsets": head["cpu:0/op.17/0/output/0"]["data_offsets"],
    }
    # The reader of msitd accepts it, too.
    read = subprocess.run(
        [READER, file, "4096"], check=True, capture_output=True, text=True, timeout=60
    ).stdout.splitlines()
    rows = [line.split("\t") for line in read]
    assert {row[0]: bytes.fromhex(row[5]) for row in rows} == tensors
    assert not any(row[6] for row in rows)


def test_selections_and_kinds(daemon: Daemon, tmp_path: Path) -> None:
    data = cb.float32(1, 2)
    records = [
        Record(f"layer.{op}", data, [2], token=token, io=io)
        for token in range(3)
        for op in range(2)
        for io in (cb.INPUT, cb.OUTPUT)
    ]
    records.append(
        Record("scale", b"\0" * 8, [], dtype=cb.FLOAT64, kind=cb.NUMBER, value="0.0")
    )
    records.append(
        Record("to", b"", [0], dtype=cb.UINT8, kind=cb.DTYPE, value="torch.float32")
    )
    tree = b'{"version": 1}'
    records.append(
        Record(
            "tree.json",
            tree,
            [len(tree)],
            dtype=cb.UINT8,
            io=cb.STATE,
            index="",
            kind=cb.DOCUMENT,
        )
    )
    send(daemon, "r", records)
    flags = ["--format", "npy", "--tokens", "1-2", "--ops", "*.1", "--io", "input"]
    assert export(daemon, tmp_path / "some", *flags)["tensor_count"] == 2
    npy = sorted(p.relative_to(tmp_path / "some") for p in tmp_path.rglob("*.npy"))
    assert [str(p) for p in npy] == [
        f"rank0/token{token}/cpu%3a0/layer.1,0,input,0.npy" for token in (1, 2)
    ]
    counts = export(daemon, tmp_path / "all", "--format", "npy", "--kind", "all")
    assert counts["tensor_count"] == 12
    assert counts["value_count"] == 2
    assert counts["document_count"] == 1
    lines = index(tmp_path / "all")
    assert "file" not in lines["to"]
    assert lines["to"]["value"] == "torch.float32"
    assert np.load(tmp_path / "all" / lines["scale"]["file"]) == 0.0
    assert (tmp_path / "all" / lines["tree.json"]["file"]).read_bytes() == tree
    daemon.ctl(
        "run", "export", "r", "--format", "xml", "--out", str(tmp_path / "x"), expect=2
    )
    daemon.ctl(
        "run", "export", "n", "--format", "pt", "--out", str(tmp_path / "x"), expect=69
    )
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("form", ["npy", "pt", "npz", "safetensors"])
def test_names_stay_in_the_folder(daemon: Daemon, tmp_path: Path, form: str) -> None:
    records = [
        Record(op, cb.float32(i), [1], index=index)
        for i, op in enumerate(EVIL_OPS)
        for index in ("0", "../0")
    ]
    send(daemon, "r", records)
    out = tmp_path / "deep/er/out"
    out.parent.mkdir(parents=True)
    assert export(daemon, out, "--format", form)["tensor_count"] == len(records)
    lines = [json.loads(t) for t in (out / "tensors.jsonl").read_text().splitlines()]
    keys = {(line["op"], line["index"]) for line in lines}
    assert keys == {(record.op, record.index) for record in records}
    files = [p for p in tmp_path.rglob("*") if p.is_file() and "daemon" not in str(p)]
    assert all(out in p.parents for p in files)
    places = {(line["file"] + "|" + line.get("member", "")).lower() for line in lines}
    assert len(places) == (len(records) if form != "safetensors" else len(places))
    for path in out.rglob("*"):
        assert len(path.name) <= 200
        assert path.name.isascii()
    if form in ("npy", "pt"):
        assert len(files) == len(records) + 1
        for line in lines:
            value = float(EVIL_OPS.index(line["op"]))
            file = out / line["file"]
            read = np.load(file) if form == "npy" else torch.load(file)
            assert read[0] == value
    if form == "npz":
        with zipfile.ZipFile(out / "rank0/token0.npz") as archive:
            archive.extractall(tmp_path / "unzipped")
            names = archive.namelist()
        assert not any(".." in Path(name).parts or name[0] == "/" for name in names)


def test_a_folder_with_something_in_it_is_refused(
    daemon: Daemon, tmp_path: Path
) -> None:
    send(daemon, "r", [Record("op", cb.float32(1), [1])])
    out = tmp_path / "out"
    out.mkdir()
    export(daemon, out, "--format", "npy")
    refused = daemon.ctl(
        "run", "export", "r", "--format", "npy", "--out", str(out), expect=3
    )
    assert "not empty" in refused.stderr
    other = out / "mine.txt"
    other.write_text("kept")
    made = next(out.rglob("*.npy"))
    made.write_text("replaced")
    export(daemon, out, "--format", "npy", "--overwrite")
    assert np.load(made) == 1
    assert other.read_text() == "kept"
    # A link in the folder is not followed.
    target = tmp_path / "target"
    target.mkdir()
    (out / "rank0").rename(tmp_path / "moved")
    (out / "rank0").symlink_to(target)
    daemon.ctl(
        "run",
        "export",
        "r",
        "--format",
        "npy",
        "--out",
        str(out),
        "--overwrite",
        expect=3,
    )
    assert not list(target.iterdir())
    file = tmp_path / "file"
    file.write_text("")
    daemon.ctl("run", "export", "r", "--format", "npy", "--out", str(file), expect=3)


@pytest.mark.parametrize("form", ["npy", "pt", "npz", "safetensors"])
def test_what_cannot_be_read_is_counted(
    daemon: Daemon, tmp_path: Path, form: str
) -> None:
    size = 5 << 20
    data = {op: os.urandom(size) for op in ("a", "spoiled", "z")}
    parts = [
        Record(
            op,
            payload[begin : begin + cb.PART],
            [size],
            dtype=cb.UINT8,
            sequence=number,
            part_offset=begin,
            tensor_bytes=size,
        )
        for number, (op, payload) in enumerate(data.items())
        for begin in range(0, size, cb.PART)
    ]
    chunks = [Chunk("r", [part], sequence=i).pack() for i, part in enumerate(parts)]
    write(daemon.channel(), "r", chunks)
    daemon.stop()
    # The second part, because the first one is read before the damage is
    # detected.
    daemon.spoil(data["spoiled"][cb.PART : cb.PART + 64])
    daemon.start()
    counts = export(daemon, tmp_path / "out", "--format", form, expect=4)
    assert counts["problem_count"] == 1
    assert counts["tensor_count"] == 2
    lines = index(tmp_path / "out")
    assert "FRAME_CORRUPT" in lines["spoiled"]["problem"]
    assert "file" not in lines["spoiled"]
    files = [p for p in (tmp_path / "out").rglob("*") if p.is_file()]
    assert not any("spoiled" in p.name or "partial" in p.name for p in files)
    for op in ("a", "z"):
        file = tmp_path / "out" / lines[op]["file"]
        if form == "npy":
            read = np.load(file).tobytes()
        elif form == "npz":
            read = np.load(file)[lines[op]["member"]].tobytes()
        elif form == "pt":
            read = torch.load(file).numpy().tobytes()
        else:
            read = safetensors(file)[1][lines[op]["member"]]
        assert read == data[op]


@pytest.mark.parametrize("form", ["npy", "npz", "msit", "msprobe"])
def test_incomplete_tensors_are_counted(
    daemon: Daemon, tmp_path: Path, form: str
) -> None:
    size = 5 << 20
    part = Record(
        "half", bytes(cb.PART), [size], dtype=cb.UINT8, part_offset=0, tensor_bytes=size
    )
    whole = Record("whole", bytes(8), [2], sequence=1)
    chunks = [Chunk("r", [one], sequence=i) for i, one in enumerate([part, whole])]
    write(daemon.channel(), "r", [chunk.pack() for chunk in chunks])
    counts = export(daemon, tmp_path / "out", "--format", form, expect=4)
    assert counts["incomplete_count"] == 1
    assert counts["problem_count"] == 0
    assert counts["tensor_count"] == 1
    line = daemon.ctl(
        "run", "export", "r", "--out", str(tmp_path / "2"), "--format", form, expect=4
    )
    assert "1 tensors are incomplete" in line.stdout
    assert "1 tensors are incomplete" in line.stderr
    listed = daemon.ctl("tensor", "list", "r")
    assert "1 tensors are incomplete" in listed.stderr


def test_what_goes_while_it_is_exported_is_counted(
    daemon: Daemon, tmp_path: Path
) -> None:
    count = 3000
    send(daemon, "r", [Record(f"op{i}", cb.float32(i), [1]) for i in range(count)])
    out = tmp_path / "out"
    process = subprocess.Popen(
        [BIN_DIR / "msitctl", "run", "export", "r", "--format", "npy", "--out", out],
        env={**os.environ, "MSITCTL_ENDPOINT": daemon.endpoint},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not any(out.glob("rank0/token0/*/*.npy")):
        assert process.poll() is None
    process.send_signal(signal.SIGSTOP)
    daemon.ctl("run", "delete", "r", "--yes")
    process.send_signal(signal.SIGCONT)
    stdout, stderr = process.communicate(timeout=60)
    # The next page of a deleted run ends the export; without one, the missing
    # tensors are counted.
    assert process.returncode in (4, 64 + 5), (stdout, stderr)
    lines = index(out).values()
    written = [line for line in lines if "file" in line]
    assert 0 < len(written) < count
    for line in written:
        assert np.load(out / line["file"])[0] == float(line["op"][2:])
    for line in lines:
        assert "file" in line or "TENSOR_NOT_FOUND" in line["problem"]


def test_a_daemon_that_dies_is_waited_for(daemon: Daemon, tmp_path: Path) -> None:
    count = 3000
    send(daemon, "r", [Record(f"op{i}", cb.float32(i), [1]) for i in range(count)])
    out = tmp_path / "out"
    endpoint = f"unix:{daemon.socket_dir}/msitd.sock"
    process = subprocess.Popen(
        [BIN_DIR / "msitctl", "run", "export", "r", "--format", "npy", "--out", out],
        env={**os.environ, "MSITCTL_ENDPOINT": endpoint},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not any(out.glob("rank0/token0/*/*.npy")):
        assert process.poll() is None
    process.send_signal(signal.SIGSTOP)
    daemon.kill()
    daemon.start()
    process.send_signal(signal.SIGCONT)
    stdout, stderr = process.communicate(timeout=60)
    # The list itself is not requested again.
    if process.returncode != 0:
        assert process.returncode == 64 + 14, (stdout, stderr)
    for line in index(out).values():
        assert np.load(out / line["file"])[0] == float(line["op"][2:])


def test_an_interrupt_leaves_whole_files(daemon: Daemon, tmp_path: Path) -> None:
    records = [Record(f"op{i}", cb.float32(i), [1]) for i in range(10000)]
    send(daemon, "r", records)
    out = tmp_path / "out"
    process = subprocess.Popen(
        [BIN_DIR / "msitctl", "run", "export", "r", "--format", "npy", "--out", out],
        env={**os.environ, "MSITCTL_ENDPOINT": daemon.endpoint},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not any(out.glob("rank0/token0/*/*.npy")):
        assert process.poll() is None
    # A stopped daemon sends no more.
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert process.returncode == 130, (stdout, stderr)
    files = list(out.glob("rank0/token0/*/*"))
    assert 0 < len(files) < len(records)
    assert "exported r to" in stdout
    lines = index(out)
    assert len(lines) == len(files)
    for line in lines.values():
        assert np.load(out / line["file"])[0] == float(line["op"][2:])


def test_a_full_disk_ends_it(daemon: Daemon, tmp_path: Path) -> None:
    size = 1 << 20
    records = [Record(f"op{i}", os.urandom(size // 4), [size // 16]) for i in range(8)]
    send(daemon, "r", records)
    out = tmp_path / "out"
    # A file size limit simulates a full disk.
    command = f"{BIN_DIR}/msitctl run export r --format npz --out {out}"
    result = subprocess.run(
        ["sh", "-c", f"trap '' XFSZ; ulimit -f 1024; exec {command}"],
        env={**os.environ, "MSITCTL_ENDPOINT": daemon.endpoint},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 3, result.stderr
    assert "write" in result.stderr
    assert not [p for p in out.rglob("*") if p.is_file()]
