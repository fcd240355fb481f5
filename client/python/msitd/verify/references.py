"""The exact results of functions.

Most functions are their own reference: torch computes them in float64. Attention has
a reference of its own, because torch has several kernels for it. Functions that
select elements by their order, and those that drop random elements, are checked with
the selection that was recorded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msitd.verify import coordinates, dropout, gradients, recurrent, trees
from msitd.verify.arguments import Arguments
from msitd.verify.scores import roundoff
from msitd.verify.table import RANDOM_REASON, RECURRENT, Kind, Spec
from msitd.verify.unchecked import Unchecked

if TYPE_CHECKING:
    import torch

    Tensors = Mapping[str, torch.Tensor]

# Functions that round once.
ARITHMETIC = frozenset(
    [
        "add",
        "div",
        "divide",
        "mul",
        "multiply",
        "reciprocal",
        "rsub",
        "sqrt",
        "square",
        "sub",
        "subtract",
        "true_divide",
        "leaky_relu",
        "prelu",
        "softshrink",
        "deg2rad",
        "rad2deg",
        "threshold_backward",
        "ldexp",
    ]
)
# Those of them that compute the components of complex numbers apart from each other.
BY_COMPONENT = frozenset(["add", "rsub", "sub", "subtract"])
_MODULI = frozenset(["abs", "absolute", "sgn"])

# A stage rounds its factor, the product and the sum.
_ROUNDINGS_OF_STAGE = 3
# Transforms have stages of their own for these factors of a length.
_RADIX_MAX = 7
_TRANSFORMS = """
    fft fft2 fftn hfft hfft2 hfftn ifft ifft2 ifftn ihfft ihfft2 ihfftn irfft irfft2
    irfftn rfft rfft2 rfftn stft istft _fft_c2c _fft_c2r _fft_r2c
"""
TRANSFORMS = frozenset(_TRANSFORMS.split())

# Functions whose sums run over the last dimension of an argument, by its position.
_PRODUCTS = {
    **dict.fromkeys(("linear", "matmul", "mm", "bmm", "mv", "dot", "inner", "vdot"), 0),
    "_scaled_mm": 0,
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "addbmm"), 1),
}
# Functions whose gradients of parameters some kernels add one by one, in their type.
ADDED_ONE_BY_ONE = frozenset(
    [
        "batch_norm",
        "embedding",
        "group_norm",
        "layer_norm",
        "native_layer_norm_backward",
        "embedding_dense_backward",
        "rms_norm",
    ]
)
# Functions whose results have roundings that are much larger with some algorithms.
_UNSTABLE = {
    "i0": "the exponential of a large argument overflows on the way",
    "cdist": "distances of near points depend on the algorithm",
    "ldexp": "powers of two overflow in the type of the argument",
}
# The arguments of norms, among which `p` or `ord` is the order.
_NORMS = {
    "norm": "input p",
    "vector_norm": "input ord",
    "normalize": "input p",
    "dist": "input other p",
    "pairwise_distance": "x1 x2 p",
}
# Functions with a root of a sum of squares.
ROOTS = frozenset([*_NORMS, "frobenius_norm", "matrix_norm", "cosine_similarity"])
SOFTMAX = ("softmax", "_softmax", "log_softmax", "_log_softmax")
LOG_SOFTMAX = ("log_softmax", "_log_softmax")
EXPONENTIALS = (*SOFTMAX, "softmin")
# Logarithms of sums of exponentials.
LOGARITHMS = (*LOG_SOFTMAX, "logsumexp")
# Functions whose terms may be nearly equal.
REDUCTIONS = frozenset(
    [
        "sum",
        "mean",
        "nansum",
        "nanmean",
        "norm",
        "vector_norm",
        "matrix_norm",
        "nuclear_norm",
        "cumsum",
        "std",
        "var",
        "std_mean",
        "var_mean",
        "frobenius_norm",
        "logsumexp",
    ]
)
# Functions that divide by a deviation or a norm. If one element dominates it, roundings
# of the arguments hardly change the quotient, which still has those of the steps.
NORMALIZATIONS = frozenset(
    [
        "group_norm",
        "instance_norm",
        "layer_norm",
        "native_group_norm",
        "native_layer_norm",
        "normalize",
        "rms_norm",
    ]
)
# Functions whose result may change by far more than their arguments.
_AMPLIFYING = """
    cholesky cholesky_ex cholesky_inverse cholesky_solve inv inv_ex inverse logdet
    slogdet solve solve_ex solve_triangular gru lstm rnn_relu rnn_tanh
"""
AMPLIFYING = frozenset(_AMPLIFYING.split())
# Functions of singular values or eigenvalues.
_SPECTRAL = frozenset(["eigvalsh", "matrix_norm", "norm", "nuclear_norm", "svdvals"])
# Products of 8-bit numbers with scales.
SCALED_PRODUCTS = ("_scaled_mm",)
_SCALED_MM = "self mat2 scale_a scale_b bias scale_result out_dtype use_fast_accum"
_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "convolution", "_convolution")
TRANSPOSED = ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
# Functions whose results are sums of products.
PRODUCTS = frozenset(
    [*_PRODUCTS, *_CONVOLUTIONS, "chain_matmul", "einsum", "multi_dot", "tensordot"]
)

# Those whose elements are sums of products of one element of each factor, with the
# numbers that are factors too.
_MULTILINEAR = frozenset(
    [*_PRODUCTS, *_CONVOLUTIONS, "einsum", "tensordot"]
) - frozenset(["_scaled_mm"])
_FACTORS = ("alpha", "beta")

# Masks that close a place have at most this value.
_CLOSED, _SAME_VALUE = -9e3, 1e-6
# Roundings of the logarithm of a sum of exponentials: of the scores, their largest, the
# logarithm and the difference.
_SUM_ROUNDINGS = 4.0

_DEPTH_MAX = 16

# The parameters of the forms of attention, in their order.
_ATTENTION = {
    "scaled_dot_product_attention": (
        "query key value attn_mask dropout_p is_causal scale enable_gqa"
    ),
    "_scaled_dot_product_flash_attention_for_cpu": (
        "query key value dropout_p is_causal attn_mask scale"
    ),
    "_scaled_dot_product_flash_attention": (
        "query key value dropout_p is_causal return_debug_mask scale"
    ),
    "_scaled_dot_product_efficient_attention": (
        "query key value attn_mask compute_log_sumexp dropout_p is_causal scale"
    ),
    "_scaled_dot_product_cudnn_attention": (
        "query key value attn_mask compute_log_sumexp dropout_p is_causal "
        "return_debug_mask scale"
    ),
    "_scaled_dot_product_attention_math": (
        "query key value attn_mask dropout_p is_causal dropout_mask scale enable_gqa"
    ),
}


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Sets the dtype of floats that functions make from integers."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def call(spec: Spec, given: Arguments) -> dict[str, torch.Tensor]:
    """Calls a function. Returns the tensors of its result by index.

    If the result is None, the arguments are the result, as in records.
    """
    return _called_in_place_of(
        spec, trees.replaced(given, lambda _, each: each.clone())
    )


def _collect(value: Any, path: str, depth: int, out: dict[str, Any]) -> None:
    import torch

    if isinstance(value, torch.Tensor):
        out[path or "0"] = value.resolve_conj().resolve_neg()
    elif isinstance(value, (tuple, list)) and depth < _DEPTH_MAX:
        for position, each in enumerate(value):
            _collect(
                each, f"{path}.{position}" if path else str(position), depth + 1, out
            )


def exact(
    spec: Spec,
    given: Arguments,
    recorded: Tensors,
    steps: trees.Disturbance | None = None,
) -> dict[str, torch.Tensor]:
    """Returns the results of a function for arguments in float64.

    Args:
        spec: The function.
        given: Its arguments.
        recorded: The recorded results, for functions that drop random elements.
        steps: Disturbs the gradients of a softmax; see `gradients`.
    """
    import torch

    _refuse_unstable(spec, given)
    with _default_dtype(torch.float64):
        if spec.kind == Kind.ATTENTION:
            return attention(spec, given, steps)
        if (
            steps is not None
            and spec.plain in SOFTMAX
            and spec.plain not in LOG_SOFTMAX
        ):
            x, dim = _softmax_arguments(given)
            if x is not None and x.requires_grad:
                return {"0": gradients.softmax(x, dim, steps)}
        if spec.kind == Kind.MASKED:
            return dropout.results(given, recorded)
        if spec.plain in ("grouped_mm", "_grouped_mm"):
            return _grouped_mm(given)
        if spec.plain in SCALED_PRODUCTS:
            return _scaled_mm(given, recorded)
        if spec.plain in RECURRENT:
            return recurrent.results(spec, given)
        out = _called_in_place_of(spec, given)
        if steps is not None and "0" in out:
            out["0"] = coordinates.disturbed(spec, given, out["0"], steps)
        return out


def _refuse_unstable(spec: Spec, given: Arguments) -> None:
    """Raises Unchecked for calls whose roundings depend on the algorithm."""
    if spec.plain in _UNSTABLE:
        raise Unchecked(_UNSTABLE[spec.plain])
    names = _NORMS.get(spec.plain)
    if names is None or spec.kind == Kind.SOLVED:
        return
    position = len(names.split()) - 1
    at = [*given.args[position : position + 1]]
    at += [given.kwargs.get(key) for key in ("p", "ord")]
    orders = [each for each in at if type(each) in (int, float)]
    if any(math.isfinite(each) and each != int(each) for each in orders):
        raise Unchecked("powers of a fractional order are rounded, and then added")


def _grouped_mm(given: Arguments) -> dict[str, torch.Tensor]:
    """Products of groups of rows, each with its own matrix."""
    import torch

    at = trees.named(given, "mat_a mat_b offs bias out_dtype")
    a, b = at.get("mat_a", at.get("self")), at.get("mat_b", at.get("mat2"))
    offsets = at.get("offs")
    if offsets is None or at.get("bias") is not None or (a.dim(), b.dim()) != (2, 3):
        raise Unchecked("it is a form of the function that is not known here")
    ends = [int(end) for end in offsets.tolist()]
    starts = [0, *ends[:-1]]
    pieces = [a[i:j] @ m for i, j, m in zip(starts, ends, b, strict=True)]
    rest = a.shape[0] - (ends[-1] if ends else 0)
    if rest < 0 or sum(len(each) for each in pieces) + rest != a.shape[0]:
        raise Unchecked("it is a form of the function that is not known here")
    pieces.append(torch.zeros(rest, b.shape[-1], dtype=a.dtype))
    return {"0": torch.cat(pieces)}


def refined(spec: Spec, given: Arguments) -> Spec:
    """Returns the function with the kind that it has for these arguments: some norms
    are those of singular values, and absolute values of complex numbers are rounded.
    """
    if spec.plain in _MODULI:
        given_types = [each.dtype for each in trees.tensors_of(given)]
        is_complex = any(each.is_complex for each in given_types)
        return dataclasses.replace(spec, kind=Kind.ROUNDED) if is_complex else spec
    if spec.plain not in ("matrix_norm", "norm"):
        return spec
    order = [*given.args[1:2], given.kwargs.get("ord"), given.kwargs.get("p")]
    if not any(each == "nuc" or each in (2, -2) for each in order):
        return spec
    if spec.plain == "norm" and not _is_of_matrices(given):
        return spec
    is_of_vectors = spec.plain == "norm" and spec.owner != "torch.linalg"
    if is_of_vectors and "nuc" not in order:
        return spec
    return dataclasses.replace(spec, kind=Kind.SOLVED)


def _is_of_matrices(given: Arguments) -> bool:
    """Returns whether torch.linalg.norm reduces two dimensions."""
    dim = given.args[2] if len(given.args) > 2 else given.kwargs.get("dim")
    if dim is not None:
        return isinstance(dim, (tuple, list)) and len(dim) == 2
    import torch

    x = given.args[0] if given.args else None
    return isinstance(x, torch.Tensor) and x.dim() == 2


def backward_error_dims(spec: Spec) -> tuple[int, ...]:
    """Returns the dimensions of the matrices of a function whose elements share their
    roundings. Eliminations mix the elements of a column, and reflections from both
    sides those of a matrix. Empty for functions of elements and sums.
    """
    if spec.kind != Kind.SOLVED:
        return ()
    return (-2, -1) if spec.plain in _SPECTRAL else (-2,)


def is_fast(given: Arguments) -> bool:
    """Returns whether a scaled product may be added with fewer bits."""
    return bool(trees.named(given, _SCALED_MM).get("use_fast_accum"))


def _scaled_mm(given: Arguments, recorded: Tensors) -> dict[str, torch.Tensor]:
    """A product of matrices with a scale for each, or for each row of the first and
    each column of the second.
    """
    at = trees.named(given, _SCALED_MM)
    a, b = at.get("self", at.get("input")), at["mat2"]
    scales = at["scale_a"], at["scale_b"]
    is_whole = all(scale.numel() == 1 for scale in scales)
    by_row = tuple(scales[0].shape) == (a.shape[0], 1)
    by_row = by_row and tuple(scales[1].shape) == (1, b.shape[1])
    if not (is_whole or by_row):
        raise Unchecked("it is a form of the function that is not known here")
    if is_whole:
        scales = scales[0].reshape(()), scales[1].reshape(())
    result = (a * scales[0]) @ (b * scales[1])
    if at.get("bias") is not None:
        result = result + at["bias"]
    is_narrow = any(each.dtype.itemsize == 1 for each in recorded.values())
    if is_narrow and at.get("scale_result") is not None:
        result = result * at["scale_result"]
    return {"0": result}


def _called_in_place_of(spec: Spec, given: Arguments) -> dict[str, torch.Tensor]:
    """Calls a function on arguments that belong to the caller, so that gradients flow
    to them.
    """
    result = spec.function(*given.args, **given.kwargs)
    if result is None:
        result = (*given.args, *given.kwargs.values())
    out: dict[str, torch.Tensor] = {}
    _collect(result, "", 0, out)
    return out


def centered(spec: Spec, given: Arguments) -> Arguments:
    """Returns the arguments of a softmax with a maximum of 0, as all kernels make it, so
    that a disturbance of an argument is one of its difference from the maximum.
    """
    import torch

    if spec.plain not in SOFTMAX:
        return given
    x, dim = _softmax_arguments(given)
    if x is None or x.numel() == 0:
        return given
    top = x.amax(dim, keepdim=True)
    top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
    return given._replace(args=(x - top, *given.args[1:]))


def _softmax_arguments(given: Arguments) -> tuple[torch.Tensor | None, int]:
    """Returns the tensor and the dimension of a softmax; None if they are not known."""
    import torch

    if not given.args:
        return None, 0
    x = given.args[0]
    dim = given.args[1] if len(given.args) > 1 else given.kwargs.get("dim")
    if not isinstance(x, torch.Tensor) or type(dim) is not int:
        return None, 0
    return x, dim


def _masked_scores(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Adds a mask to scores. Where it closes a whole row, the scores are rounded away, as
    in float32.
    """
    import torch

    top = mask.amax(-1, keepdim=True)
    # Values that close together may have been disturbed.
    is_near = mask >= top * (1 + _SAME_VALUE)
    rounded = (scores + top).to(torch.float32).to(scores.dtype) - top
    closed = torch.where(is_near, rounded, torch.full_like(rounded, -math.inf))
    is_closed = (top <= _CLOSED) & torch.isfinite(top)
    return torch.where(is_closed, closed, scores + mask)


def attention(
    spec: Spec, given: Arguments, steps: trees.Disturbance | None = None
) -> dict[str, torch.Tensor]:
    """Scaled dot-product attention by its definition.

    Args:
        spec: The function.
        given: Its arguments.
        steps: See `exact`.

    Raises:
        Unchecked: It drops random elements, or has an argument that is not known.
    """
    import torch

    at = trees.named(given, _ATTENTION[spec.plain])
    q, k, v = at["query"], at["key"], at["value"]
    if at.get("dropout_p"):
        raise Unchecked(RANDOM_REASON)
    if q.dim() < 2 or any(each.is_nested for each in (q, k, v)):
        raise Unchecked("its arguments are nested tensors")
    if at.get("enable_gqa") or (q.dim() == 4 and k.shape[-3] != q.shape[-3]):
        k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
        v = v.repeat_interleave(q.shape[-3] // v.shape[-3], -3)
    scale = at.get("scale")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = (q @ k.transpose(-2, -1)) * scale
    # Kernels compute scores, weights and their gradients in float32.
    unit = roundoff(torch.float32)
    if steps is not None and not scores.requires_grad:
        # The partial sums of terms of one sign grow. Gradients have more noise than that.
        partial = scores.detach().abs() * (math.sqrt(q.shape[-1]) / 3)
        scores = scores + steps.rounding(partial, unit)
    if at.get("is_causal"):
        open_places = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~open_places, -math.inf)
    mask = at.get("attn_mask")
    if mask is not None:
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, -math.inf)
        else:
            scores = _masked_scores(scores, mask)
    terms: list[torch.Tensor] = []
    # Rows without open places are 0 in most kernels.
    empty = (scores == -math.inf).all(-1, keepdim=True)
    opened = torch.where(empty, torch.zeros_like(scores), scores)
    weights = gradients.softmax(opened, -1, steps, roundoff=unit, terms=terms)
    if steps is not None and weights.requires_grad:
        # Backwards make the weights again, from the logarithm of their sum.
        sums = torch.logsumexp(opened.detach(), -1, keepdim=True)
        # Nothing is known of a row whose sum has no digits after the point.
        sums = (sums.abs() * _SUM_ROUNDINGS).clamp_max(1 / unit)
        weights = weights * (1 + steps.rounding(sums, unit))
    weights = torch.where(empty, torch.zeros_like(weights), weights)
    out = {"0": weights @ v}
    if steps is not None and out["0"].requires_grad:
        squares = v.detach().square().transpose(-2, -1)

        def keep(grad: torch.Tensor) -> torch.Tensor:
            terms.append((grad.square() @ squares).sqrt())
            return grad

        out["0"] = gradients.seen(out["0"], keep)
    if spec.plain != "scaled_dot_product_attention":
        out["1"] = torch.logsumexp(scores, -1)
    return out


def _transform_length(tensors: Sequence[torch.Tensor]) -> int:
    """Returns the number of roundings on the way from an element to its transform."""
    lengths = {length for each in tensors for length in each.shape if length > 1}
    stages = math.ceil(math.log2(max((each.numel() for each in tensors), default=1)))
    is_smooth = all(_largest_factor(length) <= _RADIX_MAX for length in lengths)
    # Lengths with large factors take three transforms of another length.
    return max(1, stages) * _ROUNDINGS_OF_STAGE * (1 if is_smooth else 3)


def _largest_factor(number: int) -> int:
    factor, largest = 2, 1
    while factor * factor <= number:
        while number % factor == 0:
            number //= factor
            largest = factor
        factor += 1
    return max(largest, number)


def squared_terms(spec: Spec, given: Arguments) -> Arguments | None:
    """Returns arguments with which the function computes the sums of the squares of its
    terms. None if it computes other sums than those of products.
    """
    tensors = trees.tensors_of(given)
    if spec.plain not in _MULTILINEAR or any(t.dtype.is_complex for t in tensors):
        return None
    squared = trees.replaced(given, lambda _, each: each.square())
    factors = {
        key: value**2
        for key, value in squared.kwargs.items()
        if key in _FACTORS and isinstance(value, (int, float))
    }
    return squared._replace(kwargs={**squared.kwargs, **factors})


def sum_length(
    spec: Spec, given: Arguments, result: torch.Tensor, grads: Tensors
) -> int:
    """Returns the number of terms that an element of `result` is the sum of, or more.

    Args:
        spec: The function.
        given: Its arguments.
        result: A result, or the gradient of an argument.
        grads: The gradients of the results. Empty if `result` is a result.
    """
    tensors = trees.tensors_of(given)
    if not tensors:
        return 1
    name = spec.plain
    longest = max(max(each.shape, default=1) for each in (*tensors, *grads.values()))
    if name in TRANSFORMS:
        return _transform_length((*tensors, result))
    if name in _CONVOLUTIONS and len(tensors) > 1 and tensors[1].dim() > 1:
        longest = max(longest, tensors[1].numel() // max(tensors[1].shape[0], 1))
        if not grads:
            return max(1, tensors[1].numel() // max(tensors[1].shape[0], 1))
    if name == "convolution_backward" and len(tensors) > 2:
        grad, _, weight = tensors[:3]
        is_of_input = result.dim() > 1 and result.shape != weight.shape
        summed = weight if is_of_input else grad
        return max(1, summed.numel() // max(summed.shape[1], 1))
    if name in TRANSPOSED and len(tensors) > 1 and not grads:
        return max(1, tensors[1].numel() // max(tensors[1].shape[1], 1))
    if grads:
        grad = max(grads.values(), key=lambda each: each.numel())
        if name == "affine_grid":
            return max(1, math.prod(grad.shape[1:-1]))
        if result.dim() and grad.dim() and result.shape[0] == grad.shape[0]:
            return longest
        return max(longest, grad.numel() // max(1, min(result.shape, default=1)))
    if name in _PRODUCTS and len(tensors) > _PRODUCTS[name]:
        shape = tensors[_PRODUCTS[name]].shape
        return int(shape[-1]) if len(shape) else 1
    largest = max(each.numel() for each in tensors)
    return max(1, longest, largest // max(1, result.numel()))
