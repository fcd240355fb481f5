"""Calls that are made again: correct results pass, and faults of two units fail."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from msitd.verify import replay, table
from msitd.verify.arguments import Arguments
from msitd.verify.scores import LIMIT, Checked
from msitd.verify.unchecked import Unchecked
from replaying import DTYPES, FLOATS, cast, ints, is_float, run, worse, x

MASK = torch.ones(6, 6, dtype=torch.bool).tril()
# The op, its arguments, and its keyword arguments.
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Functional.linear", (x(4, 32), x(16, 32), x(16)), {}),
    ("Torch.matmul", (x(3, 8, 40), x(3, 40, 8)), {}),
    ("Torch.addmm", (x(16), x(8, 32), x(32, 16)), {}),
    ("Torch.einsum", ("bij,bkj->bik", x(2, 5, 24), x(2, 7, 24)), {}),
    ("Functional.conv1d", (x(2, 4, 20), x(8, 4, 3), x(8), 1, 1), {}),
    (
        "Functional.conv2d",
        (x(2, 4, 9, 9), x(8, 4, 3, 3), x(8)),
        {"stride": 2, "padding": 1},
    ),
    ("Functional.layer_norm", (x(5, 48), (48,), x(48), x(48), 1e-5), {}),
    ("Functional.rms_norm", (x(5, 48), (48,), x(48), 1e-6), {}),
    ("Functional.group_norm", (x(2, 8, 6), 4, x(8), x(8)), {}),
    ("Functional.batch_norm", (x(6, 8), None, None, x(8), x(8), True, 0.1, 1e-5), {}),
    ("Functional.softmax", (x(4, 50) * 20,), {"dim": -1}),
    ("Tensor.softmax", (x(4, 50), -1), {}),
    ("Torch.log_softmax", (x(4, 50), -1), {}),
    ("Functional.gelu", (x(6, 64) * 3,), {}),
    ("Functional.gelu", (x(6, 64) * 3,), {"approximate": "tanh"}),
    ("Functional.silu", (x(6, 64) * 3,), {}),
    ("Functional.softplus", (x(6, 64),), {}),
    ("Torch.tanh", (x(6, 64),), {}),
    ("Torch.sigmoid", (x(6, 64),), {}),
    ("Torch.exp", (x(6, 64),), {}),
    ("Torch.log", (x(6, 64, positive=True),), {}),
    ("Torch.rsqrt", (x(6, 64, positive=True),), {}),
    ("Tensor.cos", (x(6, 64) * 50,), {}),
    ("Tensor.__add__", (x(6, 64), x(64)), {}),
    ("Tensor.__rsub__", (x(6, 64), 1.5), {}),
    # Numbers that no narrow type has.
    ("Tensor.__add__", (x(6, 64), 0.1), {}),
    ("Tensor.__rsub__", (x(6, 64), 0.7), {}),
    ("Tensor.add", (x(6, 64), -0.5003), {}),
    ("Tensor.pow", (x(6, 64, positive=True), 2.1), {}),
    ("Torch.add", (x(6, 64), x(6, 64)), {"alpha": 0.3}),
    ("Functional.leaky_relu", (x(6, 64), 0.013), {}),
    ("Tensor.__mul__", (x(6, 64), 0.1), {}),
    ("Tensor.__truediv__", (x(6, 64), x(6, 64, positive=True)), {}),
    ("Tensor.__iadd__", (x(6, 64), x(6, 64)), {}),
    # In place, with a number that is disturbed.
    ("Tensor.__imul__", (x(6, 64), 0.9), {}),
    ("Tensor.mul_", (x(6, 64), 0.999), {}),
    ("Tensor.add_", (x(6, 64), 0.5), {}),
    ("Tensor.lerp_", (x(6, 64), x(6, 64), 0.1), {}),
    ("Tensor.addcmul_", (x(6, 64), x(6, 64), x(6, 64)), {"value": 0.05}),
    ("Tensor.pow", (x(6, 64), 2), {}),
    ("Torch.addcmul", (x(6, 64), x(6, 64), x(6, 64)), {"value": 0.5}),
    ("Torch.lerp", (x(6, 64), x(6, 64), 0.3), {}),
    ("Tensor.mean", (x(6, 64), -1), {"keepdim": True}),
    ("Torch.sum", (x(6, 300),), {"dim": 1}),
    ("Tensor.var", (x(6, 64), -1), {}),
    ("Torch.cumsum", (x(6, 64), 1), {}),
    ("Torch.logsumexp", (x(6, 64), 1), {}),
    ("Torch.norm", (x(6, 64),), {}),
    ("Functional.normalize", (x(6, 64),), {}),
    ("Functional.cross_entropy", (x(12, 30), ints(30, 12)), {}),
    ("Functional.mse_loss", (x(6, 64), x(6, 64)), {}),
    ("Functional.avg_pool2d", (x(2, 3, 8, 8), 2), {}),
    (
        "Functional.interpolate",
        (x(2, 3, 8, 8),),
        {"scale_factor": 2.0, "mode": "bilinear"},
    ),
    (
        "Functional.scaled_dot_product_attention",
        (x(2, 2, 6, 16),) * 3,
        {"is_causal": True},
    ),
    (
        "Functional.scaled_dot_product_attention",
        (x(2, 2, 6, 16),) * 3,
        {"attn_mask": MASK},
    ),
    ("Torch.scatter_add", (x(4, 8), 1, ints(8, 4, 30), x(4, 30)), {}),
    ("Torch.index_add", (x(4, 8), 0, ints(4, 20), x(20, 8)), {}),
]
EXACT: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Tensor.transpose", (x(4, 6), 0, 1), {}),
    ("Torch.cat", ((x(2, 6), x(3, 6)), 0), {}),
    ("Tensor.reshape", (x(4, 6), (3, 8)), {}),
    ("Torch.relu", (x(4, 6),), {}),
    ("Tensor.to", (x(4, 6), torch.bfloat16), {}),
    ("Functional.embedding", (ints(9, 4, 5), x(9, 6)), {}),
    ("Torch.where", (x(4, 6) > 0, x(4, 6), x(4, 6)), {}),
    ("Tensor.masked_fill_", (x(4, 6), x(4, 6) > 0, -1e9), {}),
    ("Tensor.__setitem__", (x(4, 6), (slice(0, 2, None), 1), 3.0), {}),
    ("Torch.gather", (x(4, 6), 1, ints(6, 4, 2)), {}),
    ("Functional.pad", (x(4, 6), (1, 2)), {}),
    ("Tensor.__ge__", (x(4, 6), 0.0), {}),
    ("Torch.arange", (24,), {}),
    ("Torch.topk", (x(4, 20), 3), {}),
    ("Torch.sort", (x(4, 20), -1), {}),
    ("Torch.argmax", (x(4, 20),), {"dim": -1}),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=FLOATS)
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0])
def test_correct_results_pass_and_faults_fail(call: Any, dtype: torch.dtype) -> None:
    op, args, kwargs = call
    spec, arguments, outputs = run(op, cast(args, dtype), kwargs)
    checked = replay.check_call(spec, arguments, outputs)
    for index, each in checked.items():
        assert isinstance(each, Checked)
        assert not each.score.is_wrong, (index, each.score)
    first = checked["0"]
    assert isinstance(first, Checked)
    faulty = worse(outputs["0"], first)
    found = replay.check_call(spec, arguments, {"0": faulty})["0"]
    assert isinstance(found, Checked)
    assert found.score.is_wrong, found.score


@pytest.mark.parametrize("call", EXACT, ids=lambda call: call[0])
def test_exact_functions_are_compared_bit_by_bit(call: Any) -> None:
    op, args, kwargs = call
    spec, arguments, outputs = run(op, args, kwargs)
    for each in replay.check_call(spec, arguments, outputs).values():
        assert isinstance(each, Checked)
        assert each.score.units == 0
    wrong = outputs["0"].clone(memory_format=torch.contiguous_format)
    flat = wrong.view(-1)
    if wrong.dtype == torch.bool:
        flat[0] = ~flat[0]
    elif is_float(wrong):
        flat[3] = (
            torch.nextafter(flat[3].float(), torch.tensor(9.0)).to(wrong.dtype) * 1.01
            + 1e-3
        )
    else:
        flat[0] = (flat[0] + 1) % 4
    found = replay.check_call(spec, arguments, {**outputs, "0": wrong})["0"]
    assert isinstance(found, Checked)
    assert found.score.is_wrong


def test_equal_elements_may_be_chosen_in_any_order() -> None:
    scores = torch.tensor([[1.0, 3.0, 3.0, 2.0]])
    spec, arguments, outputs = run("Torch.argmax", (scores,), {"dim": 1})
    other = {"0": torch.tensor([3 - int(outputs["0"])])}
    for positions, wrong in ((other, False), ({"0": torch.tensor([3])}, True)):
        found = replay.check_call(spec, arguments, positions)["0"]
        assert isinstance(found, Checked)
        assert found.score.is_wrong == wrong


def test_an_order_has_each_position_once() -> None:
    scores = torch.tensor([[2.0, 3.0, 3.0]])
    spec, arguments, _ = run("Torch.argsort", (scores,), {})
    for positions, wrong in (([0, 2, 1], False), ([0, 1, 1], True)):
        found = replay.check_call(spec, arguments, {"0": torch.tensor([positions])})[
            "0"
        ]
        assert isinstance(found, Checked)
        assert found.score.is_wrong == wrong


@pytest.mark.parametrize("op", ["Torch.sort", "Tensor.argsort", "Aten.argsort"])
@pytest.mark.parametrize("descending", [False, True])
def test_a_stable_order_keeps_equal_elements_in_place(
    op: str, descending: bool
) -> None:
    scores = ints(4, 3, 50).float()
    for kwargs, wrong in (({"stable": True}, True), ({}, False)):
        spec, arguments, outputs = run(
            op, (scores,), {**kwargs, "descending": descending}
        )
        index = "1" if op == "Torch.sort" else "0"
        order = outputs[index]
        for each in replay.check_call(spec, arguments, outputs).values():
            assert isinstance(each, Checked)
            assert not each.score.is_wrong
        sorted_scores = scores.gather(1, order)
        at = int((sorted_scores[0].diff() == 0).nonzero()[0])
        order[0, [at, at + 1]] = order[0, [at + 1, at]]
        found = replay.check_call(spec, arguments, outputs)[index]
        assert isinstance(found, Checked)
        assert found.score.is_wrong == wrong


def test_a_single_wrong_element_among_many_is_found() -> None:
    spec, arguments, outputs = run("Functional.linear", (x(64, 32), x(512, 32)), {})
    wrong = outputs["0"].clone()
    # About 30 units of this element, and nearly none of the whole.
    wrong[17, 300] *= 1 + 2e-5
    found = replay.check_call(spec, arguments, {"0": wrong})["0"]
    assert isinstance(found, Checked)
    assert found.score.place == (17, 300)
    assert found.score.norm < LIMIT <= found.score.worst


def test_an_error_of_two_units_everywhere_is_found() -> None:
    spec, arguments, outputs = run("Torch.exp", (x(64, 64),), {})
    for units, wrong in ((0.5, False), (8.0, True)):
        moved = (outputs["0"].double() * (1 + units * 2.0**-24)).float()
        found = replay.check_call(spec, arguments, {"0": moved})["0"]
        assert isinstance(found, Checked)
        assert found.score.is_wrong == wrong, (units, found.score)


def test_overflow_to_infinity_is_correct_rounding() -> None:
    given = torch.tensor([300.0, 10.0], dtype=torch.float16)
    spec, arguments, outputs = run("Torch.square", (given,), {})
    assert outputs["0"].isinf().tolist() == [True, False]
    checked = replay.check_call(spec, arguments, outputs)["0"]
    assert isinstance(checked, Checked)
    assert not checked.score.is_wrong
    assert checked.golden.isinf().tolist() == [True, False]
    wrong = {"0": torch.tensor([float("inf"), float("inf")], dtype=torch.float16)}
    found = replay.check_call(spec, arguments, wrong)["0"]
    assert isinstance(found, Checked)
    assert found.score.problem


def test_nan_must_be_at_the_same_places() -> None:
    given = torch.tensor([-1.0, 4.0])
    spec, arguments, outputs = run("Torch.sqrt", (given,), {})
    for results, wrong in ((outputs, False), ({"0": torch.tensor([0.0, 2.0])}, True)):
        found = replay.check_call(spec, arguments, results)["0"]
        assert isinstance(found, Checked)
        assert found.score.is_wrong == wrong


def test_dropout_is_checked_with_the_elements_that_it_kept() -> None:
    torch.manual_seed(0)
    spec, arguments, outputs = run("Functional.dropout", (x(40, 40), 0.5, True), {})
    for scale, wrong in ((1.0, False), (1.01, True)):
        found = replay.check_call(spec, arguments, {"0": outputs["0"] * scale})["0"]
        assert isinstance(found, Checked)
        assert found.score.is_wrong == wrong


def test_random_attention_is_not_checked() -> None:
    args = (x(1, 2, 6, 8),) * 3
    spec, arguments, outputs = run(
        "Functional.scaled_dot_product_attention", args, {"dropout_p": 0.1}
    )
    with pytest.raises(Unchecked, match="random"):
        replay.check_call(spec, arguments, outputs)


def test_a_result_of_another_function_is_not_checked() -> None:
    spec, arguments, _ = run("Torch.exp", (x(4),), {})
    found = replay.check_call(spec, arguments, {"0": x(5), "1": x(4)})
    assert all(isinstance(each, Unchecked) for each in found.values())


def test_results_in_a_vmap_are_not_wrong() -> None:
    # A vmap records arguments and results with the dimension of the batch.
    batch, keys, queries = x(3, 4, 5), x(4), x(4, 1)[:, 0] + 0.5
    for op, args, result in (
        ("Tensor.sum", (batch, 0), torch.vmap(lambda each: each.sum(0))(batch)),
        ("Tensor.__le__", (keys, queries), keys <= queries[:, None]),
        ("Torch.softmax", (batch, 0), batch.softmax(1)[:2]),
    ):
        spec = table.find(op)
        assert isinstance(spec, table.Spec)
        found = replay.check_call(spec, Arguments(args, {}), {"0": result})
        assert isinstance(found["0"], Unchecked)


CUT: list[tuple[str, tuple[Any, ...], dict[str, Any], Callable[..., Any]]] = [
    ("Torch.bmm", (x(2, 3, 4), x(2, 4, 5)), {}, lambda out: out[..., :-1]),
    ("Torch.matmul", (x(6, 4), x(4, 5)), {}, lambda out: out[1:]),
    ("Torch.nonzero", (ints(3, 9),), {}, lambda out: out[:-1]),
    ("Torch.nonzero", (ints(3, 9),), {}, lambda out: out[[0, *range(2, len(out))]]),
    ("Torch.nonzero", (ints(3, 9),), {}, lambda out: torch.cat([out, out[-1:]])),
    ("Torch.norm", (x(6, 4), 2, 1, True), {}, lambda out: out[:, 0]),
    ("Torch.topk", (x(4, 9), 3), {}, lambda out: out[:, :2]),
    ("Torch.cat", ((x(2, 6), x(3, 6)),), {}, lambda out: out[:4]),
    ("Torch.fft.rfft", (x(3, 8),), {}, lambda out: out[:, :-1]),
    (
        "Functional.scaled_dot_product_attention",
        (x(2, 4, 5, 8),) * 3,
        {},
        lambda out: out[:, :-1],
    ),
    ("Functional.conv1d", (x(2, 4, 9), x(3, 4, 2)), {}, lambda out: out[..., 1:]),
]


@pytest.mark.parametrize("op, args, kwargs, cut", CUT, ids=[each[0] for each in CUT])
def test_a_result_without_some_elements_is_wrong(
    op: str, args: Any, kwargs: Any, cut: Callable[..., torch.Tensor]
) -> None:
    spec, arguments, outputs = run(op, args, kwargs)
    result = cut(outputs["0"])
    found = replay.check_call(spec, arguments, {**outputs, "0": result})["0"]
    assert isinstance(found, Checked), found
    assert found.score.is_wrong
    assert found.score.problem.startswith("its shape is")
    assert found.golden.shape == outputs["0"].shape
    # Hooks of a module may change its result.
    spec = dataclasses.replace(spec, of_module=True)
    found = replay.check_call(spec, arguments, {"0": result})["0"]
    assert isinstance(found, Unchecked)


def test_a_result_larger_than_the_recorded_one_is_not_made() -> None:
    spec = table.find("Torch.full")
    assert isinstance(spec, table.Spec)
    with pytest.raises(Unchecked, match="another size"):
        replay.check_call(spec, Arguments(((1 << 20, 1 << 20), 0.0), {}), {"0": x(2)})


GRADIENTS: list[tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    ("Functional.linear", torch.nn.functional.linear, (x(8, 32), x(16, 32), x(16)), {}),
    (
        "Functional.layer_norm",
        torch.nn.functional.layer_norm,
        (x(6, 32), (32,), x(32), x(32)),
        {},
    ),
    ("Functional.gelu", torch.nn.functional.gelu, (x(6, 32),), {}),
    ("Torch.softmax", torch.softmax, (x(6, 32), -1), {}),
    ("Tensor.__mul__", torch.Tensor.__mul__, (x(6, 32), x(32)), {}),
    ("Tensor.transpose", torch.Tensor.transpose, (x(6, 32), 0, 1), {}),
    (
        "Functional.scaled_dot_product_attention",
        torch.nn.functional.scaled_dot_product_attention,
        (x(2, 2, 6, 16),) * 3,
        {},
    ),
    (
        "Functional.conv2d",
        torch.nn.functional.conv2d,
        (x(2, 3, 8, 8), x(4, 3, 3, 3)),
        {},
    ),
]


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=FLOATS[:2])
@pytest.mark.parametrize("call", GRADIENTS, ids=lambda call: call[0])
def test_gradients_are_checked(call: Any, dtype: torch.dtype) -> None:
    op, function, args, kwargs = call
    given = [v.to(dtype).clone().requires_grad_() if is_float(v) else v for v in args]
    result = function(*given, **kwargs)
    grad = torch.randn(result.shape, generator=torch.Generator().manual_seed(3)).to(
        dtype
    )
    leaves = {str(i): v for i, v in enumerate(given) if is_float(v)}
    found = torch.autograd.grad(result, list(leaves.values()), grad)
    grads = dict(zip(leaves, found, strict=True))
    spec = table.find(op)
    assert isinstance(spec, table.Spec)
    arguments = Arguments(
        tuple(v.detach() if is_float(v) else v for v in given), kwargs
    )
    outputs = {"0": result.detach()}
    checked = replay.check_gradients(spec, arguments, outputs, {"0": grad}, grads)
    for index, each in checked.items():
        assert isinstance(each, Checked)
        assert not each.score.is_wrong, (index, each.score)
    off = 1.001 if dtype == torch.float32 else 1.2
    moved = {index: each * off for index, each in grads.items()}
    checked = replay.check_gradients(spec, arguments, outputs, {"0": grad}, moved)
    for index, each in checked.items():
        assert isinstance(each, Checked)
        assert each.score.is_wrong, (index, each.score)


def test_gradients_under_autocast_have_the_precision_of_the_result() -> None:
    given, weight = (each.clone().requires_grad_() for each in (x(8, 32), x(16, 32)))
    with torch.autocast("cpu", torch.bfloat16):
        result = torch.nn.functional.linear(given, weight)
    grad = torch.randn(8, 16, generator=torch.Generator().manual_seed(3)).bfloat16()
    found = torch.autograd.grad(result, (given, weight), grad)
    spec = table.find("Functional.linear")
    assert isinstance(spec, table.Spec)
    for factor, wrong in ((1.0, False), (1.1, True)):
        checked = replay.check_gradients(
            spec,
            Arguments((given.detach(), weight.detach()), {}),
            {"0": result.detach()},
            {"0": grad},
            {str(i): each * factor for i, each in enumerate(found)},
        )
        for each in checked.values():
            assert isinstance(each, Checked)
            assert each.score.is_wrong == wrong, each.score


def test_a_tensor_that_is_given_several_times_has_the_total_gradient() -> None:
    given = x(2, 2, 6, 16).requires_grad_()
    op = "Functional.scaled_dot_product_attention"
    spec, arguments, _ = run(op, (given.detach(),) * 3, {})
    result = torch.nn.functional.scaled_dot_product_attention(given, given, given)
    grad = torch.randn(result.shape, generator=torch.Generator().manual_seed(3))
    (total,) = torch.autograd.grad(result, given, grad)
    outputs = {"0": result.detach()}
    for factor, wrong in ((1.0, False), (1.001, True)):
        wanted = {str(i): total * factor for i in range(3)}
        checked = replay.check_gradients(spec, arguments, outputs, {"0": grad}, wanted)
        for each in checked.values():
            assert isinstance(each, Checked)
            assert each.score.is_wrong == wrong, each.score


LISTS = tuple(x(*shape) for shape in ((4, 8), (30,), (2, 3, 4)))
POSITIVE = tuple(each.abs() + 1000 for each in LISTS)
FOREACH: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Torch._foreach_mul_", (LISTS, 0.9), {}),
    ("Torch._foreach_add_", (LISTS, LISTS), {"alpha": 0.1}),
    ("Torch._foreach_lerp_", (LISTS, LISTS, 0.1), {}),
    ("Torch._foreach_addcmul_", (LISTS, LISTS, LISTS, 0.05), {}),
    ("Torch._foreach_addcdiv_", (LISTS, LISTS, POSITIVE, (0.1, 0.2, 0.3)), {}),
    ("Torch._foreach_sqrt", (POSITIVE,), {}),
    ("Torch._foreach_norm", (LISTS, 2), {}),
]


@pytest.mark.parametrize("call", FOREACH, ids=lambda call: call[0])
def test_functions_of_lists_are_checked_for_each_tensor(call: Any) -> None:
    op, args, kwargs = call
    spec = table.find(op)
    assert isinstance(spec, table.Spec)
    copies = Arguments(args, kwargs)
    outputs = replay.references.call(spec, copies)
    outputs = {k: v for k, v in outputs.items() if "." not in k or k[0] == "0"}
    assert len(outputs) == len(LISTS)
    for at in (None, *outputs):
        moved = {k: v * (1.001 if k == at else 1.0) for k, v in outputs.items()}
        for index, each in replay.check_call(spec, copies, moved).items():
            assert isinstance(each, Checked)
            assert each.score.is_wrong == (index == at), (index, each.score)


def test_gradients_of_other_arguments_are_not_checked() -> None:
    spec, arguments, outputs = run("Torch.exp", (x(4),), {})
    with pytest.raises(Unchecked):
        replay.check_gradients(spec, arguments, outputs, {"0": x(4)}, {"7": x(4)})


def _positions(op: str, *given: Any) -> tuple[Arguments, dict[str, torch.Tensor]]:
    spec = table.find(op)
    assert isinstance(spec, table.Spec)
    values, positions = spec.function(*given)
    return Arguments(given, {}), {"0": values, "1": positions}


def _is_wrong(op: str, given: Arguments, outputs: dict[str, torch.Tensor]) -> bool:
    spec = table.find(op)
    assert isinstance(spec, table.Spec)
    each = replay.check_call(spec, given, outputs)["1"]
    assert isinstance(each, Checked), each
    return each.score.is_wrong


def test_ties_along_any_dimension_may_be_in_any_order() -> None:
    tied = torch.tensor([[2.0, 1.0], [2.0, 3.0], [0.0, 3.0]])
    given, outputs = _positions("Torch.topk", tied, 2, 0)
    flipped = outputs["1"].flip(0)
    assert not _is_wrong("Torch.topk", given, {**outputs, "1": flipped})
    twice = outputs["1"].clone()
    twice[1] = twice[0]
    assert _is_wrong("Torch.topk", given, {**outputs, "1": twice})


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_positions_of_pools_are_those_of_a_channel(dims: int) -> None:
    made = x(1, 3, *(4,) * dims)
    made[0, 1] = 1
    op = f"Functional.max_pool{dims}d_with_indices"
    given, outputs = _positions(op, made, 2)
    assert not _is_wrong(op, given, outputs)
    tied, wrong = outputs["1"].clone(), outputs["1"].clone()
    tied[0, 1].flatten()[0] = 1
    assert not _is_wrong(op, given, {**outputs, "1": tied})
    at = wrong[0, 2].flatten()
    at[0] = 0 if int(at[0]) else 1
    assert _is_wrong(op, given, {**outputs, "1": wrong})


def test_a_number_that_the_type_has_excuses_nothing() -> None:
    x = torch.full((8, 8), 0.99609375, dtype=torch.bfloat16)
    spec = table.find("Torch.rsub")
    assert isinstance(spec, table.Spec)
    arguments = Arguments((x, 1.0), {})
    for factor, is_wrong in ((1.0, False), (0.0, True), (1.5, True)):
        found = replay.check_call(spec, arguments, {"0": (1 - x) * factor})["0"]
        assert isinstance(found, Checked)
        assert found.score.is_wrong == is_wrong, (factor, found.score)


def test_a_norm_of_rows_is_not_that_of_a_matrix() -> None:
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
    x[0] *= 1e6
    spec = table.find("Torch.norm")
    assert isinstance(spec, table.Spec)
    result = x.norm(2, -1)
    for factor, is_wrong in ((1.0, False), (1.05, True)):
        faulty = torch.cat([result[:1], result[1:] * factor])
        found = replay.check_call(spec, Arguments((x, 2, -1), {}), {"0": faulty})["0"]
        assert isinstance(found, Checked)
        assert found.score.is_wrong == is_wrong, (factor, found.score)


def test_norms_of_fractional_order_are_not_checked() -> None:
    a, b = x(40, 50), x(40, 50)
    for op, order in (("Torch.dist", 2.5), ("Functional.pairwise_distance", 1.3)):
        spec = table.find(op)
        assert isinstance(spec, table.Spec)
        for arguments in (
            Arguments((a, b, order), {}),
            Arguments((a, b), {"p": order}),
        ):
            with pytest.raises(Unchecked, match="fractional"):
                replay.check_call(spec, arguments, {"0": torch.zeros(40)})


@pytest.mark.parametrize("count", [100, 5000, 400_000])
def test_the_norm_of_many_elements_is_added_with_roundings(count: int) -> None:
    generator = torch.Generator().manual_seed(count)
    given = torch.randn(count, generator=generator)
    for op, args in (("Torch.norm", (given,)), ("Torch._foreach_norm", ((given,),))):
        spec = table.find(op)
        assert isinstance(spec, table.Spec)
        for factor, is_wrong in ((1.0, False), (1.001, True)):
            outputs = {"0": torch.norm(given) * factor}
            found = replay.check_call(spec, Arguments(args, {}), outputs)["0"]
            assert isinstance(found, Checked)
            assert found.score.is_wrong == is_wrong, (op, factor, found.score)
