"""Exports are imported again without loss: every key, type, value and the order."""

import itertools
import random
from pathlib import Path
from typing import Any

import chunk_bytes as cb
import pytest
from chunk_bytes import Record
from exports import EVIL_OPS, send

from daemon import Daemon

# Numbers of dtypes of the API, and the bytes of an element.
DTYPES = {
    1: 1,  # bool
    2: 1,  # int8
    3: 2,  # int16
    4: 4,  # int32
    5: 8,  # int64
    6: 1,  # uint8
    7: 2,  # uint16
    10: 2,  # float16
    11: 2,  # bfloat16
    12: 4,  # float32
    13: 8,  # float64
    14: 1,  # float8_e4m3fn
    15: 1,  # float8_e5m2
    22: 1,  # int4
    31: 1,  # float8_e4m3fnuz
}
SHAPES = ([], [0], [3], [2, 3], [1, 0, 4], [2, 1, 2, 2])
INDEXES = ("0", "1.0", "hidden_states", "kw.0")
FORMATS = ["npy", "npz", "safetensors", "pt"]
COUNT = 160


def some_records(seed: int) -> list[Record]:
    """Returns records with all kinds of keys, each key once. Their order within a
    token is random.
    """
    rng = random.Random(seed)
    ops = ["layers.0", "layers.10", "layers.2", "a.b/c", *EVIL_OPS]
    sides = (cb.INPUT, cb.OUTPUT, 3)
    places = list(itertools.product(ops, range(3), sides, INDEXES, (0, 1, 12)))
    out = []
    chosen = sorted(rng.sample(places, COUNT), key=lambda place: place[4])
    for op, call, io, index, token in chosen:
        dtype, size = rng.choice(list(DTYPES.items()))
        shape = rng.choice(SHAPES)
        elements = 1
        for dim in shape:
            elements *= dim
        raw = rng.randbytes(elements * size)
        # A bool has one bit, and an int4 the range of four.
        if dtype == 1:
            raw = bytes(byte & 1 for byte in raw)
        if dtype == 22:
            raw = bytes((byte & 7) for byte in raw)
        out.append(
            Record(
                op, raw, shape, dtype=dtype, token=token, call=call, io=io, index=index
            )
        )
    return out


def listing(daemon: Daemon, run: str) -> list[dict[str, Any]]:
    """Returns all records of a run in the order of their execution."""
    listed = daemon.ctl_json("tensor", "list", "--run", run, "--kind", "all")["tensors"]
    rows = []
    for one in sorted(listed, key=lambda each: int(each.get("sequence", 0))):
        one = dict(one)
        one["name"] = one["name"].removeprefix(f"runs/{run}/")
        for key in ("sequence", "run"):
            one.pop(key, None)
        rows.append(one)
    return rows


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_record_is_read_back(
    daemon: Daemon, tmp_path: Path, form: str, seed: int
) -> None:
    send(daemon, "r", some_records(seed))
    out = tmp_path / "out"
    daemon.ctl("run", "export", "r", "--format", form, "--out", str(out))
    told = daemon.ctl("run", "import", str(out), "--run", "again")
    assert f"{COUNT} tensors" in told.stdout and "0 problems" in told.stdout
    before, after = listing(daemon, "r"), listing(daemon, "again")
    assert len(before) == COUNT
    for one, two in zip(before, after, strict=True):
        assert one == two


@pytest.mark.parametrize("form", FORMATS)
def test_a_second_export_has_the_same_index(
    daemon: Daemon, tmp_path: Path, form: str
) -> None:
    # Names of equal length, because the files of a format may contain them.
    send(daemon, "first", some_records(3))
    one, two = tmp_path / "one", tmp_path / "two"
    daemon.ctl("run", "export", "first", "--format", form, "--out", str(one))
    daemon.ctl("run", "import", str(one), "--run", "again")
    daemon.ctl("run", "export", "again", "--format", form, "--out", str(two))
    before, after = (
        {
            path.relative_to(folder): path.read_bytes().replace(b"first", b"again")
            for path in folder.rglob("*.*")
            if path.is_file()
        }
        for folder in (one, two)
    )
    assert Path("tensors.jsonl") in before
    assert before == after
