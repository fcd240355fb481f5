"""The parts of each model, and the places where code of the model runs.

A place is an answer that `cause` may give. Names have no leading `root.`.
"""

import dataclasses
import random
from typing import Any

from subjects import Setup


@dataclasses.dataclass(frozen=True)
class Place:
    """One acceptable answer.

    With `after` and `before`, the place is code of `op` between any two of
    these parts; an empty name stands for the beginning or the end. Without
    them, it is the op itself, and `*` in its name matches any text.
    """

    op: str
    after: tuple[str, ...] | None = None
    before: tuple[str, ...] | None = None
    # Only records with this io, such as "state".
    io: str = ""
    # Only tokens from this one on.
    token: int = 0
    # Any code or function that runs after the model in its step.
    is_outside: bool = False


Truth = list[Place]


def own(op: str, after: str | tuple[str, ...], before: str | tuple[str, ...]) -> Place:
    """Returns the code of an op between two of its parts, which are named
    relative to it.
    """

    def paths(names: str | tuple[str, ...]) -> tuple[str, ...]:
        names = (names,) if isinstance(names, str) else names
        return tuple(f"{op}.{name}".strip(".") if name else "" for name in names)

    return Place(op, paths(after), paths(before))


_LLAMA = {
    "layer": "model.layers.{}",
    "attention": "model.layers.{}.self_attn",
    "q": "model.layers.{}.self_attn.q_proj",
    "k": "model.layers.{}.self_attn.k_proj",
    "v": "model.layers.{}.self_attn.v_proj",
    "o": "model.layers.{}.self_attn.o_proj",
    "norm1": "model.layers.{}.input_layernorm",
    "norm2": "model.layers.{}.post_attention_layernorm",
    "body": "model",
    "final": "model.norm",
    "embed": "model.embed_tokens",
    "head": "lm_head",
}
_LLAMA_MLP = {
    "mlp": "model.layers.{}.mlp",
    "gate": "model.layers.{}.mlp.gate_proj",
    "up": "model.layers.{}.mlp.up_proj",
    "down": "model.layers.{}.mlp.down_proj",
    "act": "model.layers.{}.mlp.act_fn",
}
_PATHS: dict[str, dict[str, str]] = {
    "llama": _LLAMA | _LLAMA_MLP,
    "mixtral": _LLAMA
    | {
        "mlp": "model.layers.{}.block_sparse_moe",
        "router": "model.layers.{}.block_sparse_moe.gate",
        "up": "model.layers.{}.block_sparse_moe.experts.1.w3",
        "gate": "model.layers.{}.block_sparse_moe.experts.1.w1",
        "down": "model.layers.{}.block_sparse_moe.experts.1.w2",
        "act": "model.layers.{}.block_sparse_moe.experts.1.act_fn",
    },
    "gpt2": {
        "layer": "transformer.h.{}",
        "attention": "transformer.h.{}.attn",
        "qkv": "transformer.h.{}.attn.c_attn",
        "o": "transformer.h.{}.attn.c_proj",
        "norm1": "transformer.h.{}.ln_1",
        "norm2": "transformer.h.{}.ln_2",
        "mlp": "transformer.h.{}.mlp",
        "up": "transformer.h.{}.mlp.c_fc",
        "down": "transformer.h.{}.mlp.c_proj",
        "act": "transformer.h.{}.mlp.act",
        "dropout": "transformer.h.{}.mlp.dropout",
        "body": "transformer",
        "final": "transformer.ln_f",
        "embed": "transformer.wte",
        "head": "lm_head",
    },
    "vit": {
        "layer": "vit.encoder.layer.{}",
        "attention": "vit.encoder.layer.{}.attention.attention",
        "q": "vit.encoder.layer.{}.attention.attention.query",
        "k": "vit.encoder.layer.{}.attention.attention.key",
        "v": "vit.encoder.layer.{}.attention.attention.value",
        "o": "vit.encoder.layer.{}.attention.output.dense",
        "norm1": "vit.encoder.layer.{}.layernorm_before",
        "norm2": "vit.encoder.layer.{}.layernorm_after",
        "mlp": "vit.encoder.layer.{}.output",
        "up": "vit.encoder.layer.{}.intermediate.dense",
        "down": "vit.encoder.layer.{}.output.dense",
        "act": "vit.encoder.layer.{}.intermediate.intermediate_act_fn",
        "dropout": "vit.encoder.layer.{}.output.dropout",
        "body": "vit",
        "final": "vit.layernorm",
        "embed": "vit.embeddings.patch_embeddings.projection",
        "head": "classifier",
    },
    "t5": {
        "layer": "{0}.block.{1}",
        "self": "{0}.block.{1}.layer.0",
        "attention": "{0}.block.{1}.layer.0.SelfAttention",
        "q": "{0}.block.{1}.layer.0.SelfAttention.q",
        "k": "{0}.block.{1}.layer.0.SelfAttention.k",
        "v": "{0}.block.{1}.layer.0.SelfAttention.v",
        "o": "{0}.block.{1}.layer.0.SelfAttention.o",
        "norm1": "{0}.block.{1}.layer.0.layer_norm",
        "norm2": "{0}.block.{1}.layer.{2}.layer_norm",
        "ff": "{0}.block.{1}.layer.{2}",
        "mlp": "{0}.block.{1}.layer.{2}.DenseReluDense",
        "up": "{0}.block.{1}.layer.{2}.DenseReluDense.wi",
        "down": "{0}.block.{1}.layer.{2}.DenseReluDense.wo",
        "act": "{0}.block.{1}.layer.{2}.DenseReluDense.act",
        "dropout": "{0}.block.{1}.layer.{2}.dropout",
        "body": "decoder",
        "final": "decoder.final_layer_norm",
        "head": "lm_head",
    },
}
_PATHS["massive"] = _PATHS["train"] = _PATHS["deep"] = _PATHS["llama"]
_LAYERS = {"t5": 6, "train": 2, "deep": 16}


def roles(name: str) -> set[str]:
    """Returns the roles of the parts that a model has."""
    return set(_PATHS[name])


def layers(name: str) -> int:
    """Returns the number of layers; those of T5's decoder follow those of its
    encoder.
    """
    return _LAYERS.get(name, 3)


def path(name: str, role: str, layer: int = 0) -> str:
    """Returns the name of a part."""
    pattern = _PATHS[name][role]
    if name == "t5":
        stack = "encoder" if layer < 3 else "decoder"
        return pattern.format(stack, layer % 3, 1 if layer < 3 else 2)
    return pattern.format(layer)


@dataclasses.dataclass
class Body:
    """A setup, and a randomly chosen layer of it."""

    setup: Setup
    layer: int
    draw: random.Random

    def path(self, role: str, layer: int | None = None) -> str:
        return path(self.setup.name, role, self.layer if layer is None else layer)

    def part(self, role: str, layer: int | None = None) -> Any:
        return self.setup.at(self.path(role, layer))

    def attention_code(self) -> Place:
        """The code between the projections of queries, keys and values, and
        that of results.
        """
        name, op = self.setup.name, self.path("attention")
        if name == "gpt2":
            return own(op, "c_attn", "c_proj")
        if name == "vit":
            return own(op, "query", "")
        if name == "t5":
            # The bias of positions is looked up after the projections.
            return own(op, ("v", "relative_attention_bias"), "o")
        return own(op, "v_proj", "o_proj")

    def attention_weights(self) -> Truth:
        """The attention code, which may also return its weights."""
        op, code = self.path("attention"), self.attention_code()
        assert code.after is not None
        # The weights leave the op after its last part.
        return [code, Place(op, (*code.after, "", self.path("o")), ("",))]

    def attention_residual(self) -> Truth:
        """The place where the result of the attention is added."""
        name, op = self.setup.name, self.path("layer")
        if name == "gpt2":
            return [own(op, "attn", "ln_2")]
        if name == "vit":
            return [own(op, "attention", "layernorm_after")]
        if name == "t5":
            return [own(self.path("self"), "dropout", "")]
        return [own(op, "self_attn", "post_attention_layernorm")]

    def feed_forward_residual(self) -> Truth:
        """The place where the result of the feed-forward part is added."""
        name, op = self.setup.name, self.path("layer")
        if name == "vit":
            return [own(self.path("mlp"), "dropout", "")]
        if name == "t5":
            return [own(self.path("ff"), "dropout", "")]
        last = {"gpt2": "mlp", "mixtral": "block_sparse_moe"}.get(name, "mlp")
        return [own(op, last, "")]
