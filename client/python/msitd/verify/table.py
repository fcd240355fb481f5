"""The fixed table of the torch functions whose calls can be made again.

A run is foreign data: an op of a run is only looked up here, and nothing that is
not in the table is called. The table maps the name of a function to its `Kind`,
which says what a correct call may differ from the exact result by. The names are
those of the last part of an op, so that `Functional.relu`, `Torch.relu`,
`Tensor.relu` and `Aten.relu` have one line.

Names are separated by white space. The form that works in place (`add_`), the
operators (`__add__`, `__radd__`, `__iadd__`) and the copies of views
(`expand_copy`) have the kind of the plain function.
"""

from __future__ import annotations

import enum
import functools
import re
from dataclasses import dataclass
from typing import Any, NamedTuple


class Kind(enum.Enum):
    """The properties of the result of a function."""

    EXACT = "exact"
    """Moves, selects or compares elements, or rounds once in a defined way: the
    result is known bit by bit."""
    CHOICE = "choice"
    """Selects elements by their order. Equal elements may be selected in any
    order."""
    ROUNDED = "rounded"
    """Each element is one operation or one elementary function of its own
    arguments."""
    ACTIVATION = "activation"
    """The same, but terms of the size of the argument may cancel."""
    SUMS = "sums"
    """Sums of products, and what is made of them."""
    COMPOSITE = "composite"
    """Several steps, each of which rounds its result to the type of the output."""
    MASKED = "masked"
    """Drops random elements. Those that are kept are known."""
    ATTENTION = "attention"
    """Scaled dot-product attention."""
    SOLVED = "solved"
    """Solutions, inverses and determinants of matrices, whose error grows with the
    condition of the matrices."""


@dataclass(frozen=True)
class Spec:
    """A function that can be called again."""

    kind: Kind
    # Where torch has the function, and its name there.
    owner: str
    name: str
    # Whether it stands for a module.
    of_module: bool = False

    @property
    def plain(self) -> str:
        """The name by which the table has the function."""
        return plain_name(self.name)

    @property
    def is_in_place(self) -> bool:
        """Whether the function changes its first argument."""
        return _is_in_place(self.name)

    @property
    def is_foreach(self) -> bool:
        """Whether the function is applied to each tensor of a list."""
        return self.name.startswith(FOREACH)

    @property
    def alternative(self) -> Spec | None:
        """Another function that has the same op."""
        if self.owner == "torch" and self.name in _ALSO_IN_LINALG:
            return Spec(self.kind, "torch.linalg", self.name)
        return None

    @functools.cached_property
    def function(self) -> Any:
        """The function of the installed torch. Raises AttributeError without it."""
        import torch

        found: Any = torch
        for part in self.owner.split(".")[1:]:
            found = getattr(found, part)
        return getattr(found, self.name)


class Refusal(NamedTuple):
    """Why calls of an op are never made again."""

    reason: str


_EXACT = """
    abs absolute adjoint alias all allclose amax amin any arange argwhere as_strided_scatter
    atleast_1d atleast_2d atleast_3d bfloat16 bincount bitwise_and bitwise_left_shift
    bitwise_not bitwise_or bitwise_right_shift bitwise_xor block_diag bool
    broadcast_tensors broadcast_to bucketize byte cartesian_prod cat ceil
    channel_shuffle char chunk clamp clamp_max clamp_min clip clone column_stack
    combinations complex concat concatenate conj_physical constant_pad_nd contiguous
    copy copysign count_nonzero detach diag diag_embed diagflat diagonal
    diagonal_scatter double dsplit dstack embedding eq equal expand expand_as eye
    fill fill_diagonal fix flatten flip fliplr flipud float floor floor_divide fmax
    fmin fmod frac full full_like gather gcd ge greater greater_equal gt half hardshrink
    histc
    hardtanh heaviside hsplit hstack index index_copy index_fill index_select int
    isclose isfinite isin isinf isnan isneginf isposinf isreal kron lcm le less
    less_equal lift_fresh logical_and logical_not logical_or logical_xor long lt
    masked_fill masked_scatter masked_select max_unpool1d max_unpool2d max_unpool3d
    maximum meshgrid minimum moveaxis movedim nan_to_num narrow native_channel_shuffle
    ne neg negative nextafter nonzero nonzero_static not_equal one_hot ones_like pad
    permute pixel_shuffle pixel_unshuffle positive put ravel relu relu6 remainder
    repeat repeat_interleave reshape reshape_as resolve_conj resolve_neg roll rot90
    row_stack scalar_tensor searchsorted select select_scatter setitem sgn short sign
    signbit slice slice_scatter split split_with_sizes squeeze stack swapaxes swapdims
    t take take_along_dim tensor_split threshold tile to _to_copy transpose tril
    tril_indices triu triu_indices trunc type_as unbind unflatten unfold unique
    unique_consecutive unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze
    view view_as_complex view_as_real vsplit vstack where zero zeros_like
    _unsafe_view _reshape_alias fftshift ifftshift
"""

_CHOICE = """
    argmax argmin argsort cummax cummin kthvalue max median min mode msort nanmedian
    sort topk max_pool1d max_pool2d max_pool3d max_pool1d_with_indices
    max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool1d
    adaptive_max_pool2d adaptive_max_pool3d adaptive_max_pool1d_with_indices
    adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices
"""

_ROUNDED = """
    acos acosh add angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin
    asinh atan atan2 atanh cos cosh deg2rad div divide erf erfc erfinv exp exp2
    expm1 float_power hypot ldexp leaky_relu log log10 log1p log2 mul
    multiply polar pow prelu rad2deg reciprocal rsqrt rsub sigmoid sin sinh sqrt
    square sub subtract tan tanh true_divide xlogy softshrink _prelu_kernel
    threshold_backward
"""

_ACTIVATION = """
    celu elu gelu glu hardsigmoid hardswish logaddexp logaddexp2 logit logsigmoid
    mish selu silu sinc softplus softsign tanhshrink addcmul addcdiv lerp
    gelu_backward silu_backward tanh_backward sigmoid_backward elu_backward
    hardswish_backward softplus_backward log_sigmoid_backward
"""

_SUMS = """
    _softmax _log_softmax _convolution _safe_softmax _native_batch_norm_legit_no_training
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d
    addbmm addmm addmv addr avg_pool1d avg_pool2d avg_pool3d baddbmm bmm
    chain_matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d convolution cross cumprod cumsum dot einsum
    embedding_bag fold frobenius_norm ger group_norm index_add index_put inner
    instance_norm layer_norm linear log_softmax logcumsumexp logsumexp lp_pool1d
    lp_pool2d lp_pool3d matmul matrix_norm mean mm multi_dot mv nanmean nansum
    native_group_norm native_layer_norm norm normalize outer
    pairwise_distance prod rms_norm scatter scatter_add scatter_reduce softmax
    softmin std std_mean sum sum_to_size tensordot trace var
    var_mean vdot vector_norm bilinear local_response_norm cdist dist
    grouped_mm _grouped_mm convolution_backward embedding_dense_backward _scaled_mm
"""

_COMPOSITE = """
    affine_grid batch_norm native_batch_norm binary_cross_entropy cosine_similarity
    i0 trapezoid trapz vecdot
    binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy
    gaussian_nll_loss grid_sample grid_sampler hinge_embedding_loss huber_loss
    interpolate kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss
    multi_head_attention_forward multilabel_margin_loss multilabel_soft_margin_loss
    nll_loss nll_loss_forward poisson_nll_loss smooth_l1_loss soft_margin_loss
    triplet_margin_loss upsample upsample_bilinear upsample_nearest
    _softmax_backward_data _log_softmax_backward_data native_layer_norm_backward
    gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell
    fft fft2 fftn hfft hfft2 hfftn ifft ifft2 ifftn ihfft ihfft2 ihfftn irfft irfft2
    irfftn rfft rfft2 rfftn stft istft _fft_c2c _fft_c2r _fft_r2c
"""

STEPWISE = frozenset(["logit", "tanhshrink"])
"""Activations whose kernels store each step in the type of the result."""

_MASKED = """
    dropout dropout1d dropout2d dropout3d feature_dropout
"""

_ATTENTION = """
    scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu
    _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
    _scaled_dot_product_cudnn_attention _scaled_dot_product_attention_math
"""

_SOLVED = """
    cholesky cholesky_ex cholesky_inverse cholesky_solve det eigvalsh inv inv_ex
    inverse logdet matrix_power nuclear_norm slogdet solve solve_ex solve_triangular
    svdvals
"""

# Decompositions that are correct with other signs, orders, or bases of a space.
_AMBIGUOUS = """
    eig eigh eigvals geqrf ldl_factor ldl_factor_ex lstsq lu lu_factor lu_factor_ex qr
    svd
"""

_RANDOM = """
    alpha_dropout bernoulli binomial cauchy exponential feature_alpha_dropout
    fractional_max_pool2d fractional_max_pool3d geometric gumbel_softmax log_normal
    multinomial native_dropout normal poisson rand rand_like randint randint_like
    randn randn_like randperm random rrelu uniform _fused_dropout
"""

_CREATING = "arange eye full tril_indices triu_indices scalar_tensor"
"""Functions whose result does not depend on a tensor, so that only their arguments
bound its size."""

KINDS = {
    Kind.EXACT: _EXACT,
    Kind.CHOICE: _CHOICE,
    Kind.ROUNDED: _ROUNDED,
    Kind.ACTIVATION: _ACTIVATION,
    Kind.SUMS: _SUMS,
    Kind.COMPOSITE: _COMPOSITE,
    Kind.MASKED: _MASKED,
    Kind.ATTENTION: _ATTENTION,
    Kind.SOLVED: _SOLVED,
}

KIND_OF: dict[str, Kind] = {
    name: kind for kind, names in KINDS.items() for name in names.split()
}
AMBIGUOUS = frozenset(_AMBIGUOUS.split())
RANDOM = frozenset(_RANDOM.split())
CREATING = frozenset(_CREATING.split())

# Functions that are applied to each tensor of a list, as optimizers do.
FOREACH = "_foreach_"
_FOREACH_KINDS = (Kind.EXACT, Kind.ROUNDED, Kind.ACTIVATION, Kind.SUMS)

RANDOM_REASON = "it draws random numbers"
COLLECTIVE_REASON = "it is a collective"
AMBIGUOUS_REASON = "several results are correct"
UNKNOWN_REASON = "the function is not in the table"
MODULE_REASON = "the code of the module is not in the table"

# The prefixes of ops, and where torch has their functions.
_OWNERS = {
    "Functional.": "torch.nn.functional",
    "Torch.fft.": "torch.fft",
    "Torch.": "torch",
    "VF.": "torch",
    "Tensor.": "torch.Tensor",
    "Aten.": "torch.ops.aten",
}
# Functions that are named like those of torch but are in another place of it.
_LINALG = """
    cholesky cholesky_ex eigvalsh inv inv_ex matrix_norm multi_dot solve solve_ex
    solve_triangular svdvals vecdot vector_norm
"""
_ONLY_IN_LINALG = frozenset(_LINALG.split())
# Functions of torch and of torch.linalg whose parameters differ. Both have the same
# op.
_ALSO_IN_LINALG = frozenset(["cross", "diagonal", "norm"])
_TRANSFORMS = """
    fft fft2 fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2
    ihfftn irfft irfft2 irfftn rfft rfft2 rfftn
"""
_FFT = frozenset(_TRANSFORMS.split())
_RECURRENT = """
    gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell
"""
RECURRENT = frozenset(_RECURRENT.split())

# Operators of tensors. `i` and `r` before the name stand for the form in place and
# for the one with exchanged operands.
_OPERATORS = {
    "add": "add",
    "and": "bitwise_and",
    "div": "div",
    "eq": "eq",
    "floordiv": "floor_divide",
    "ge": "ge",
    "gt": "gt",
    "invert": "bitwise_not",
    "le": "le",
    "lshift": "bitwise_left_shift",
    "lt": "lt",
    "matmul": "matmul",
    "mod": "remainder",
    "mul": "mul",
    "ne": "ne",
    "or": "bitwise_or",
    "pow": "pow",
    "rshift": "bitwise_right_shift",
    "setitem": "setitem",
    "sub": "sub",
    "truediv": "div",
    "xor": "bitwise_xor",
}
_DUNDER = re.compile(r"__([a-z]+)__\Z")
_NODE = re.compile(
    r"(?:.*/)?[^/]*-aten\.([A-Za-z0-9_]{1,64})\.[A-Za-z0-9_]{1,64}\Z", re.DOTALL
)


def _operator_of(name: str) -> tuple[str, bool] | None:
    """Returns the plain name of an operator and whether it works in place."""
    found = _DUNDER.match(name)
    if found is None:
        return None
    word = found.group(1)
    if word in _OPERATORS:
        return _OPERATORS[word], word == "setitem"
    if word[:1] in ("i", "r") and word[1:] in _OPERATORS:
        return _OPERATORS[word[1:]], word[0] == "i"
    return None


def _is_in_place(name: str) -> bool:
    operator = _operator_of(name)
    if operator is not None:
        return operator[1]
    return name.endswith("_") and not name.endswith("__")


def plain_name(name: str) -> str:
    """Returns the name by which the table has a function: `add` for `__iadd__`."""
    operator = _operator_of(name)
    if operator is not None:
        return operator[0]
    if name.endswith("_") and not name.endswith("__"):
        name = name[:-1]
    if name in KIND_OF:
        return name
    for shorter in (
        name.removeprefix(FOREACH),
        name.removesuffix("_copy"),
        name.removeprefix("linalg_"),
        name.removeprefix("fft_"),
    ):
        if shorter in KIND_OF:
            return shorter
    return name


def find(op: str) -> Spec | Refusal:
    """Returns the function of an op, or why its calls are not made again."""
    node = _NODE.match(op)
    if node is not None:
        return _find("torch.ops.aten", node.group(1))
    if op.startswith(("Distributed.", "c10d.", "_c10d_functional.")):
        return Refusal(COLLECTIVE_REASON)
    for prefix, owner in _OWNERS.items():
        if op.startswith(prefix):
            name = op.removeprefix(prefix)
            if prefix == "VF." and name not in RECURRENT:
                return Refusal(UNKNOWN_REASON)
            return _find(owner, name)
    return Refusal(UNKNOWN_REASON)


def _find(owner: str, name: str) -> Spec | Refusal:
    plain = plain_name(name)
    if plain in RANDOM:
        return Refusal(RANDOM_REASON)
    if plain.removeprefix("linalg_") in AMBIGUOUS:
        return Refusal(AMBIGUOUS_REASON)
    kind = KIND_OF.get(plain)
    if name.startswith(FOREACH) and kind not in _FOREACH_KINDS:
        return Refusal(UNKNOWN_REASON)
    if kind is None or (name in _FFT) != (owner == "torch.fft"):
        return Refusal(UNKNOWN_REASON)
    if owner == "torch" and name in _ONLY_IN_LINALG:
        owner = "torch.linalg"
    return Spec(kind, owner, name)


def is_function(op: str) -> bool:
    """Returns whether an op is a function or an operator, and not a module."""
    return (
        op.startswith((*_OWNERS, "NPU.", "Distributed.", "c10d."))
        or _NODE.match(op) is not None
    )
