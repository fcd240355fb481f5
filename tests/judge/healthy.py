"""Pairs of runs that everybody would call equal: they should pass.

A variant changes both runs of a pair; a way changes only the target.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from anatomy import layers, path
from attention import apply_rope
from kernels import Kernels
from kinds import ALL
from subjects import DECODERS, FAR_POSITION, LARGE_MEAN, PREFILL, WORDS, Setup
from torch import Tensor
from torch.nn import functional

EVERY = (*ALL, "deep")
GATED = ("llama", "massive", "deep")
LLAMA_LIKE = (*GATED, "mixtral", "train")
Change = Callable[[Setup], object]


@dataclasses.dataclass(frozen=True)
class Pair:
    """The difference between two runs that are both correct."""

    name: str
    models: tuple[str, ...]
    way: Change = lambda setup: None
    variant: str = ""
    flags: tuple[str, ...] = ()
    # The runs call different functions, so only modules can be compared.
    is_for_modules: bool = False
    # The pair is not expected to pass, because shapes differ.
    is_informational: bool = False
    golden_precision: str = ""
    not_in: tuple[str, ...] = ()


def kernels(product: str = "", *others: str) -> Change:
    """Returns a way that uses other kernels."""

    def way(setup: Setup) -> None:
        setup.kernels = lambda: Kernels(product, others)

    return way


def noise_in_one_product_per_layer(setup: Setup) -> None:
    wide = 256 if setup.name in ("gpt2", "vit") else 128
    setup.kernels = lambda: Kernels("noisy", only=(wide, 64))


def other_attention(setup: Setup) -> None:
    """Eager attention instead of a fused one, or the reverse."""
    for layer in range(layers(setup.name)):
        attention = setup.at(path(setup.name, "attention", layer))
        attention.is_fused = not attention.is_fused


def fused_projections(setup: Setup) -> None:
    """A single product for queries, keys and values."""
    for layer in range(layers(setup.name)):
        parts = [setup.at(path(setup.name, role, layer)) for role in ("q", "k", "v")]
        whole = torch.cat([part.weight for part in parts])
        first = 0
        for part in parts:
            end = first + len(part.weight)
            part.forward = _slice(whole, part.bias, first, end)
            first = end


def _slice(
    whole: Tensor, bias: Tensor | None, first: int, end: int
) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        y = functional.linear(x, whole)[..., first:end].contiguous()
        return y if bias is None else y + bias

    return forward


def fused_norms(setup: Setup) -> None:
    """The norm receives the sum of the residual before it is rounded."""
    for layer in range(layers(setup.name)):
        holder = setup.at(path(setup.name, "layer", layer))
        _fuse_norm(holder, holder.post_attention_layernorm)


def _fuse_norm(holder: Any, norm: Any) -> None:
    plain, wide = norm.forward, []

    def add(x: Tensor, change: Tensor) -> Tensor:
        total = x.float() + change.float()
        wide.append(total)
        return total.to(x.dtype)

    def forward(x: Tensor) -> Tensor:
        return plain(wide.pop()).to(x.dtype)

    holder.add_attention, norm.forward = add, forward


def fused_activations(setup: Setup) -> None:
    """The gate is multiplied before it is rounded."""
    for layer in range(layers(setup.name)):
        _fuse_activation(setup.at(path(setup.name, "mlp", layer)))


def _fuse_activation(mlp: Any) -> None:
    def forward(x: Tensor) -> Tensor:
        gate = mlp.gate_proj(x)
        mlp.act_fn(gate)
        up = mlp.up_proj(x)
        return mlp.down_proj((functional.silu(gate.float()) * up.float()).to(up.dtype))

    mlp.forward = forward


def rope_in_float32(setup: Setup) -> None:
    for layer in range(layers(setup.name)):
        setup.at(path(setup.name, "attention", layer)).rope = _wide_rope


def _wide_rope(
    q: Tensor, k: Tensor, embeddings: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    wide = embeddings[0].float(), embeddings[1].float()
    return (
        apply_rope(q.float(), wide).to(q.dtype),
        apply_rope(k.float(), wide).to(k.dtype),
    )


def rates_by_another_formula(setup: Setup) -> None:
    rotary = setup.at("model.rotary_emb")

    def rates() -> Tensor:
        exponents = torch.arange(0, rotary.size, 2).float() / rotary.size
        return torch.exp(-exponents * torch.log(torch.tensor(rotary.base)))

    rotary.rates = rates


def experts_in_another_order(setup: Setup) -> None:
    for layer in range(layers(setup.name)):
        block = setup.at(path(setup.name, "mlp", layer))
        block.order = lambda: range(3, -1, -1)


def optimizer_takes_all_at_once(setup: Setup) -> None:
    setup.loop.foreach = True


def mask_value(value: float) -> Change:
    def way(setup: Setup) -> None:
        body = setup.at(path(setup.name, "body"))
        body.mask_value = value

    return way


def boolean_mask(setup: Setup) -> None:
    for layer in range(layers(setup.name)):
        attention = setup.at(path(setup.name, "attention", layer))
        attention.mask_of = lambda mask: mask == 0


def no_cache(setup: Setup) -> None:
    setup.uses_cache = False
    words = torch.cat([step["input_ids"] for step in setup.inputs], 1)
    setup.inputs = [
        {"input_ids": words[:, : PREFILL + step]} for step in range(len(setup.inputs))
    ]


def row_of_a_batch(setup: Setup) -> None:
    setup.inputs = [
        {key: torch.cat([value] * 4) for key, value in step.items()}
        for step in setup.inputs
    ]


def far(setup: Setup) -> None:
    setup.at("model").first_position = FAR_POSITION


def large_mean(setup: Setup) -> None:
    holder = "transformer" if setup.name == "gpt2" else "vit.embeddings"
    setup.at(holder).offset = LARGE_MEAN


def sums_near_zero(setup: Setup) -> None:
    """The result of a norm has a mean of 0, and is multiplied by these weights."""
    for layer in range(layers(setup.name)):
        for norm, role in (("norm1", None), ("norm2", "up")):
            module = setup.at(path(setup.name, norm, layer))
            module.weight.data.fill_(1)
            module.bias.data.zero_()
            if role is not None:
                setup.at(path(setup.name, role, layer)).weight.data += 8


def padded(setup: Setup) -> None:
    """Two texts, the second of which is padded at its end."""
    words = torch.randint(WORDS, (2, PREFILL), generator=torch.Generator())
    mask = torch.ones(2, PREFILL, dtype=torch.int64)
    mask[1, PREFILL // 2 :] = 0
    setup.inputs = [{"input_ids": words, "attention_mask": mask}]
    setup.uses_cache = False


VARIANTS: dict[str, Change] = {
    "": lambda setup: None,
    "far": far,
    "large mean": large_mean,
    "sums near zero": sums_near_zero,
    "padded": padded,
}

MEANS = ("gpt2", "vit")
PADDED = ("llama", "mixtral", "gpt2")
SDPA = ("--allow-unmatched", "@sdpa-eager")

_PAIRS = [
    Pair("repeat", EVERY),
    Pair("other precision", EVERY, golden_precision="float32"),
    *(
        Pair(f"products: {name}", EVERY, kernels(name))
        for name in (
            "split_k",
            "split_k_rounded",
            "permuted",
            "double",
            "in_a_batch",
            "noisy",
            "flipped",
        )
    ),
    Pair("noise in one product per layer", EVERY, noise_in_one_product_per_layer),
    Pair("other softmax", ("mixtral", "gpt2", "t5"), kernels("", "softmax")),
    Pair("other norms", EVERY, kernels("", "norm")),
    Pair("other activations", EVERY, kernels("", "activation")),
    Pair(
        "all kernels are others",
        EVERY,
        kernels("split_k", "softmax", "norm", "activation"),
    ),
    Pair(
        "other attention",
        ("llama", "massive", "deep", "mixtral", "gpt2", "vit"),
        other_attention,
        flags=SDPA,
        is_for_modules=True,
    ),
    Pair(
        "fused projections",
        ("llama", "massive", "deep", "mixtral", "vit"),
        fused_projections,
        is_for_modules=True,
    ),
    Pair("fused norms", LLAMA_LIKE[:-1], fused_norms, is_for_modules=True),
    Pair("fused activations", GATED, fused_activations, is_for_modules=True),
    Pair("rope in float32", LLAMA_LIKE, rope_in_float32, is_for_modules=True),
    Pair(
        "rates by another formula",
        LLAMA_LIKE,
        rates_by_another_formula,
        is_for_modules=True,
    ),
    Pair("far positions", LLAMA_LIKE, kernels("split_k", "norm"), variant="far"),
    Pair(
        "far positions, rates by another formula",
        LLAMA_LIKE,
        rates_by_another_formula,
        variant="far",
        is_for_modules=True,
    ),
    Pair("large mean", MEANS, kernels("split_k"), variant="large mean"),
    Pair("large mean, other norms", MEANS, kernels("", "norm"), variant="large mean"),
    Pair("large mean, flipped", MEANS, kernels("flipped"), variant="large mean"),
    Pair("sums near zero", MEANS, kernels("split_k"), variant="sums near zero"),
    Pair(
        "sums near zero, flipped", MEANS, kernels("flipped"), variant="sums near zero"
    ),
    Pair("padded", PADDED, kernels("split_k"), variant="padded"),
    Pair("padded, -inf", PADDED, mask_value(float("-inf")), variant="padded"),
    Pair(
        "padded, -1e9",
        PADDED,
        mask_value(-1e9),
        variant="padded",
        not_in=("float16",),
    ),
    Pair("padded, -65504", PADDED, mask_value(-65504.0), variant="padded"),
    Pair(
        "padded, boolean mask",
        ("llama",),
        boolean_mask,
        variant="padded",
        is_for_modules=True,
    ),
    Pair(
        "experts in another order",
        ("mixtral",),
        experts_in_another_order,
        is_for_modules=True,
    ),
    Pair("optimizer takes all at once", ("train",), optimizer_takes_all_at_once),
    Pair("no cache", DECODERS, no_cache, is_informational=True),
    Pair("row of a batch", DECODERS, row_of_a_batch, is_informational=True),
]
PAIRS = {pair.name: pair for pair in _PAIRS}
assert len(PAIRS) == len(_PAIRS)
