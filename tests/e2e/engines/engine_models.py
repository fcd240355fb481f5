"""One small Llama in the form of transformers, vLLM and SGLang.

The classes have the names and paths of the released ones, and return what those
return. All compute the same function of the same weights, in plain torch.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, GROUPS, HEAD, INNER, WORDS, PADDED, LAYERS = 32, 4, 2, 8, 48, 50, 64, 2
Q, KV = HEADS * HEAD, GROUPS * HEAD
CONFIG = SimpleNamespace(
    hidden_size=WIDTH,
    num_attention_heads=HEADS,
    num_key_value_heads=GROUPS,
    head_dim=HEAD,
    vocab_size=WORDS,
)


def of(path: str, version: str) -> Any:
    """Returns a decorator that gives a class the path of an engine's module."""

    def decorate(kind: type) -> type:
        kind.__module__ = path
        kind.__qualname__ = kind.__name__ = kind.__name__.rstrip("_")
        package = ModuleType(path.partition(".")[0])
        package.__version__ = version  # type: ignore[attr-defined]
        sys.modules.setdefault(package.__name__, package)
        return kind

    return decorate


def weights(seed: int = 0) -> dict[str, torch.Tensor]:
    """Returns the weights of the model by their names in transformers."""
    torch.manual_seed(seed)
    out = {"model.embed_tokens": torch.randn(WORDS, WIDTH)}
    out["lm_head"] = torch.randn(WORDS, WIDTH) / WIDTH**0.5
    out["model.norm"] = 1 + torch.rand(WIDTH)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for name, rows, columns in (
            ("self_attn.q_proj", Q, WIDTH),
            ("self_attn.k_proj", KV, WIDTH),
            ("self_attn.v_proj", KV, WIDTH),
            ("self_attn.o_proj", WIDTH, Q),
            ("mlp.gate_proj", INNER, WIDTH),
            ("mlp.up_proj", INNER, WIDTH),
            ("mlp.down_proj", WIDTH, INNER),
        ):
            out[at + name] = torch.randn(rows, columns) / columns**0.5
        out[at + "input_layernorm"] = 1 + torch.rand(WIDTH)
        out[at + "post_attention_layernorm"] = 1 + torch.rand(WIDTH)
    return out


def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def rotated(x: torch.Tensor, positions: torch.Tensor, base: float) -> torch.Tensor:
    """Rotates heads of shape [rows, heads, HEAD]."""
    angles = positions[:, None] / base ** (torch.arange(0, HEAD, 2) / HEAD)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attended(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    positions: torch.Tensor,
    base: float = 10000.0,
) -> torch.Tensor:
    """Returns the attention of rows in which each position 0 begins a request."""
    q = rotated(q.view(-1, HEADS, HEAD), positions, base)
    k = rotated(k.view(-1, GROUPS, HEAD), positions, base)
    k, v = (
        x.view(-1, GROUPS, HEAD).repeat_interleave(HEADS // GROUPS, 1) for x in (k, v)
    )
    request = (positions == 0).cumsum(0)
    seen = (request[:, None] == request) & (positions[:, None] >= positions)
    scores = torch.einsum("qhd,khd->hqk", q, k) / HEAD**0.5
    scores = scores.masked_fill(~seen, float("-inf")).softmax(-1)
    return torch.einsum("hqk,khd->qhd", scores, v).reshape(-1, Q)


# transformers

HF = "transformers.models.llama.modeling_llama"


def linear(weight: torch.Tensor) -> nn.Linear:
    out = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    out.weight.data = weight.clone()
    return out


@of(HF, "5.24.0")
class LlamaRMSNorm(nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return normed(x, self.weight)


@of(HF, "5.24.0")
class LlamaAttention(nn.Module):
    def __init__(self, all_weights: dict[str, torch.Tensor], at: str) -> None:
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, linear(all_weights[f"{at}.{name}"]))

    def forward(self, hidden_states: torch.Tensor, position_ids: torch.Tensor) -> Any:
        rows = [p(hidden_states)[0] for p in (self.q_proj, self.k_proj, self.v_proj)]
        return self.o_proj(attended(*rows, position_ids[0])[None]), None


@of(HF, "5.24.0")
class LlamaMLP(nn.Module):
    def __init__(self, all_weights: dict[str, torch.Tensor], at: str) -> None:
        super().__init__()
        for name in ("gate_proj", "up_proj", "down_proj"):
            setattr(self, name, linear(all_weights[f"{at}.{name}"]))
        self.act_fn = nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


@of(HF, "5.24.0")
class LlamaDecoderLayer(nn.Module):
    def __init__(self, all_weights: dict[str, torch.Tensor], at: str) -> None:
        super().__init__()
        self.self_attn = LlamaAttention(all_weights, f"{at}.self_attn")
        self.mlp = LlamaMLP(all_weights, f"{at}.mlp")
        for name in ("input_layernorm", "post_attention_layernorm"):
            setattr(self, name, LlamaRMSNorm(all_weights[f"{at}.{name}"]))

    def forward(self, hidden: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        normal = self.input_layernorm(hidden)
        hidden = (
            hidden + self.self_attn(hidden_states=normal, position_ids=position_ids)[0]
        )
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


@of(HF, "5.24.0")
class LlamaModel(nn.Module):
    def __init__(self, all_weights: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(WORDS, WIDTH)
        self.embed_tokens.weight.data = all_weights["model.embed_tokens"].clone()
        self.layers = nn.ModuleList(
            LlamaDecoderLayer(all_weights, f"model.layers.{i}") for i in range(LAYERS)
        )
        self.norm = LlamaRMSNorm(all_weights["model.norm"])

    def forward(self, input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
        positions = torch.arange(input_ids.shape[1])[None]
        hidden = self.embed_tokens(input_ids)
        for layer in self.layers:
            hidden = layer(hidden, position_ids=positions)
        return {"last_hidden_state": self.norm(hidden)}


@of(HF, "5.24.0")
class LlamaForCausalLM(nn.Module):
    """Takes a single prompt and returns the logits of its last position."""

    def __init__(self, all_weights: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.config = CONFIG
        self.model = LlamaModel(all_weights)
        self.lm_head = linear(all_weights["lm_head"])

    def forward(self, input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = self.model(input_ids=input_ids)["last_hidden_state"]
        return {"logits": self.lm_head(hidden[:, -1:])}


# vLLM and SGLang


def _add_linear_layers(kinds: SimpleNamespace) -> None:
    layers, version = kinds.layers, kinds.version

    class Projection(nn.Module):
        def __init__(self, *parts_of: torch.Tensor) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.cat(parts_of))

        def forward(self, x: torch.Tensor) -> Any:
            return functional.linear(x, self.weight), None

    @of(f"{layers}.linear", version)
    class QKVParallelLinear(Projection):
        pass

    @of(f"{layers}.linear", version)
    class MergedColumnParallelLinear(Projection):
        pass

    @of(f"{layers}.linear", version)
    class RowParallelLinear(Projection):
        pass

    @of(f"{layers}.layernorm", version)
    class RMSNorm(nn.Module):
        def __init__(self, weight: torch.Tensor) -> None:
            super().__init__()
            self.weight = nn.Parameter(weight.clone())

        def forward(self, x: torch.Tensor, residual: Any = None) -> Any:
            if residual is None:
                return normed(x, self.weight)
            residual = x + residual
            return normed(residual, self.weight), residual

    kinds.QKVParallelLinear = QKVParallelLinear
    kinds.MergedColumnParallelLinear = MergedColumnParallelLinear
    kinds.RowParallelLinear = RowParallelLinear
    kinds.RMSNorm = RMSNorm


def _add_other_layers(kinds: SimpleNamespace) -> None:
    layers, version, is_sglang = kinds.layers, kinds.version, kinds.is_sglang

    @of(f"{layers}.activation", version)
    class SiluAndMul(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            gate, up = x.chunk(2, -1)
            return functional.silu(gate) * up

    @of(f"{layers}.attention", version)
    class Attention(nn.Module):
        base = 10000.0

        def forward(self, q: Any, k: Any, v: Any, positions: Any) -> torch.Tensor:
            return attended(q, k, v, positions, self.base)

    @of(f"{layers}.vocab_parallel_embedding", version)
    class VocabParallelEmbedding(nn.Module):
        def __init__(self, weight: torch.Tensor) -> None:
            super().__init__()
            rows = torch.zeros(PADDED - WORDS, WIDTH)
            self.weight = nn.Parameter(torch.cat([weight, rows]))

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return functional.embedding(ids, self.weight)

    @of(f"{layers}.vocab_parallel_embedding", version)
    class ParallelLMHead(VocabParallelEmbedding):
        pass

    @of(f"{layers}.logits_processor", version)
    class LogitsProcessor(nn.Module):
        def forward(self, first: Any, hidden: torch.Tensor, head: Any = None) -> Any:
            logits = functional.linear(hidden, (head or first).weight)[:, :WORDS]
            return {"next_token_logits": logits} if is_sglang else logits

    kinds.SiluAndMul, kinds.Attention = SiluAndMul, Attention
    kinds.VocabParallelEmbedding = VocabParallelEmbedding
    kinds.ParallelLMHead = ParallelLMHead
    kinds.LogitsProcessor = LogitsProcessor


def _add_decoder_layer(kinds: SimpleNamespace) -> None:
    models, version = kinds.models, kinds.version

    @of(models, version)
    class LlamaAttention_(nn.Module):
        def __init__(self, w: dict[str, torch.Tensor], at: str) -> None:
            super().__init__()
            names = ("q_proj", "k_proj", "v_proj")
            self.qkv_proj = kinds.QKVParallelLinear(
                *(w[f"{at}.{name}"] for name in names)
            )
            self.o_proj = kinds.RowParallelLinear(w[f"{at}.o_proj"])
            self.attn = kinds.Attention()

        def forward(
            self, positions: torch.Tensor, hidden_states: torch.Tensor
        ) -> torch.Tensor:
            qkv, _ = self.qkv_proj(hidden_states)
            result = self.attn(*qkv.split([Q, KV, KV], -1), positions)
            return self.o_proj(result)[0]

    @of(models, version)
    class LlamaMLP_(nn.Module):
        def __init__(self, w: dict[str, torch.Tensor], at: str) -> None:
            super().__init__()
            self.gate_up_proj = kinds.MergedColumnParallelLinear(
                w[f"{at}.gate_proj"], w[f"{at}.up_proj"]
            )
            self.down_proj = kinds.RowParallelLinear(w[f"{at}.down_proj"])
            self.act_fn = kinds.SiluAndMul()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.down_proj(self.act_fn(self.gate_up_proj(x)[0]))[0]

    @of(models, version)
    class LlamaDecoderLayer_(nn.Module):
        def __init__(self, w: dict[str, torch.Tensor], at: str) -> None:
            super().__init__()
            self.self_attn = LlamaAttention_(w, f"{at}.self_attn")
            self.mlp = LlamaMLP_(w, f"{at}.mlp")
            for name in ("input_layernorm", "post_attention_layernorm"):
                setattr(self, name, kinds.RMSNorm(w[f"{at}.{name}"]))

        def forward(self, positions: Any, hidden: Any, *others: Any) -> Any:
            residual = others[-1]
            if residual is None:
                residual, hidden = hidden, self.input_layernorm(hidden)
            else:
                hidden, residual = self.input_layernorm(hidden, residual)
            hidden = self.self_attn(positions=positions, hidden_states=hidden)
            hidden, residual = self.post_attention_layernorm(hidden, residual)
            return self.mlp(hidden), residual

    kinds.LlamaDecoderLayer = LlamaDecoderLayer_


def _add_model(kinds: SimpleNamespace) -> None:
    models, version, is_sglang = kinds.models, kinds.version, kinds.is_sglang

    @of(models, version)
    class LlamaModel_(nn.Module):
        def __init__(self, w: dict[str, torch.Tensor]) -> None:
            super().__init__()
            self.embed_tokens = kinds.VocabParallelEmbedding(w["model.embed_tokens"])
            self.layers = nn.ModuleList(
                kinds.LlamaDecoderLayer(w, f"model.layers.{i}") for i in range(LAYERS)
            )
            self.norm = kinds.RMSNorm(w["model.norm"])

        def forward(self, input_ids: Any, positions: Any) -> torch.Tensor:
            hidden, residual = self.embed_tokens(input_ids), None
            for layer in self.layers:
                # SGLang also passes its batch.
                batch = (object(),) if is_sglang else ()
                hidden, residual = layer(positions, hidden, *batch, residual)
            return self.norm(hidden, residual)[0]

    @of(models, version)
    class LlamaForCausalLM_(nn.Module):
        def __init__(self, w: dict[str, torch.Tensor]) -> None:
            super().__init__()
            self.config = CONFIG
            self.model = LlamaModel_(w)
            self.lm_head = kinds.ParallelLMHead(w["lm_head"])
            self.logits_processor = kinds.LogitsProcessor()

        def forward(self, input_ids: Any, positions: Any) -> torch.Tensor:
            return self.model(input_ids, positions)

        def compute_logits(self, hidden: torch.Tensor) -> Any:
            return self.logits_processor(self.lm_head, hidden)

    kinds.LlamaForCausalLM = LlamaForCausalLM_


def engine_model(
    package: str, version: str, fault: str = "", parts: int = 1, part: int = 0
) -> nn.Module:
    """Returns the model as an engine has it, for flat rows of several requests.

    Args:
        package: `vllm.model_executor` or `sglang.srt`.
        fault: `rope` or `swapped`, in the last layer.
        parts: The number of ranks that share each layer. They run without
            communication if there are several, so only one may be used then.
        part: This rank.
    """
    assert parts == 1 or part < parts
    kinds = SimpleNamespace(
        layers=f"{package}.layers",
        models=f"{package}.models.llama",
        version=version,
        is_sglang=package.startswith("sglang"),
    )
    _add_linear_layers(kinds)
    _add_other_layers(kinds)
    _add_decoder_layer(kinds)
    _add_model(kinds)
    all_weights = weights()
    if fault == "swapped":
        at = f"model.layers.{LAYERS - 1}.mlp."
        gate, up = all_weights[at + "gate_proj"], all_weights[at + "up_proj"]
        all_weights[at + "gate_proj"], all_weights[at + "up_proj"] = up, gate
    model = kinds.LlamaForCausalLM(all_weights)
    if fault == "rope":
        model.model.layers[-1].self_attn.attn.base = 500000.0
    return model
