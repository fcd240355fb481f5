"""Arguments of recorded calls: texts of a run are parsed, and never evaluated."""

from typing import Any

import pytest
import torch
from msitd.verify.arguments import Leaf, build, parse
from msitd.verify.unchecked import Unchecked


def leaves(**texts: tuple[str, str]) -> dict[str, Leaf]:
    return {
        index.replace("_dot_", ".").removeprefix("p"): Leaf(
            index.replace("_dot_", ".").removeprefix("p"), *value
        )
        for index, value in texts.items()
    }


def built(given: dict[str, Leaf]) -> Any:
    return build(given, lambda leaf: leaf.record)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("number", "3", 3),
        ("number", "-2.5e-3", -2.5e-3),
        ("number", "True", True),
        ("number", "inf", float("inf")),
        ("none", "None", None),
        ("text", "none", "none"),
        ("text", "cuda:3", "cpu"),
        ("dtype", "torch.bfloat16", torch.bfloat16),
        ("other", "slice(None, 4, None)", slice(None, 4, None)),
        ("other", "device(type='npu', index=3)", torch.device("cpu")),
        ("other", "torch.contiguous_format", torch.contiguous_format),
        ("other", "Ellipsis", Ellipsis),
        ("other", "()", ()),
    ],
)
def test_forms_that_the_recorder_writes(kind: str, text: str, value: Any) -> None:
    assert parse(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("other", "__import__('os').system('id')"),
        ("other", "slice(__import__('os'), None, None)"),
        ("other", "torch.load"),
        ("other", "torch.nn"),
        ("other", "<my.module.Thing>"),
        ("other", "<torch.Tensor float32 (2,): not recorded, since it is on meta>"),
        ("dtype", "torch.load"),
        ("dtype", "dtype('<f4')"),
        ("number", "9" * 5000),
        ("number", "(1+2j)"),
        ("number", "os"),
        ("document", "x"),
    ],
)
def test_other_texts_are_refused(kind: str, text: str) -> None:
    with pytest.raises(Unchecked):
        parse(kind, text)


def test_positions_keywords_and_lists() -> None:
    x = torch.ones(2)
    given = {
        "0.0": Leaf("0.0", "tensor", "", x),
        "0.1": Leaf("0.1", "tensor", "", x),
        "1": Leaf("1", "number", "1"),
        "dim": Leaf("dim", "number", "0"),
    }
    found = built(given)
    assert found.args[1] == 1
    assert found.args[0][0] is x
    assert found.kwargs == {"dim": 0}


@pytest.mark.parametrize(
    "indexes",
    [
        ["1"],
        ["0", "2"],
        ["0.1"],
        ["0.a"],
        ["0", "0.1"],
        ["0..1"],
        ["a b"],
        [""],
        ["0" + ".0" * 40],
    ],
)
def test_arguments_with_gaps_are_refused(indexes: list[str]) -> None:
    given = {index: Leaf(index, "number", "1") for index in indexes}
    with pytest.raises(Unchecked):
        built(given)


def test_a_call_with_too_many_arguments_is_refused() -> None:
    given = {str(i): Leaf(str(i), "number", "1") for i in range(5000)}
    with pytest.raises(Unchecked, match="too many"):
        built(given)
