"""The weights of a small Llama of transformers, as ranks of Megatron-core hold them."""

from collections.abc import Callable, Iterable, Mapping

import torch

LAYERS, WIDTH, HEADS, GROUPS, INNER, WORDS = 3, 32, 8, 4, 48, 64
HEAD_SIZE = WIDTH // HEADS

Part = Callable[[torch.Tensor, int], torch.Tensor]

_WHOLE = {
    "decoder.final_layernorm.weight": "model.norm.weight",
    "input_layernorm.weight": "input_layernorm.weight",
    "pre_mlp_layernorm.weight": "post_attention_layernorm.weight",
}
# With the dimension along which ranks have parts.
_CUT = {
    "embedding.word_embeddings.weight": ("model.embed_tokens.weight", 0),
    "output_layer.weight": ("lm_head.weight", 0),
    "self_attention.linear_proj.weight": ("self_attn.o_proj.weight", 1),
    "mlp.linear_fc2.weight": ("mlp.down_proj.weight", 1),
}


def weights_of_rank(
    names: Iterable[str], llama: Mapping[str, torch.Tensor], rank: int, world_size: int
) -> dict[str, torch.Tensor]:
    """Returns the parameters of Megatron-core with these names.

    Args:
        names: Names of parameters, such as
            `decoder.layers.0.self_attention.linear_qkv.weight`.
        llama: The state of the model of transformers.
        rank: The rank among those that share each layer.
        world_size: The number of these ranks.
    """

    def part(whole: torch.Tensor, dim: int) -> torch.Tensor:
        return whole.chunk(world_size, dim)[rank]

    return {name: _weight(name, llama, part) for name in names}


def _weight(name: str, llama: Mapping[str, torch.Tensor], part: Part) -> torch.Tensor:
    source, own = "", name
    if ".layers." in name:
        number, own = name.split(".layers.")[1].split(".", 1)
        source = f"model.layers.{number}."
    if own in _WHOLE:
        return llama[source + _WHOLE[own]]
    if own in _CUT:
        other, dim = _CUT[own]
        return part(llama[source + other], dim)
    if own == "mlp.linear_fc1.weight":
        halves = (f"{source}mlp.{each}_proj.weight" for each in ("gate", "up"))
        return torch.cat([part(llama[half], 0) for half in halves])
    assert own == "self_attention.linear_qkv.weight", name
    # For each group: its query heads, its key head, its value head.
    heads = [
        llama[f"{source}self_attn.{each}_proj.weight"].reshape(GROUPS, -1, WIDTH)
        for each in "qkv"
    ]
    return part(torch.cat(heads, 1), 0).reshape(-1, WIDTH)
