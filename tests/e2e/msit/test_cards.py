"""Several cards on a side of a comparison: copies and pieces are assembled."""

import csv
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from card_trees import FC, LAYERS, column_parallel, copied, write_library, write_torch
from msit_command import log_of, msit

from daemon import Daemon

FAILED = 1
TWO = ("0_4242", "1_4243")
FOUR = tuple(f"{i}_{50 + i}" for i in range(4))


def compare(
    folder: Path, golden: Path, my: Path, *flags: str, level: str = "api"
) -> tuple[list[dict[str, str]], list[str]]:
    """Returns the rows of a level, and the log."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    done = msit(
        folder,
        *("llm", "compare", "-gp", str(golden), "-mp", str(my), "-cl", level),
        *("-o", "out", *flags),
        environment={
            "TMPDIR": str(temporary),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
    )
    assert not os.listdir(temporary)
    (report,) = (folder / "out").glob("*.csv")
    rows = list(csv.DictReader(report.read_text().splitlines()))
    report.unlink()
    return rows, [f"{level} {text}" for _, level, text in log_of(done.stderr)]


def parts_of(rows: list[dict[str, str]]) -> dict[str, list[dict[str, str]]]:
    """Returns rows by the role of the golden module in its layer."""
    out: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        op = Path(row["golden_data_path"]).parts[-2]
        if op.startswith("root"):
            out.setdefault("." + ".".join(op.split(".")[3:]), []).append(row)
        else:
            out.setdefault(op, []).append(row)
    return out


def is_exact(row: dict[str, str]) -> bool:
    return (row["max_absolute_error"], row["cmp_fail_reason"]) == ("0.0", "")


@pytest.mark.parametrize("cards", [TWO, FOUR])
def test_one_card_is_compared_with_several(
    tmp_path: Path, cards: tuple[str, ...]
) -> None:
    golden = write_torch(tmp_path / "msit_dump_1", tokens=(0, 1))
    share = column_parallel(len(cards))
    my = write_library(tmp_path / "msit_dump_2", cards, share, tokens=(0, 1))
    rows, log = compare(tmp_path, golden, my)
    assert all(is_exact(row) for row in rows), rows
    linear = parts_of(rows)[FC]
    assert len(linear) == 2 * LAYERS
    assert {row["my_shape"] for row in linear} == {"[5, 12]"}
    assert all(f"/{cards[0]}/" in row["my_data_path"] for row in linear)
    assert any(f"{len(cards)} in total, are assembled" in line for line in log)
    # The path may name a card.
    rows, _ = compare(tmp_path, golden, my / "tensors" / cards[1])
    assert all(is_exact(row) for row in rows)
    assert all(f"/{cards[1]}/" in row["my_data_path"] for row in rows)
    # The path may name a token.
    rows, _ = compare(tmp_path, golden, my / "tensors" / cards[1] / "1")
    assert {row["token_id"] for row in rows} == {"1"}
    assert all(is_exact(row) for row in rows)
    # The original compares the same.
    rows, _ = compare(tmp_path, golden, my, "--compat")
    assert len(parts_of(rows)[FC]) == 2 * LAYERS
    assert all(is_exact(row) for row in rows)


def test_both_sides_may_have_cards(tmp_path: Path) -> None:
    cards = ("npu0_7", "npu1_8")
    golden = write_torch(tmp_path / "msit_dump_1", cards, column_parallel(2))
    for number, my_cards in enumerate((TWO, FOUR)):
        my = write_library(
            tmp_path / f"msit_dump_my{number}",
            my_cards,
            column_parallel(len(my_cards)),
        )
        rows, _ = compare(tmp_path, golden, my)
        assert len(parts_of(rows)[FC]) == LAYERS
        assert all(is_exact(row) for row in rows), rows


def test_two_torch_models_may_have_cards(tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1")
    cards = ("npu0_7", "npu1_8")
    my = write_torch(tmp_path / "msit_dump_2", cards, column_parallel(2))
    rows, _ = compare(tmp_path, golden, my)
    assert len(rows) == 3 * LAYERS
    assert all(is_exact(row) for row in rows), rows


def test_cards_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1")
    cards = ("2_90", "10_20", "11_5")
    my = write_library(tmp_path / "msit_dump_2", cards, column_parallel(3))
    rows, _ = compare(tmp_path, golden, my)
    assert all(is_exact(row) for row in rows), rows


def test_a_card_that_is_wrong_is_found(tmp_path: Path) -> None:
    def share(part: str, whole: torch.Tensor, card: int) -> torch.Tensor:
        piece = column_parallel(2)(part, whole, card)
        return piece + card

    golden = write_torch(tmp_path / "msit_dump_1")
    my = write_library(tmp_path / "msit_dump_2", TWO, share)
    rows, _ = compare(tmp_path, golden, my)
    for row in parts_of(rows)[FC]:
        assert (float(row["max_absolute_error"]) - 1) ** 2 < 1e-9, row
    rows, _ = compare(tmp_path, golden, my, level="module")
    assert len(rows) == LAYERS
    for row in rows:
        # The first card is correct.
        assert row["max_absolute_error"] == "0.0"
        assert "rank 1 has other bytes than rank 0" in row["cmp_fail_reason"]
    rows, _ = compare(tmp_path, golden, my, "--compat", level="module")
    assert len(rows) == LAYERS and all(is_exact(row) for row in rows)


def test_a_missing_card_is_said(tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1")
    my = write_library(tmp_path / "msit_dump_2", FOUR, column_parallel(4))
    shutil.rmtree(my / "tensors" / FOUR[2])
    rows, log = compare(tmp_path, golden, my)
    assert FC not in parts_of(rows)
    assert any("no tensor of the other model has its size" in line for line in log)


def test_a_card_that_is_there_twice_does_not_fit(tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1")
    my = write_library(tmp_path / "msit_dump_2", TWO, column_parallel(2))
    shutil.copytree(my / "tensors" / TWO[1], my / "tensors" / "1_9999")
    rows, log = compare(tmp_path, golden, my)
    assert FC not in parts_of(rows)
    assert any("no tensor of the other model has its size" in line for line in log)
    rows, _ = compare(tmp_path, golden, my, level="module")
    assert len(rows) == LAYERS and all(is_exact(row) for row in rows)


def test_pieces_that_one_card_lacks_are_said(tmp_path: Path) -> None:
    def share(part: str, whole: torch.Tensor, card: int) -> torch.Tensor | None:
        if part == FC and card == 2:
            return None
        return column_parallel(4)(part, whole, card)

    golden = write_torch(tmp_path / "msit_dump_1")
    my = write_library(tmp_path / "msit_dump_2", FOUR, share)
    rows, log = compare(tmp_path, golden, my)
    assert FC not in parts_of(rows)
    assert any("no tensor of the other model has its size" in line for line in log)


def test_pieces_may_be_of_different_sizes(tmp_path: Path) -> None:
    def share(part: str, whole: torch.Tensor, card: int) -> torch.Tensor:
        return whole.split([5, 7], -1)[card] if part == FC else whole

    golden = write_torch(tmp_path / "msit_dump_1")
    my = write_library(tmp_path / "msit_dump_2", TWO, share)
    rows, _ = compare(tmp_path, golden, my)
    assert len(parts_of(rows)[FC]) == LAYERS
    assert all(is_exact(row) for row in rows), rows


def test_shapes_that_do_not_go_together_are_said(tmp_path: Path) -> None:
    def share(part: str, whole: torch.Tensor, card: int) -> torch.Tensor:
        return whole.reshape(10, 6)[:, 3 * card : 3 * card + 3] if part == FC else whole

    golden = write_torch(tmp_path / "msit_dump_1")
    my = write_library(tmp_path / "msit_dump_2", TWO, share)
    rows, _ = compare(tmp_path, golden, my)
    for row in parts_of(rows)[FC]:
        assert row["cosine_similarity"] == ""
        assert "fit of ranks 0-1, the first with [10,3]" in row["cmp_fail_reason"]


def test_functions_get_what_was_put_together(tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1")
    my = write_library(tmp_path / "msit_dump_2", TWO, column_parallel(2))
    (tmp_path / "largest.py").write_text(
        "def largest(golden, my):\n"
        "    return (golden - my).abs().max().item(), str(my.numel())\n"
    )
    (tmp_path / "largest.py").chmod(0o600)
    rows, _ = compare(tmp_path, golden, my, "-alg", "largest.py:largest")
    assert {row["largest"] for row in rows} == {"0.0"}
    assert {row["cmp_fail_reason"] for row in parts_of(rows)[FC]} == {"60"}


def test_imported_cards_are_put_together(daemon: Daemon, tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1")
    my = write_library(tmp_path / "msit_dump_2", TWO, column_parallel(2))
    daemon.ctl("run", "import", str(golden), "--run", "torch")
    daemon.ctl("run", "import", str(my), "--run", "atb")
    for pair in (("torch", "atb"), ("atb", "torch")):
        done = daemon.ctl("-o", "json", "compare", "run", *pair)
        assert "1 and 2 ranks" in done.stderr or "2 and 1 ranks" in done.stderr
        assert "-layout '*=fit'" in done.stderr
    rows = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    linear = [row for row in rows if row.get("op", "").endswith(FC)]
    assert len(linear) == LAYERS
    assert {row["target"]["layout"] for row in linear} == {"concat(1)"}
    # With --ranks, ranks are compared as they are.
    done = daemon.ctl("compare", "run", "torch", "atb", "--ranks", "0", expect=None)
    assert "2 ranks" not in done.stderr


def test_imported_cards_of_torch_are_put_together(
    daemon: Daemon, tmp_path: Path
) -> None:
    golden = write_torch(tmp_path / "msit_dump_1")
    cards = ("npu0_7", "npu1_8")
    my = write_torch(tmp_path / "msit_dump_2", cards, column_parallel(2)).parent
    daemon.ctl("run", "import", str(golden), "--run", "one")
    daemon.ctl("run", "import", str(my), "--run", "two")
    daemon.ctl("compare", "run", "one", "two")

    def share(part: str, whole: torch.Tensor, card: int) -> torch.Tensor | None:
        return (
            None if part == FC and card == 1 else column_parallel(2)(part, whole, card)
        )

    bad = write_torch(tmp_path / "msit_dump_3", cards, share).parent
    daemon.ctl("run", "import", str(bad), "--run", "bad")
    done = daemon.ctl("compare", "run", "one", "bad", "--rows", "all", expect=FAILED)
    assert "rank 1 has no such tensor" in done.stdout


def test_fit_is_a_layout_like_others(daemon: Daemon, tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1", share=copied)
    my = write_torch(
        tmp_path / "msit_dump_2", ("npu0_1", "npu1_2"), column_parallel(2)
    ).parent
    daemon.ctl("run", "import", str(golden), "--run", "one")
    daemon.ctl("run", "import", str(my), "--run", "two")
    fit = ("--target-layout", "*.fc=fit", "--target-layout", "*=replicated")
    daemon.ctl("compare", "run", "one", "two", *fit)
    daemon.ctl("compare", "run", "one", "two", "--target-layout", "*=fit")
