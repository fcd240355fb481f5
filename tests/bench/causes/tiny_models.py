"""The models into which mistakes are seeded: those of tests/judge, and variants."""

import dataclasses
from collections.abc import Callable

import parallel
import quantized
import serving
import torch
from llama import Config, LlamaForCausalLM
from seeding import Mistake
from subjects import Setup, convert, make

# The halves differ in sizes, weights and inputs.
SIZES = {
    "calibration": Config(),
    "held_out": Config(hidden=128, inner=192, heads=8, kv_heads=2),
    "held_out_2": Config(hidden=96, inner=160, heads=4, kv_heads=2),
    "held_out_3": Config(hidden=120, inner=208, heads=6, kv_heads=2),
    "held_out_4": Config(hidden=144, inner=200, heads=12, kv_heads=4),
    "held_out_5": Config(hidden=160, inner=216, heads=8, kv_heads=4),
    "held_out_6": Config(hidden=176, inner=248, heads=8, kv_heads=2),
}
DRAWS = {
    "calibration": 0,
    "held_out": 3,
    "held_out_2": 7,
    "held_out_3": 13,
    "held_out_4": 24,
    "held_out_5": 53,
    "held_out_6": 71,
}
WORLD_SIZE = 2


def _nothing(setup: Setup) -> None:
    pass


def _tie(setup: Setup) -> None:
    setup.model.lm_head.weight = setup.model.model.embed_tokens.weight


@dataclasses.dataclass(frozen=True)
class Subject:
    """A variant of a model of tests/judge."""

    # The model that has the same parts.
    judged: str
    text: str
    change: Callable[[Setup], None] = _nothing
    # A change that must follow the conversion to the precision.
    finish: Callable[[Setup], None] = _nothing


SUBJECTS = {
    "llama": Subject("llama", "Llama: a prompt and two words, with a cache"),
    "quantized": Subject(
        "llama", "Llama with weights of 8 bits and biases", quantized.quantize
    ),
    "tied": Subject("llama", "Llama whose head is its embedding", _tie),
    "served": Subject(
        "llama", "Llama with a paged cache for two requests", finish=serving.serve
    ),
    "ranks": Subject("llama", "Llama on two ranks", parallel.split),
    "gpt2": Subject("gpt2", "GPT-2: a prompt and two words, with a cache"),
    "moe": Subject("mixtral", "Mixtral with 4 experts"),
    "vit": Subject("vit", "ViT"),
    "train": Subject("train", "three steps of AdamW on Llama"),
    "tied_train": Subject("train", "the same with tied weights", _tie),
}


def build(subject: str, precision: str, half: str, mistake: Mistake | None) -> Setup:
    """Returns the reference run, with the changes that a mistake makes in both runs."""
    meant = SUBJECTS[subject]
    config = dataclasses.replace(
        SIZES[half],
        layers=2 if meant.judged == "train" else 3,
        experts=4 if meant.judged == "mixtral" else 0,
    )
    is_llama = meant.judged not in ("vit", "gpt2")
    setup = make(
        meant.judged,
        "float32",
        DRAWS[half],
        build=(lambda: LlamaForCausalLM(config)) if is_llama else None,
    )
    meant.change(setup)
    if mistake is not None and mistake.prepare is not None:
        mistake.prepare(setup)
    setup.precision = precision
    if precision != "float32":
        convert(setup, getattr(torch, precision))
    meant.finish(setup)
    return setup
