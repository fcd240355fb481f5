"""The models under test, their weights, their inputs, and how they run."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from attention import Cache
from gpt2 import GPT2LMHeadModel
from llama import Config, LlamaForCausalLM
from t5 import T5ForConditionalGeneration
from torch import Tensor, nn
from vit import IMAGE, ViTForImageClassification

WORDS, PREFILL, STEPS = 128, 8, 3
# Seeds of the weights and the inputs, and how far apart those of two draws are.
WEIGHTS_SEED, INPUTS_SEED, SEEDS_OF_DRAW = 1, 2, 10
PRECISIONS = ("float32", "bfloat16", "float16", "autocast")
# Adam in float16 does not train without a gradient scaler.
NOT_JUDGED = (("train", "float16"),)
MASSIVE_CHANNELS, MASSIVE_VALUE = (5, 23), 3000.0
# Values for far positions and large means in variants of models.
FAR_POSITION, LARGE_MEAN = 100_000, 100.0

MODELS: dict[str, Callable[[], nn.Module]] = {
    "llama": lambda: LlamaForCausalLM(Config()),
    "massive": lambda: LlamaForCausalLM(Config(is_massive=True)),
    "deep": lambda: LlamaForCausalLM(Config(layers=16)),
    "mixtral": lambda: LlamaForCausalLM(Config(experts=4)),
    "gpt2": GPT2LMHeadModel,
    "vit": ViTForImageClassification,
    "t5": T5ForConditionalGeneration,
    "train": lambda: LlamaForCausalLM(Config(layers=2)),
}
DECODERS = ("llama", "massive", "mixtral", "gpt2")


@dataclasses.dataclass
class Loop:
    """How a model is trained."""

    lr: float = 1e-2
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    clip: float | None = 0.5
    forgets_gradients_at: int | None = None
    # Whether the optimizer updates all parameters in one call.
    foreach: bool = False


@dataclasses.dataclass
class Setup:
    """One run: a model and everything around it, which a fault may change."""

    name: str
    precision: str
    # A module. Typed as Any, because its attributes depend on its class.
    model: Any
    inputs: list[dict[str, Tensor]]
    uses_cache: bool = False
    loop: Loop = dataclasses.field(default_factory=Loop)
    # Replaces the kernels of torch while the model runs.
    kernels: Callable[[], contextlib.AbstractContextManager[object]] = (
        contextlib.nullcontext
    )

    def at(self, path: str) -> Any:
        """Returns a module. Typed as Any, because its attributes depend on its
        class.
        """
        return self.model.get_submodule(path)


def _initialise(model: nn.Module, draw: int) -> None:
    """Initializes weights like those of a trained model, so that no part is idle."""
    torch.manual_seed(WEIGHTS_SEED + draw * SEEDS_OF_DRAW)
    seen: set[int] = set()
    for name, parameter in model.named_parameters():
        if id(parameter) in seen:
            continue
        seen.add(id(parameter))
        data, is_norm = parameter.data, "norm" in name or "ln_" in name
        if data.dim() == 1:
            nn.init.normal_(data, 1.0 if is_norm and "weight" in name else 0.0, 0.1)
        elif data.dim() == 4:
            nn.init.normal_(data, 0.0, data[0].numel() ** -0.5)
        elif "c_" in name:
            nn.init.normal_(data, 0.0, data.shape[0] ** -0.5)
        elif "SelfAttention.q" in name or "EncDecAttention.q" in name:
            nn.init.normal_(data, 0.0, 1.5 * data.shape[1] ** -0.5 * 16**-0.5)
        elif any(word in name for word in ("embed", "wte", "wpe", "shared", "cls")):
            nn.init.normal_(data)
        else:
            nn.init.normal_(data, 0.0, data.shape[-1] ** -0.5)


def _make_massive(model: Any) -> None:
    """Makes some channels of the residual stream dwarf the others from layer 1 on.

    As in trained models, one neuron derives them from a direction that all
    words share, they hardly differ from word to word, and norms scale the other
    channels up again.
    """
    channels = list(MASSIVE_CHANNELS)
    model.get_parameter("model.embed_tokens.weight").data[:, 0] = 6.0
    mlp = model.get_submodule("model.layers.0.mlp")
    for projection in (mlp.gate_proj, mlp.up_proj):
        projection.weight.data[0] = 0.0
        projection.weight.data[0, 0] = 1.0
    mlp.down_proj.weight.data[channels] *= 1e-2
    values = torch.tensor([MASSIVE_VALUE, -MASSIVE_VALUE / 2])
    # After the norm, the neuron has the square of the shared direction.
    mlp.down_proj.weight.data[channels, 0] = values / 20
    share = (values.square().sum() / model.config.hidden).sqrt().item()
    for name, module in model.named_modules():
        if name.endswith("norm") and not name.startswith("model.layers.0."):
            module.weight.data *= 0.5 * share
            module.weight.data[channels] = 1e-3
    # These norms do not keep the other channels small, so the layers must.
    for name, parameter in model.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")) and ".0." not in name:
            parameter.data *= 0.2


def _inputs_of(name: str, draw: int) -> list[dict[str, Tensor]]:
    """Returns the inputs of each step. Decoders get a text, and then words one
    by one.
    """
    torch.manual_seed(INPUTS_SEED + draw * SEEDS_OF_DRAW)
    if name == "vit":
        return [{"pixel_values": torch.randn(2, 3, IMAGE, IMAGE)}]
    if name == "t5":
        texts = torch.randint(WORDS, (2, 8)), torch.randint(WORDS, (2, 8))
        return [{"input_ids": texts[0], "decoder_input_ids": texts[1]}]
    if name == "train":
        batches = [torch.randint(WORDS, (2, 10)) for _ in range(STEPS)]
        return [{"input_ids": batch, "labels": batch} for batch in batches]
    lengths = [PREFILL, *[1] * (STEPS - 1)]
    return [{"input_ids": torch.randint(WORDS, (1, length))} for length in lengths]


def make(
    name: str,
    precision: str,
    draw: int = 0,
    build: Callable[[], nn.Module] | None = None,
) -> Setup:
    """Returns the reference run. Each `draw` has other weights and inputs.

    `build` creates a model of other sizes with the same parts.
    """
    model: Any = (build or MODELS[name])()
    _initialise(model, draw)
    if name == "massive":
        _make_massive(model)
    if name == "mixtral":
        for layer in model.model.layers:
            layer.self_attn.is_fused = False
    model.train(name == "train")
    setup = Setup(name, precision, model, _inputs_of(name, draw))
    setup.uses_cache = name in (*DECODERS, "deep")
    if precision in ("bfloat16", "float16"):
        convert(setup, getattr(torch, precision))
    return setup


def convert(setup: Setup, dtype: torch.dtype) -> None:
    """Converts the model and its inputs to another dtype."""
    setup.model.to(dtype)
    for step in setup.inputs:
        for key, value in step.items():
            if value.is_floating_point():
                step[key] = value.to(dtype)


def _train(setup: Setup) -> Iterator[Tensor]:
    loop, model = setup.loop, setup.model
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=loop.lr,
        weight_decay=loop.weight_decay,
        betas=loop.betas,
        foreach=loop.foreach,
    )
    for step, inputs in enumerate(setup.inputs):
        with torch.autocast("cpu", torch.bfloat16, setup.precision == "autocast"):
            loss, logits = model(**inputs)
        loss.backward()
        if loop.clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), loop.clip)
        optimizer.step()
        if step != loop.forgets_gradients_at:
            optimizer.zero_grad()
        yield logits.detach()


def _infer(setup: Setup) -> Iterator[Tensor]:
    past = Cache() if setup.uses_cache else None
    options = {"past_key_values": past} if past is not None else {}
    with (
        torch.no_grad(),
        torch.autocast("cpu", torch.bfloat16, setup.precision == "autocast"),
    ):
        for inputs in setup.inputs:
            yield setup.model(**inputs, **options)


def run(setup: Setup) -> list[Tensor]:
    """Runs all steps and returns the last result of the model in each of them."""
    torch.manual_seed(3)
    steps = _train(setup) if setup.name == "train" else _infer(setup)
    with setup.kernels():
        return [output.detach().clone() for output in steps]


def distance(golden: list[Tensor], target: list[Tensor]) -> float:
    """Returns the largest nl2 of the results of any step."""
    worst = 0.0
    for right, other in zip(golden, target, strict=True):
        if right.shape != other.shape:
            return float("inf")
        change = (other.double() - right.double()).norm() / right.double().norm()
        worst = max(worst, change.item() if change.isfinite() else float("inf"))
    return worst
