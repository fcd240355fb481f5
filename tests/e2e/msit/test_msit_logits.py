"""msit llm logitscmp: logits of two folders, compared with torch and msit's
formulas.
"""

import csv
import os
import re
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from msit_command import log_of, msit, only_file

COLUMNS = [
    "file_name",
    "key",
    "token_id",
    "cosine_similarity",
    "kl_divergence",
    "l1_norm",
    "ulp_max_diff",
    "ulp",
    "passed",
    "cmp_fail_reason",
]
Rows = dict[str, dict[str, str]]


def save(folder: Path, name: str, logits: torch.Tensor) -> None:
    folder.mkdir(exist_ok=True)
    torch.save(logits, folder / name)


def logitscmp(folder: Path, *words: str) -> Rows:
    """Runs the verb on the folders `g` and `m`; returns the rows by the name of
    the file.
    """
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    done = msit(
        folder,
        *("llm", "logitscmp", "-gp", "g", "-mp", "m", *words),
        environment={"TMPDIR": str(temporary)},
    )
    assert not os.listdir(temporary)
    path = only_file(folder / "output")
    assert re.fullmatch(r"logits_cmp_res_\d{14}\.csv", path.name)
    log = log_of(done.stderr)
    saved = f"Save compare result to '{path.resolve()}'"
    assert ("msit_llm_logger", "INFO", saved) in log
    assert path.read_bytes().count(b"\r\n") == path.read_bytes().count(b"\n")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == COLUMNS
    path.unlink()
    return {row["file_name"]: row for row in rows}


def wanted(golden: torch.Tensor, my: torch.Tensor, dtype: str) -> dict[str, float]:
    """Returns the metrics that msit computes with torch."""
    g, m = golden.squeeze(0), my.squeeze(0)
    kl = torch.nn.functional.kl_div(
        m.double().log_softmax(-1), g.double().softmax(-1), reduction="sum"
    )
    largest = m.float().max()
    step = {"bf16": 2**-7, "fp16": 2**-10, "fp32": 2**-23}[dtype]
    return {
        "cosine_similarity": torch.cosine_similarity(g.double(), m.double(), 0).item(),
        "kl_divergence": max(kl.item(), 0),
        "l1_norm": (m.double().abs().sum() / g.double().abs().sum() - 1).item(),
        "ulp_max_diff": (g.float().max() - largest).abs().item(),
        "ulp": (2 ** torch.floor(torch.log2(largest)) * step).item(),
    }


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
def test_metrics_are_those_of_torch(tmp_path: Path, dtype: str) -> None:
    torch.manual_seed(3)
    kinds = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
    pairs = {}
    for i, kind in enumerate(kinds):
        golden = (torch.randn(1, 997) * 5).to(kind)
        my = (golden.double() + torch.randn(1, 997) / 50 * i).to(kind)
        pairs[f"logits_0_{i}_{i + 1}.pth"] = golden, my
        save(tmp_path / "g", f"logits_0_{i}_{i + 1}.pth", golden)
        save(tmp_path / "m", f"logits_0_{i}_{i + 1}.pth", my)
    rows = logitscmp(tmp_path, "-d", dtype)
    assert list(rows) == list(pairs)
    for i, (name, (golden, my)) in enumerate(pairs.items()):
        row = rows[name]
        assert (row["key"], row["token_id"], row["cmp_fail_reason"]) == (
            str(i),
            str(i + 1),
            "",
        )
        exact = wanted(golden, my, dtype)
        kl = exact.pop("kl_divergence")
        assert float(row["kl_divergence"]) == pytest.approx(kl, abs=2e-6)
        for column, value in exact.items():
            assert float(row[column]) == pytest.approx(value, rel=1e-9, abs=1e-12)
        assert float(row["ulp"]) == exact["ulp"]
        assert float(row["ulp_max_diff"]) == exact["ulp_max_diff"]


def test_thresholds_and_ulp_decide(tmp_path: Path) -> None:
    golden = torch.tensor([1.0, 2.0, 3.0, 4.0])
    near = golden + torch.tensor([0.0, 0.0, 0.0, 0.5])
    for folder, logits in (("g", golden), ("m", near)):
        save(tmp_path / folder, "a_1_1.pth", logits)
    assert logitscmp(tmp_path)["a_1_1.pth"]["passed"] == "False"
    loose = ("-cs", "0.9", "-kl", "1", "-l1", "1")
    assert logitscmp(tmp_path, *loose)["a_1_1.pth"]["passed"] == "True"
    assert logitscmp(tmp_path, *loose, "-cs", "1")["a_1_1.pth"]["passed"] == "False"
    assert logitscmp(tmp_path, *loose, "-kl", "0")["a_1_1.pth"]["passed"] == "False"
    assert logitscmp(tmp_path, *loose, "-l1", "0")["a_1_1.pth"]["passed"] == "False"
    # The largest values differ as little as neighboring floats.
    save(tmp_path / "m", "a_1_1.pth", torch.tensor([4.0, 3.0, 2.0, 4.03125]))
    assert logitscmp(tmp_path, "-d", "bf16")["a_1_1.pth"]["passed"] == "True"
    assert logitscmp(tmp_path, "-d", "fp16")["a_1_1.pth"]["passed"] == "False"


def test_negative_maximum_has_no_ulp(tmp_path: Path) -> None:
    for folder in ("g", "m"):
        save(tmp_path / folder, "a_1_1.pth", torch.tensor([-3.0, -1.0]))
    row = logitscmp(tmp_path)["a_1_1.pth"]
    assert (row["ulp_max_diff"], row["ulp"], row["passed"]) == ("0.0", "nan", "True")


def test_sums_of_nothing_are_whole_numbers(tmp_path: Path) -> None:
    save(tmp_path / "g", "a_1_1.pth", torch.zeros(3))
    save(tmp_path / "m", "a_1_1.pth", torch.tensor([0.0, 0.0, 1.0]))
    row = logitscmp(tmp_path)["a_1_1.pth"]
    assert (row["l1_norm"], row["passed"]) == ("1", "False")


def test_what_cannot_be_compared_says_why(tmp_path: Path) -> None:
    good = torch.arange(6.0)
    bad = {
        "a_1_1.pth": (good, good.reshape(1, 2, 3), "data shape doesn't match."),
        "a_1_2.pth": (
            torch.tensor([1.0, float("nan")]),
            torch.tensor([float("inf"), 1.0]),
            "golden_data includes NAN or inf. my_data includes NAN or inf.",
        ),
        "a_1_3.pth": (good, torch.zeros(6), "max value is 0, cannot compute ulp"),
        "a_1_4.pth": (good.reshape(2, 3), good.reshape(2, 3), "dimensions"),
        "a_1_5.pth": (torch.zeros(0), torch.zeros(0), "no elements"),
        "a_1_6.pth": ({"a": good, "b": good}, good, "2 tensors"),
        "a_1_7.pth": (good, good.to(torch.complex64), "complex64"),
        "nothing.pth": (good, good, "parse_error:invalid logits file name"),
        "js_1.pth": (good, good, "parse_error:missing_digits_after_js"),
        "x_y.pth": (good, good, "parse_error:invalid_format_x_y"),
    }
    for name, (golden, my, _) in bad.items():
        save(tmp_path / "g", name, golden)
        save(tmp_path / "m", name, my)
    for folder in ("g", "m"):
        save(tmp_path / folder, "js_20_1.pth", good)
        save(tmp_path / folder, "js_3_1.pth", good)
        (tmp_path / folder / "x_1_8.pth").write_bytes(os.urandom(5000))
        (tmp_path / folder / "x_1_9.pth").mkdir()
        os.mkfifo(tmp_path / folder / "x_2_0.pth")
        (tmp_path / folder / "x_2_1.pth").symlink_to("nowhere")
        (tmp_path / folder / "x_2_2.pth").touch()
        (tmp_path / folder / "other.npy").touch()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "g" / "x_2_3.pth"))
        save(tmp_path / "m", "x_2_3.pth", good)
        save(tmp_path / "g", "=1+1.pth", good)
        save(tmp_path / "m", "b_1_1.pth", good)
        rows = logitscmp(tmp_path)
    for name, (_, _, reason) in bad.items():
        assert reason in rows[name]["cmp_fail_reason"], name
    assert rows["'=1+1.pth"]["cmp_fail_reason"] == "only_in_golden_path"
    assert rows["b_1_1.pth"]["cmp_fail_reason"] == "only_in_my_path"
    for name, row in rows.items():
        if name in ("js_3_1.pth", "js_20_1.pth"):
            assert (row["passed"], row["cmp_fail_reason"]) == ("True", "")
            continue
        assert row["cmp_fail_reason"], name
        assert {row[column] for column in COLUMNS[3:9]} == {"NA"}
    names = list(rows)
    assert names.index("js_3_1.pth") == names.index("js_20_1.pth") - 1
    assert rows["js_3_1.pth"]["key"] == "js/3"
    assert len(rows) == len(bad) + 10


def test_wrong_folders_and_limits_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "g", "a_1_1.pth", torch.ones(2))
    save(tmp_path / "m", "a_1_2.pth", torch.ones(2))
    verb = ("llm", "logitscmp", "-gp", "g", "-mp")
    for words, code, said in (
        ((*verb, "m"), 1, "no *.pth file exists in both"),
        ((*verb, "none"), 1, "none"),
        ((*verb, "g/a_1_1.pth"), 1, "a_1_1.pth"),
        ((*verb, "m", "-cs", "1.5"), 2, "--cosine-similarity"),
        ((*verb, "m", "-cs", "nan"), 2, "--cosine-similarity"),
        ((*verb, "m", "-kl", "-1"), 2, "--kl-divergence"),
        ((*verb, "m", "-l1", "-2"), 2, "--l1-norm"),
        ((*verb, "m", "-d", "int8"), 2, "--dtype"),
        ((*verb, "g", "-o", "g/a_1_1.pth/x"), 1, "a_1_1.pth"),
    ):
        done = msit(tmp_path, *words, expect=code)
        last = done.stderr.splitlines()[-1]
        assert last.startswith("msit: ") and said in last


def test_many_files_are_compared_in_batches(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    for folder in ("g", "m"):
        save(tmp_path / folder, "a_0_0.pth", torch.ones(3))
    raw = (tmp_path / "g" / "a_0_0.pth").read_bytes()
    for i in range(2100):
        for folder in ("g", "m"):
            (tmp_path / folder / f"a_{i}_0.pth").write_bytes(raw)
    save(tmp_path / "m", "a_2090_0.pth", torch.tensor(generator.random(3)))
    rows = logitscmp(tmp_path)
    assert len(rows) == 2100
    failed = [name for name, row in rows.items() if row["passed"] == "False"]
    assert failed == ["a_2090_0.pth"]
    assert [int(row["key"]) for row in rows.values()] == list(range(2100))
