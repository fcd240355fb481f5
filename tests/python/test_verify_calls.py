"""The calls of a token: which module made them, and where their inputs were made."""

from msitd.verify.calls import calls_of
from recorded_calls import Content, Recording


def test_calls_belong_to_the_innermost_module() -> None:
    run = Recording()
    x, y, z = Content("x"), Content("y"), Content("z")
    with run.module("root", z, x), run.module("root.0", z, x):
        run.function("Functional.linear", y, x)
        run.function("Functional.linear", z, y)
    run.function("Tensor.sum", z, z)
    root, block, one, two, last = calls_of(reversed(run.records), {})
    assert [each.op for each in (root, block)] == ["root", "root.0"]
    assert root.parts == [block] and block.parts == [one, two]
    assert (one.parent, two.ordinal, last.parent) == (block, 1, None)


def test_a_module_without_results_contains_nothing() -> None:
    run = Recording()
    x = Content("x")
    with run.module("root", x, x), run.module("root.0", None, x):
        run.function("Tensor.abs", x, x)
    root, block, function = calls_of(run.records, {})
    assert not block.is_complete
    assert root.parts == [block, function]


def test_inputs_have_the_results_with_their_bytes() -> None:
    run = Recording()
    x, y = Content("x"), Content("y")
    run.function("Tensor.abs", y, x)
    run.function("Tensor.clone", y, y)
    run.function("Tensor.neg", x, y)
    first, second, third = calls_of(run.records, {})
    assert "0" not in first.sources
    assert second.sources["0"] == ((first, "0"),)
    assert third.sources["0"] == ((second, "0"), (first, "0"))


def test_few_of_many_results_with_equal_bytes_are_known() -> None:
    run = Recording()
    x = Content("x")
    for _ in range(100):
        run.function("Tensor.clone", x, x)
    calls = calls_of(run.records, {})
    makers = [call for call, _ in calls[-1].sources["0"]]
    assert len(makers) == 8 and makers == calls[-2:-10:-1]


def test_equal_bytes_can_be_a_coincidence() -> None:
    run = Recording()
    for content in (
        Content("zeros", bounds=(0, 0)),
        Content("few", shape=(2,)),
        Content("flags", dtype="int64", bounds=(0, 1)),
        Content("nan", nan_count=1),
    ):
        run.function("Tensor.abs", content, 1)
        run.function("Tensor.neg", Content("y"), content)
    for call in calls_of(run.records, {})[1::2]:
        assert not call.sources, call.inputs
    positions = Content("positions", dtype="int64", bounds=(0, 7))
    run.function("Torch.arange", positions, 8)
    run.function("Tensor.cos", Content("y"), positions)
    assert calls_of(run.records, {})[-1].sources


def test_addresses_of_objects_are_left_out() -> None:
    run = Recording()
    run.function("Tensor.f", Content("y"), "<object at 0x7f0012345678>")
    (call,) = calls_of(run.records, {})
    assert call.inputs["0"].value == "<object at 0x>"


def test_functions_on_whose_result_shapes_depend() -> None:
    run = Recording()
    x = Content("x")
    run.function("Torch.topk", x, x, 2)
    run.function("Torch.where", x, x)
    run.function("Torch.where", x, x, x, x)
    run.function("Tensor.add", x, x)
    found = [each.is_data_dependent for each in calls_of(run.records, {})]
    assert found == [True, True, False, False]
