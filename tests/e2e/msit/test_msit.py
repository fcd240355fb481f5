"""The command msit, which is the real binary under another name."""

import ast
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from msit_command import LINE, log_of, metrics_of, msit


def test_a_wrong_command_line_is_two(tmp_path: Path) -> None:
    for words in (
        ("llm", "analyze"),
        ("llm", "nothing"),
        ("nothing",),
        ("check",),
        ("llm", "analyze", "-g", "a.csv", "-t", "b.csv", "-l", "loud"),
    ):
        done = msit(tmp_path, *words, expect=2)
        assert done.stderr.startswith("msit: ") and "--help" in done.stderr


def test_verbs_that_are_not_there_say_what_to_use(tmp_path: Path) -> None:
    listed = msit(tmp_path, "llm", "--help").stdout
    for verb, instead in (
        ("oo", "use msit llm compare with a golden dump"),
        ("ee", "msitctl tensor find"),
        ("transform", "nothing replaces it"),
    ):
        assert re.search(rf"\b{verb}\b", listed)
        done = msit(tmp_path, "llm", verb, "--exec", "x y", "-er", "0,1", expect=1)
        (line,) = done.stderr.splitlines()
        assert "is not in this build: " in line and instead in line
    done = msit(tmp_path, "debug", "dump", "-m", "a.onnx", expect=1)
    (line,) = done.stderr.splitlines()
    assert "without --exec" in line and "the Python package msitd" in line
    for words in (("-gm", "a.onnx", "-om", "a.om"), ("--om-model", "a.om")):
        done = msit(tmp_path, "debug", "compare", *words, expect=2)
        (line,) = done.stderr.splitlines()
        assert "does not run models" in line and "msitctl run import" in line


def test_installers_fetch_nothing_and_succeed(tmp_path: Path) -> None:
    for words in (
        ("install", "llm", "--find-links", "x"),
        ("download", "llm", "--dest", "x"),
        ("build-extra", "llm"),
    ):
        ((name, level, message),) = log_of(msit(tmp_path, *words).stderr)
        assert (name, level) == ("msit_logger", "INFO")
        assert message.startswith("msit-llm: part of msitd")
    ((_, level, _),) = log_of(msit(tmp_path, "install", "surgeon").stderr)
    assert level == "WARNING"
    ((_, level, _),) = log_of(msit(tmp_path, "check", "none").stderr)
    assert level == "WARNING"
    # The wording of the original.
    log = log_of(msit(tmp_path, "check", "all").stderr)
    assert {level for _, level, _ in log} == {"INFO"}
    texts = [text for _, _, text in log]
    found = dict(zip(texts[::2], texts[1::2], strict=True))
    assert list(found)[:2] == ["msit-llm", "msit-surgeon"] and len(found) == 11
    assert found["msit-llm"] == found["msit-compare"] == "  OK"
    assert found["msit-surgeon"] == "  not install yet."
    assert not os.listdir(tmp_path)


def test_groups_print_their_help(tmp_path: Path) -> None:
    assert "llm" in msit(tmp_path).stdout
    assert "bcanalyze" in msit(tmp_path, "llm").stdout


def write_bin(path: Path, dtype: int, dims: str, data: bytes) -> None:
    """Writes a file of ATB with the shortest possible header."""
    path.write_bytes(f"dtype={dtype}\ndims={dims}\n$End=1\n".encode() + data)


GRID = re.compile(r"\| (.*) \|\n\+[-+]*\n\| (.*) \|\n")


def statistics_of(text: str) -> dict[str, float]:
    """Returns the grid that tensor-view logs."""
    found = GRID.search(text)
    assert found is not None, text
    names, values = (line.split("|") for line in found.groups())
    return {name.strip(): float(v) for name, v in zip(names, values, strict=True)}


CASES = [
    torch.arange(24, dtype=torch.float32).reshape(2, 3, 4) / 7 - 1,
    torch.tensor([[1e-9, 2.0], [float("nan"), -float("inf")]]),
    torch.tensor([1.0, 2.0, 3000.0], dtype=torch.float16),
    torch.linspace(-2, 2, 30).to(torch.bfloat16).reshape(5, 6),
    torch.tensor([[2**62 + 1, -7]], dtype=torch.int64),
    torch.tensor([True, False, True]),
    torch.arange(1200, dtype=torch.int32).reshape(3, 8, 50),
    torch.linspace(0, 1, 2001, dtype=torch.float64),
    torch.zeros(3),
    torch.arange(120, dtype=torch.float32),
    # The last line has no room for the type.
    torch.full((2, 3, 7), 65535, dtype=torch.uint16),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_tensor_view_prints_what_torch_prints(tmp_path: Path, number: int) -> None:
    tensor = CASES[number]
    torch.save(tensor, tmp_path / "x.pth")
    done = msit(tmp_path, "tensor-view", "-b", "x.pth", "-p")
    lines = done.stderr.splitlines()
    found = LINE.fullmatch(lines[0])
    assert found is not None
    assert found.group(1, 3) == ("msit_logger", f"source tensor shape: {tensor.shape}")
    assert done.stderr.endswith(f" - INFO - \n{tensor}\n")
    as_float = tensor if tensor.is_floating_point() else tensor.float()
    wanted = {
        name: getattr(as_float, name)().item()
        for name in ("min", "max", "mean", "std", "var")
    }
    # torch adds in another order.
    relative = torch.finfo(as_float.dtype).eps * 4
    assert statistics_of(done.stderr) == pytest.approx(
        wanted, rel=relative, nan_ok=True
    )


def test_tensor_view_cuts_permutes_and_saves(tmp_path: Path) -> None:
    tensor = CASES[0]
    write_bin(tmp_path / "x.bin", 0, "2,3,4", tensor.numpy().tobytes())
    words = ("tensor-view", "--bin", "x.bin", "-op", "[:,1:,::2];(2,0,1);[-1]")
    done = msit(tmp_path, *words, "-o", "out")
    wanted = tensor[:, 1:, ::2].permute(2, 0, 1)[-1].contiguous()
    assert (tmp_path / "out.bin").read_bytes() == (
        b"dtype=0\ndims=2,2\n$End=1\n" + wanted.numpy().tobytes()
    )
    messages = [m[3] for m in map(LINE.fullmatch, done.stderr.splitlines()) if m]
    name = "SliceOperation: [':', '1:', '::2']"
    shape = "current tensor shape: torch.Size"
    assert messages[:4] == [
        "source tensor shape: torch.Size([2, 3, 4])",
        "Operations start",
        f"{name} starts, {shape}([2, 3, 4])",
        f"{name} ends, {shape}([2, 2, 2])",
    ]
    assert messages[-1] == "Tensor saved successfully to out.bin"
    msit(tmp_path, "tensor-view", "-b", "out.bin", "-o", "again.npy")
    assert np.array_equal(np.load(tmp_path / "again.npy"), wanted.numpy())
    msit(tmp_path, "tensor-view", "-b", "again.npy", "-o", "last.pth")
    assert torch.equal(torch.load(tmp_path / "last.pth"), wanted)


def test_tensor_view_refuses_in_one_line(tmp_path: Path) -> None:
    torch.save(torch.zeros(2, 2, dtype=torch.float64), tmp_path / "x.pth")
    torch.save({"a": torch.zeros(2), "b": torch.zeros(2)}, tmp_path / "two.pth")
    for words, said in (
        (("-b", "none.pth"), "none.pth"),
        (("-b", "two.pth"), "2 tensors"),
        (("-b", "x.pth", "-op", "[5]"), "Index out of range"),
        (("-b", "x.pth", "-op", "oops"), "Invalid operation string"),
        (("-b", "x.pth", "-o", "y.bin"), "cannot have float64 elements"),
    ):
        done = msit(tmp_path, "tensor-view", *words, expect=1)
        last = done.stderr.splitlines()[-1]
        assert last.startswith("msit: ") and said in last
    assert not (tmp_path / "y.bin").exists()


def compare(folder: Path, *words: str) -> dict[str, object]:
    """Runs `msit llm compare`, and returns the dictionary that it logs."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    done = msit(
        folder, "llm", "compare", *words, environment={"TMPDIR": str(temporary)}
    )
    assert not os.listdir(temporary)
    ((name, level, message),) = log_of(done.stderr)[-1:]
    assert (name, level) == ("msit_llm_logger", "INFO")
    said, _, text = message.partition(": ")
    assert said == "Compared results"
    value = ast.literal_eval(text.replace("nan", "None"))
    assert isinstance(value, dict)
    return value


def test_compare_logs_the_metrics_of_two_files(tmp_path: Path) -> None:
    torch.manual_seed(7)
    golden = torch.randn(8, 50)
    my = (golden + torch.randn(8, 50) / 100).half().reshape(400)
    np.save(tmp_path / "g.npy", golden.numpy())
    torch.save(my, tmp_path / "m.pth")
    found = compare(tmp_path, "-gp", "g.npy", "-mp", "m.pth", "-cl", "layer")
    assert found.pop("cmp_fail_reason") == ""
    wanted = metrics_of(golden, my)
    assert list(found) == list(wanted)
    kl = found.pop("kl_divergence")
    assert kl == pytest.approx(wanted.pop("kl_divergence"), abs=1e-6)
    assert found == pytest.approx(wanted, rel=1e-6)


def test_compare_of_equal_files_in_two_formats(tmp_path: Path) -> None:
    tensor = CASES[0]
    write_bin(tmp_path / "g.bin", 0, "2,3,4", tensor.numpy().tobytes())
    torch.save(tensor, tmp_path / "m.pt")
    found = compare(tmp_path, "--golden-path", "g.bin", "--my-path", "m.pt")
    assert found == {
        **metrics_of(tensor, tensor),
        "cosine_similarity": 1.0,
        "kl_divergence": 0.0,
        "cmp_fail_reason": "",
    }


SHAPE = "data shape doesn't match."
GOLDEN_BAD = "golden_data includes NAN or inf."
MY_BAD = "my_data includes NAN or inf."


@pytest.mark.parametrize(
    ("golden", "my", "reason"),
    [
        ([1.0, 2.0], [1.0], SHAPE),
        ([], [1.0], SHAPE),
        ([float("nan")], [], f"{SHAPE} {GOLDEN_BAD}"),
        ([1.0, float("nan")], [1.0, 2.0], GOLDEN_BAD),
        ([float("inf")], [float("nan"), 1.0], f"{SHAPE} {GOLDEN_BAD} {MY_BAD}"),
    ],
)
def test_compare_says_why_it_does_not(
    tmp_path: Path, golden: list[float], my: list[float], reason: str
) -> None:
    np.save(tmp_path / "g.npy", np.array(golden, np.float32))
    np.save(tmp_path / "m.npy", np.array(my, np.float32))
    assert compare(tmp_path, "-gp", "g.npy", "-mp", "m.npy") == {
        "cmp_fail_reason": reason
    }


def test_compare_refuses_in_one_line(tmp_path: Path) -> None:
    np.save(tmp_path / "g.npy", np.zeros(2, np.float32))
    np.save(tmp_path / "empty.npy", np.zeros((0, 2), np.float32))
    (tmp_path / "text.bin").write_text("text")
    for words, said in (
        (("-gp", "g.npy", "-mp", "none.npy"), "none.npy: no such file"),
        (("-gp", "text.bin", "-mp", "g.npy"), "text.bin: "),
        (("-gp", "empty.npy", "-mp", "empty.npy"), "no elements"),
        (("-gp", "g.npy", "-mp", "g.npy", "-w"), "--weight requires two folders"),
    ):
        done = msit(tmp_path, "llm", "cc", *words, expect=1)
        assert done.stderr.startswith("msit: ") and said in done.stderr
        assert done.stderr.count("\n") == 1
