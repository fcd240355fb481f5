"""Modules that are siblings, and the ones among them that differ."""

import pytest
from msitd.verify.calls import calls_of
from msitd.verify.siblings import Tree, groups_of, odd_ones, patterns_of
from recorded_calls import Content, Recording, module


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        ("aaa", []),
        ("aba", [1]),
        ("baa", [0]),
        # Too few to outvote one.
        ("ab", []),
        ("a", []),
        ("", []),
        ("abc", []),
        # Alternating patterns.
        ("abab", []),
        ("aabbaabb", []),
        ("aaaaabaaaaab", []),
        ("aaabaaab", []),
        # A quarter of them, without a pattern.
        ("aabbaaaa", [2, 3]),
        ("bbaaaaaa", [0, 1]),
        ("abbaaaa", []),
        ("abcaaaaaa", [1, 2]),
    ],
)
def test_a_minority_is_odd(values: str, odd: list[int]) -> None:
    found = odd_ones(dict(enumerate(values)))
    assert (found.keys if found else []) == odd
    if found:
        assert (found.common, found.common_count) == ("a", values.count("a"))


def test_patterns_have_the_last_number() -> None:
    ops = dict.fromkeys(("root", "root.h.1", "root.h.1.experts.2", "root.b.1.2"))
    assert list(patterns_of("root.h.1", ops)) == [("root.h.*", 1)]
    assert list(patterns_of("root.h.1.experts.2", ops)) == [("root.h.1.experts.*", 2)]
    assert list(patterns_of("root.h.1.mlp", ops)) == []
    # Lists of lists, the inner one of which is not called.
    assert list(patterns_of("root.b.1.2", ops)) == [
        ("root.b.1.*", 2),
        ("root.b.*.2", 1),
    ]


@pytest.mark.parametrize(
    "op", ["root", "7", "root.x1", "root.\u0664", "root." + "9" * 50, "root..", ""]
)
def test_other_names_are_no_siblings(op: str) -> None:
    assert list(patterns_of(op, {op: None})) == []


def test_siblings_may_have_gaps_and_several_calls() -> None:
    run = Recording()
    x = Content("x")
    for number in (30, 4, 11):
        for _ in range(2):
            with run.module(f"root.{number}", x, x):
                pass
    with run.module("root.99", x, x):
        pass
    groups = groups_of(calls_of(run.records, {}))
    assert [list(each.calls) for each in groups] == [[4, 11, 30, 99], [4, 11, 30]]
    assert {each.pattern for each in groups} == {"root.*"}


def test_structures_have_classes_and_declared_types() -> None:
    tree = Tree(
        {
            "root.0": module("Block", layer_idx=0),
            "root.0.attn": module("Attention", is_sliding=True),
            "root.1": module("Block", layer_idx=1),
            "root.1.attn": module("Attention", is_sliding=True),
            "root.2": module("Block", layer_idx=2),
            "root.2.attn": module("Attention", is_sliding=False),
            "root.3": module("Block", {"weight": "float32 [4]"}),
            "root.3.attn": module("Attention", is_sliding=True),
        }
    )
    one, two, other, large = (tree.structure_of(f"root.{n}") for n in range(4))
    assert one == two
    assert one.kinds != other.kinds
    assert one.kinds == large.kinds and one.sizes != large.sizes
    assert Tree({}).structure_of("root.0").kinds == ()


def test_the_parts_of_a_hostile_tree_are_bounded() -> None:
    many = {f"root.0.{n}": module("A") for n in range(20_000)}
    tree = Tree({"": module("A"), "root.0": module("A"), **many})
    assert len(tree.structure_of("root.0").kinds) == 10_000
    assert len(tree.structure_of("").kinds) == 10_000


def test_an_op_of_many_numbers_has_few_groups() -> None:
    run = Recording()
    x = Content("x")
    for n in range(5):
        with run.module(".".join(["root", *([str(n)] * 50)]), x, x):
            pass
    assert groups_of(calls_of(run.records, {})) == []
