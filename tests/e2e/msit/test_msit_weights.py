"""msit llm compare --weight: quantized weights, checked with torch."""

import csv
import json
import re
import struct
from pathlib import Path

import pytest
import torch
from msit_command import log_of, metrics_of, msit, only_file

METRICS = list(metrics_of(torch.ones(1), torch.ones(1)))
SIDE = ["dtype", "shape", "max_value", "min_value", "mean_value"]
COLUMNS = ["weight_name", *(f"{s}_{c}" for s in ("golden", "my") for c in SIDE)]
NAMES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
}


def save(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    """Writes a file of safetensors."""
    head: dict[str, object] = {}
    data = b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        place = [len(data), len(data) + len(raw)]
        head[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": place,
        }
        data += raw
    text = json.dumps(head).encode()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def weights(
    folder: Path, *words: str
) -> tuple[list[dict[str, str]], list[tuple[str, str, str]], tuple[str, str]]:
    """Runs the verb on the folders `g` and `m`.

    Returns the rows, the log, and its last line, which has the counts.
    """
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    verb = ("llm", "compare", "-gp", "g", "-mp", "m", "--weight", "-o", "out")
    done = msit(folder, *verb, *words, environment={"TMPDIR": str(temporary)})
    assert not list(temporary.iterdir())
    path = only_file(folder / "out")
    assert re.fullmatch(r"msit_cmp_report_\d{14}\.csv", path.name)
    assert path.stat().st_mode & 0o777 == 0o640
    log = log_of(done.stderr)
    said = f"Saved comparing results: {path.resolve()}"
    assert log[-2] == ("msit_llm_logger", "INFO", said)
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
        assert reader.fieldnames == COLUMNS + METRICS
    path.unlink()
    assert log[-1][2].startswith(f"{len(rows)} weights compared, ")
    return rows, log[:-2], log[-1][1:]


def quantized(
    offset: torch.Tensor, scale: torch.Tensor, shape: tuple[int, ...]
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    weight = torch.randint(-128, 128, shape, dtype=torch.int8)
    tensors = {"weight": weight, "weight_offset": offset, "weight_scale": scale}
    return tensors, (weight - offset) * scale


F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
CASES = [
    # The dtypes of offset and scale, their shapes, the shape of the weight.
    (F32, F32, (6, 1), (6, 1), (6, 9)),
    (F16, F16, (6, 1), (6, 1), (6, 9)),
    (BF16, BF16, (6, 1), (6, 1), (6, 9)),
    (F16, BF16, (6, 1), (1,), (6, 9)),
    (F64, F32, (9,), (6, 1), (6, 9)),
    (F64, F16, (), (6, 1), (6, 9)),
    (F16, F64, (6, 1), (), (6, 9)),
    (torch.int8, F32, (6, 1), (6, 1), (6, 9)),
    (torch.int32, F16, (6, 1), (6, 1), (6, 9)),
    (torch.int16, torch.int8, (6, 1), (), (6, 9)),
    (F32, F32, (2, 1, 5), (3, 1), (2, 3, 5)),
    (F32, F32, (4, 1), (4, 1), (4, 70000)),
    (F32, F32, (3, 4), (1,), (4,)),
    (F32, F32, (), (), ()),
]


@pytest.mark.parametrize("case", CASES)
def test_dequantizes_as_torch_does(tmp_path: Path, case: tuple) -> None:
    torch.manual_seed(5)
    offset_type, scale_type, offset_shape, scale_shape, shape = case
    offset = (torch.randn(offset_shape) * 9).to(offset_type)
    scale = (torch.rand(scale_shape) + 1).to(scale_type)
    tensors, exact = quantized(offset, scale, shape)
    golden = exact.double() + torch.randn(exact.shape) / 10
    save(tmp_path / "g" / "a.safetensors", {"l.weight": golden.float()})
    save(tmp_path / "m" / "a.safetensors", {f"l.{k}": v for k, v in tensors.items()})
    ((row,), log, (level, _)) = weights(tmp_path)
    assert log == [] and level == "INFO"
    assert row["weight_name"] == "l.weight"
    for side, tensor in (("golden", golden.float()), ("my", exact)):
        assert row[f"{side}_dtype"] == str(tensor.dtype)
        assert row[f"{side}_shape"] == str(list(tensor.shape))
        assert float(row[f"{side}_max_value"]) == tensor.float().max().item()
        assert float(row[f"{side}_min_value"]) == tensor.float().min().item()
        mean = tensor.float().double().mean().item()
        assert float(row[f"{side}_mean_value"]) == pytest.approx(mean, rel=1e-5)
    wanted = metrics_of(golden.float(), exact)
    kl = wanted.pop("kl_divergence")
    assert float(row["kl_divergence"]) == pytest.approx(kl, rel=1e-4, abs=1e-5)
    for name, value in wanted.items():
        assert float(row[name]) == pytest.approx(value, rel=1e-5, abs=1e-9), name


def test_all_files_of_both_sides_are_read(tmp_path: Path) -> None:
    torch.manual_seed(6)
    for i in (2, 1):
        tensors, exact = quantized(torch.zeros(3, 1), torch.ones(3, 1), (3, 4))
        golden = {f"b{i}.weight": exact, f"a{i}.weight": exact, f"{i}.bias": exact}
        save(tmp_path / "g" / f"{i}.safetensors", golden)
        mine = {f"{n}{i}.{k}": v for k, v in tensors.items() for n in ("a", "b")}
        save(tmp_path / "m" / f"{3 - i}.safetensors", mine)
    (tmp_path / "g" / "ignored.bin").write_bytes(b"x")
    rows, log, last = weights(tmp_path)
    assert [r["weight_name"] for r in rows] == [
        "a1.weight",
        "b1.weight",
        "a2.weight",
        "b2.weight",
    ]
    assert {r["cosine_similarity"] for r in rows} == {"1.0"}
    assert {r["max_absolute_error"] for r in rows} == {"0.0"}
    assert log == []
    assert last == (
        "INFO",
        (
            "4 weights compared, 0 left out, 0 not quantized; 0 only in golden, "
            "0 quantized ones only in my, 0 int8 tensors without the name of a weight"
        ),
    )


def test_bin_files_of_torch_count_where_there_are_no_safetensors(
    tmp_path: Path,
) -> None:
    tensors, exact = quantized(torch.zeros(3, 1), torch.ones(3, 1), (3, 4))
    for side in ("g", "m"):
        (tmp_path / side).mkdir()
    torch.save({"a.weight": exact}, tmp_path / "g" / "pytorch_model.bin")
    mine = {f"a.{k}": v for k, v in tensors.items()}
    torch.save(mine, tmp_path / "m" / "pytorch_model.bin")
    (row,), log, _ = weights(tmp_path, "-alg", "f.py:count")
    assert (row["weight_name"], row["max_absolute_error"]) == ("a.weight", "0.0")
    ((_, level, said),) = log
    assert level == "WARNING" and said.startswith("--custom-algorithms has no effect")


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    good, exact = quantized(torch.zeros(3, 1), torch.ones(3, 1), (3, 4))
    golden = {f"{name}.weight": exact for name in "abcdefghij"}
    mine: dict[str, torch.Tensor] = {}
    for name in "abcdefghi":
        mine |= {f"{name}.{k}": v for k, v in good.items()}
    mine["b.weight"] = exact
    del mine["c.weight_offset"], mine["d.weight_scale"]
    mine["e.weight_scale"] = torch.ones(5)
    golden["f.weight"] = torch.ones(2)
    golden["g.weight"] = torch.full((3, 4), float("nan"))
    golden["h.weight"] = good["weight"]
    mine["i.weight"] = torch.zeros((0, 4), dtype=torch.int8)
    mine["i.weight_offset"] = mine["i.weight_scale"] = torch.ones(4)
    # The golden file has no such weights.
    for name in "pqrstuvw":
        mine[f"{name}.weight"] = good["weight"]
    mine["x.weight"] = torch.ones(2)
    mine["a.qweights"] = mine["b.weight_scale"] = good["weight"]
    save(tmp_path / "g" / "1.safetensors", golden)
    save(tmp_path / "g" / "2.safetensors", {"a.weight": exact})
    (tmp_path / "g" / "3.safetensors").write_bytes(b"\xff" * 64)
    (tmp_path / "g" / "4.safetensors").touch()
    (tmp_path / "g" / "5.safetensors").mkdir()
    save(tmp_path / "m" / "1.safetensors", mine)
    rows, log, last = weights(tmp_path)
    assert [r["weight_name"] for r in rows] == ["a.weight", "g.weight"]
    assert [rows[1][name] for name in METRICS] == [""] * 7
    said = [text for _, level, text in log if level == "WARNING"]
    for text in (
        "'a.weight' appears twice",
        "3.safetensors: ",
        "4.safetensors: it is empty",
        "'c.weight' is left out: there is no 'c.weight_offset'",
        "'d.weight' is left out: there is no 'd.weight_scale'",
        "'e.weight' is left out: torch.Size([3, 4]) and torch.Size([5]) do not match",
        "'f.weight' is left out: data shape doesn't match.",
        "'g.weight' has no metrics: golden_data includes NAN or inf.",
        "'h.weight' is left out: only one side is int8",
        "'i.weight' is left out: it has no elements",
        "1 weights of golden are not in the other folder: 'j.weight'",
        (
            "8 quantized weights of my are not in golden: 'p.weight', 'q.weight', "
            "'r.weight', 's.weight', 't.weight', ..."
        ),
        "1 int8 tensors of my do not have the name of a weight: 'a.qweights'",
    ):
        assert sum(text in line for line in said) == 1, (text, said)
    assert len(said) == 13
    assert last == (
        "WARNING",
        (
            "2 weights compared, 6 left out, 1 not quantized; 1 only in golden, "
            "8 quantized ones only in my, 1 int8 tensors without the name of a weight"
        ),
    )


def test_shapes_that_grow_without_end_are_refused(tmp_path: Path) -> None:
    size = 1 << 17
    golden = {"a.weight": torch.ones(2)}
    mine = {
        "a.weight": torch.ones((size, 1, 1), dtype=torch.int8),
        "a.weight_offset": torch.ones((1, size, 1)),
        "a.weight_scale": torch.ones((1, 1, size)),
    }
    save(tmp_path / "g" / "1.safetensors", golden)
    save(tmp_path / "m" / "1.safetensors", mine)
    rows, log, last = weights(tmp_path)
    assert rows == []
    assert last[0] == "WARNING"
    assert log[0][1] == "WARNING" and "'a.weight' is left out: " in log[0][2]
    assert log[1][2] == "The folders have no quantized weights in common"


def test_weights_take_two_folders_with_weights(tmp_path: Path) -> None:
    save(tmp_path / "g" / "1.safetensors", {"a.weight": torch.ones(2)})
    (tmp_path / "m").mkdir()
    verb = ("llm", "cc", "-w", "-gp", "g", "-mp")
    for words, said in (
        ((*verb, "m"), "m has no .safetensors or .bin file"),
        ((*verb, "none"), "none: --weight requires two folders"),
        ((*verb, "g/1.safetensors"), "1.safetensors: --weight requires two folders"),
    ):
        done = msit(tmp_path, *words, expect=1)
        assert done.stderr.startswith("msit: ") and said in done.stderr
