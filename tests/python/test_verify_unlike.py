"""Differences between siblings, and differences that are legitimate."""

from collections.abc import Callable
from typing import Any

import pytest
from msitd.verify.attributes import compare_attributes
from msitd.verify.calls import calls_of
from msitd.verify.modules import Module
from msitd.verify.siblings import Tree, groups_of
from msitd.verify.unlike import (
    CALLS,
    ENDS,
    Comparer,
    Unlike,
)
from recorded_calls import Content, Recording, module

X, MASK = Content("x"), Content("mask")


def observed(
    run: Recording, modules: dict[str, Module] | None = None, is_whole: bool = True
) -> list[Unlike]:
    calls = calls_of(run.records, modules or {})
    tree = Tree(modules or {})
    comparer = Comparer(calls, tree, is_whole)
    return [each for group in groups_of(calls) for each in comparer.compare(group)]


def blocks(
    body: Callable[[Recording, int], None], count: int = 4, **given: Any
) -> Recording:
    """Records blocks, each of which gets the result of the one before."""
    run = Recording()
    with run.module("root", Content(f"h{count}"), Content("h0")):
        for n in range(count):
            arguments = {
                key: value(n) if callable(value) else value
                for key, value in given.items()
            }
            with run.module(
                f"root.h.{n}", Content(f"h{n + 1}"), Content(f"h{n}"), **arguments
            ):
                body(run, n)
    return run


def test_equal_blocks_have_no_difference() -> None:
    def body(run: Recording, n: int) -> None:
        run.function("Functional.linear", Content(f"a{n}"), Content(f"h{n}"), None)
        run.function("Torch.mul", Content(f"h{n + 1}"), Content(f"a{n}"), 0.5)

    assert observed(blocks(body, mask=MASK)) == []


def test_another_argument_of_a_function() -> None:
    def body(run: Recording, n: int) -> None:
        scale = 0.125 if n == 1 else 0.25
        run.function("Functional.attention", X, Content(f"h{n}"), scale=scale)

    (found,) = observed(blocks(body))
    assert found.severity == CALLS
    assert found.place == "Functional.attention call 1 in root.h.1, input/scale"
    assert found.text == "0.125, in 3 siblings 0.25"


@pytest.mark.parametrize(
    ("mine", "others", "text"),
    [
        (None, Content("w"), "None, in 3 siblings a tensor"),
        (Content("w", dtype="bfloat16"), Content("w"), "a tensor of bfloat16"),
        (Content("w", (2, 4)), Content("w"), "shape [2, 4], in 3 siblings [1, 8]"),
        (Content("v"), Content("w"), "hash"),
    ],
)
def test_another_tensor(mine: Any, others: Any, text: str) -> None:
    def body(run: Recording, n: int) -> None:
        run.function("Functional.f", Content(f"y{n}"), mine if n == 2 else others)

    (found,) = observed(blocks(body))
    assert found.place == "Functional.f call 2 in root.h.2, input/0"
    assert text in found.text


def test_a_missing_argument() -> None:
    def body(run: Recording, n: int) -> None:
        more = {} if n == 3 else {"mask": 1}
        run.function("Functional.f", Content(f"y{n}"), X, **more)

    (found,) = observed(blocks(body))
    assert found.text == "not given, in 3 siblings 1"


@pytest.mark.parametrize(
    ("skipped", "text"),
    [
        ("Tensor.b", "after Tensor.a it calls Tensor.c, in 3 siblings Tensor.b"),
        ("Tensor.c", "after Tensor.b it calls nothing, in 3 siblings Tensor.c"),
        ("Tensor.a", "it calls Tensor.b, in 3 siblings Tensor.a"),
    ],
)
def test_a_call_that_is_not_made(skipped: str, text: str) -> None:
    def body(run: Recording, n: int) -> None:
        for op in ("Tensor.a", "Tensor.b", "Tensor.c"):
            if n != 1 or op != skipped:
                run.function(op, Content(f"{op}{n}"), X)

    run = blocks(body)
    (found,) = observed(run)
    assert (found.place, found.text) == ("root.h.1 call 0", text)
    # If records were lost, it may have been made.
    assert observed(run, is_whole=False) == []


def test_code_between_parts_is_named() -> None:
    def body(run: Recording, n: int) -> None:
        for part in ("q", "o"):
            with run.module(f"root.h.{n}.{part}", Content(f"{part}{n}"), X):
                pass
            if part == "q" and n != 2:
                run.function("Tensor.transpose", Content(f"t{n}"), X, 1)

    (found,) = observed(blocks(body))
    assert found.place == ("code of root.h.2 call 0 after root.h.2.q before root.h.2.o")
    assert found.text == "after q it calls o, in 3 siblings Tensor.transpose"


def test_inputs_that_changed_places() -> None:
    def body(run: Recording, n: int) -> None:
        made = [Content(f"gate{n}"), Content(f"up{n}")]
        for name, content in zip(("gate", "up"), made, strict=True):
            with run.module(f"root.h.{n}.{name}", content, Content(f"h{n}")):
                pass
        with run.module(f"root.h.{n}.act", Content(f"act{n}"), made[n == 0]):
            pass

    (found,) = observed(blocks(body))
    assert (
        found.place == "code of root.h.0 call 0 after root.h.0.up before root.h.0.act"
    )
    assert found.text == (
        "input/0 of root.h.0.act: bytes of up output/0, in 3 siblings gate output/0"
    )


@pytest.mark.parametrize("is_wrong", [True, False])
def test_another_order_of_calls(is_wrong: bool) -> None:
    def body(run: Recording, n: int) -> None:
        gate, up = Content(f"gate{n}"), Content(f"up{n}")
        parts = {
            "gate": (gate, Content(f"h{n}")),
            "act": (Content(f"act{n}"), up if n == 2 and is_wrong else gate),
            "up": (up, Content(f"h{n}")),
        }
        for name in ("gate", "up", "act") if n == 2 else parts:
            with run.module(f"root.h.{n}.{name}", *parts[name]):
                pass

    (found,) = observed(blocks(body))
    if is_wrong:
        assert found.place.endswith(" after root.h.2.up before root.h.2.act")
        assert "bytes of up output/0, in 3 siblings gate output/0" in found.text
    else:
        assert found.text == "after gate it calls up, in 3 siblings act"


def test_a_value_that_all_others_share() -> None:
    def body(run: Recording, n: int) -> None:
        with run.module(f"root.h.{n}.attn", Content(f"y{n}"), Content(f"h{n}")):
            pass

    run = blocks(body, mask=lambda n: Content("wrong") if n == 2 else MASK)
    (found,) = observed(run)
    assert found.place == "code of root call 0 after root.h.1 before root.h.2"
    assert found.text.startswith("input/mask of root.h.2: hash ")
    # A zero is shared by coincidence only within a block.
    zeros = blocks(body, ids=lambda n: Content(f"{n == 1}", (1,), "int64", (1, 1)))
    (found,) = observed(zeros)
    assert found.text.startswith("input/ids of root.h.1: hash ")


def test_differences_that_are_passed_on_are_named_once() -> None:
    def body(run: Recording, n: int) -> None:
        mask = Content("wrong") if n == 2 else MASK
        with run.module(f"root.h.{n}.attn", Content(f"y{n}"), mask):
            run.function("Tensor.add", Content(f"s{n}"), mask)
            run.function("Tensor.add", Content(f"t{n}"), mask)

    assert len(observed(blocks(body))) == 1


def test_parameters_with_equal_elements() -> None:
    modules = {
        f"root.h.{n}": module("Linear", {"bias": "float32 [1, 8]"}) for n in range(4)
    }

    def body(run: Recording, n: int) -> None:
        bias = Content(f"b{n}", bounds=(0, 0) if n == 1 else (-1, 1))
        run.function("Functional.linear", Content(f"y{n}"), Content(f"h{n}"), bias)

    (found,) = observed(blocks(body), modules)
    assert found.place == "Functional.linear call 1 in root.h.1, input/1"
    # Activations that are zero are a matter of the data.
    assert observed(blocks(body)) == []


def test_the_first_block_may_be_given_arguments_of_another_kind() -> None:
    def body(run: Recording, n: int) -> None:
        run.function("Tensor.add" if n else "Tensor.clone", X, Content(f"h{n}"))

    run = blocks(body, residual=lambda n: Content(f"r{n}") if n else None)
    (found,) = observed(run)
    assert found.severity == ENDS
    assert found.text == "input/residual of root.h.0: None, in 3 siblings a tensor"


def test_parts_of_caches_are_not_compared() -> None:
    run = Recording()
    x = Content("x")
    for n in range(4):
        cache = {f"cache.keys.{i}": Content(f"k{i}") for i in range(n)}
        with run.module(f"root.{n}", Content(f"y{n}"), x, **cache):
            pass
    assert observed(run) == []


def test_shapes_and_calls_after_a_router_depend_on_data() -> None:
    def body(run: Recording, n: int) -> None:
        rows = 3 if n == 1 else 2
        run.function("Torch.topk", Content(f"i{n}", (8,), "int64", (0, 7)), X, 2)
        for expert in range(rows):
            with run.module(
                f"root.h.{n}.experts.{expert}",
                Content(f"y{n}{expert}", (rows, 8)),
                Content(f"x{n}{expert}", (rows, 8)),
            ):
                run.function("Functional.linear", Content(f"z{n}{expert}"), X, rows)

    assert observed(blocks(body)) == []


def test_an_expert_is_compared_with_others_although_its_rows_differ() -> None:
    def body(run: Recording, n: int) -> None:
        run.function("Torch.topk", X, Content(f"h{n}"), 2)
        for expert in range(2):
            with run.module(
                f"root.h.{n}.experts.{expert}",
                Content(f"y{n}{expert}"),
                Content(f"x{n}{expert}", (n + 1, 8)),
            ):
                eps = 0.1 if (n, expert) == (2, 1) else 0.2
                run.function("Functional.norm", X, Content(f"x{n}{expert}"), eps)

    (found,) = observed(blocks(body))
    assert found.place == "Functional.norm call 5 in root.h.2.experts.1, input/1"


def test_sizes_are_compared_only_between_blocks_of_one_size() -> None:
    modules = {
        f"root.h.{n}": module("Linear", {"weight": f"float32 [{8 * (n == 0)}]"})
        for n in range(4)
    }

    def body(run: Recording, n: int) -> None:
        x = Content(f"h{n}", (4 if n else 8,))
        run.function("Tensor.view", Content(f"v{n}"), x, 4 if n else 8)

    assert observed(blocks(body), modules) == []
    assert len(observed(blocks(body))) == 2


def test_blocks_of_another_structure_are_left_out_and_counted() -> None:
    modules = {f"root.h.{n}": module("A" if n else "B") for n in range(4)}

    def body(run: Recording, n: int) -> None:
        run.function("Tensor.a" if n else "Tensor.b", Content(f"y{n}"), X)

    run = blocks(body)
    calls = calls_of(run.records, modules)
    comparer = Comparer(calls, Tree(modules))
    (group,) = groups_of(calls)
    assert list(comparer.compare(group)) == []
    assert comparer.counts.without_siblings == 1
    (found,) = compare_attributes(group, Tree(modules))
    assert (found.severity, found.place) == (ENDS, "root.h.0")
    assert found.text == "B, in 3 siblings A"


def test_calls_without_a_majority_are_counted() -> None:
    def body(run: Recording, n: int) -> None:
        run.function(f"Tensor.{n % 2}", Content(f"y{n}"), X)

    run = blocks(body)
    calls = calls_of(run.records, {})
    comparer = Comparer(calls, Tree({}))
    assert [each for g in groups_of(calls) for each in comparer.compare(g)] == []
    assert comparer.counts.without_majority == 4


def test_blocks_without_results_are_counted() -> None:
    run = Recording()
    for n in range(4):
        with run.module(f"root.{n}", X if n else None, X):
            run.function("Tensor.abs", X, X)
    calls = calls_of(run.records, {})
    comparer = Comparer(calls, Tree({}))
    assert [each for g in groups_of(calls) for each in comparer.compare(g)] == []
    assert comparer.counts.incomplete == 1


def test_a_function_may_return_its_argument() -> None:
    """A norm whose factor rounds to 1 returns the bytes that it receives."""

    def body(run: Recording, n: int) -> None:
        normed = Content(f"sum{n}" if n == 2 else f"normed{n}")
        run.function("Torch.add", Content(f"sum{n}"), Content(f"h{n}"), Content("b"))
        run.function("Functional.norm", normed, Content(f"sum{n}"))
        run.function("Functional.linear", Content(f"up{n}"), normed)
        run.function(
            "Torch.sub", Content(f"h{n + 1}"), Content(f"sum{n}"), Content(f"up{n}")
        )

    assert observed(blocks(body)) == []


def with_weights(wrong: int) -> Recording:
    """Records blocks with a layer each, of which one has the bias of the one before."""

    def body(run: Recording, n: int) -> None:
        bias = Content(f"bias{n - (n == wrong)}")
        with run.module(f"root.h.{n}.up", Content(f"u{n}"), Content(f"h{n}")):
            weights = (Content(f"weight{n}"), bias)
            run.function(
                "Functional.linear", Content(f"u{n}"), Content(f"h{n}"), *weights
            )

    return blocks(body, count=3)


def test_a_parameter_of_another_block_is_named_where_it_is_used_again() -> None:
    shape = f"{X.dtype} {list(X.shape)}"
    modules = {
        f"root.h.{n}.up": module("Linear", {"weight": shape, "bias": shape})
        for n in range(3)
    }
    for wrong in (1, 2):
        (found,) = observed(with_weights(wrong), modules)
        assert found.place == (
            f"Functional.linear call {wrong} in root.h.{wrong}.up, input/2"
        )
        assert found.text == (
            f"the bytes of root.h.{wrong - 1}, in 2 siblings bytes of its own"
        )
    assert observed(with_weights(wrong=9), modules) == []


def test_a_result_of_another_block_is_named_where_it_is_returned_again() -> None:
    def body(run: Recording, n: int) -> None:
        result = Content(f"n{n - (n == 1)}")
        run.function("Functional.layer_norm", result, Content(f"h{n}"))

    (found,) = observed(blocks(body, count=3))
    assert found.place == "Functional.layer_norm call 1 in root.h.1, output/0"
    assert found.text == "the bytes of root.h.0, in 2 siblings bytes of its own"


def test_results_of_equal_arguments_are_no_copies() -> None:
    def body(run: Recording, n: int) -> None:
        # The first two blocks make the same table, and the third one another.
        position = Content(f"position{n // 2}")
        run.function("Torch.cos", Content(f"cos{n // 2}"), position)

    texts = [each.text for each in observed(blocks(body, count=3))]
    assert not any("bytes of root" in text for text in texts)
