"""msitctl exec: which module is the model, if a method of it calls its parts."""

import sys
from pathlib import Path

import pytest
from executing import (
    execute,
    place,  # noqa: F401
    places,
)

from daemon import Daemon

pytestmark = pytest.mark.usefixtures("place")

# Models with the call structures of architectures of transformers. Each program
# uses its model as users do.
HEAD = """
import os, sys
import torch
from torch import nn
torch.manual_seed(0)
X = torch.ones(2, 4)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
    def forward(self, x, memory=None):
        return self.fc(x) if memory is None else self.fc(x) + memory

class Tied(nn.Module):
    # T5, Marian: `generate` calls the encoder, and then the model for each token.
    def __init__(self):
        super().__init__()
        self.shared = nn.Embedding(3, 4)
        self.encoder, self.decoder, self.head = Block(), Block(), nn.Linear(4, 3)
    def get_encoder(self):
        return self.encoder
    def forward(self, x=None, memory=None):
        if memory is None:
            memory = self.encoder(x)
        return self.head(self.decoder(X, memory=memory))
    @torch.no_grad()
    def generate(self, x, count=3):
        encode = self.get_encoder()
        memory = encode(x)
        return [self(memory=memory) for _ in range(count)]

class Nested(nn.Module):
    # Whisper, BART: the encoder belongs to a part of the model.
    def __init__(self):
        super().__init__()
        self.model = Tied()
        self.proj = nn.Linear(3, 3)
    def forward(self, x=None, memory=None):
        return self.proj(self.model(x, memory=memory))
    def generate(self, x, count=3):
        memory = self.model.get_encoder()(x)
        return [self(memory=memory) for _ in range(count)]

class Towers(nn.Module):
    # CLIP, SigLIP: methods call one tower and its projection.
    def __init__(self):
        super().__init__()
        self.text, self.vision = Block(), Block()
        self.text_projection = nn.Linear(4, 2)
    def get_text_features(self, x):
        return self.text_projection(self.text(x))
    def get_image_features(self, x):
        return self.vision(x)
    def forward(self, x):
        return self.get_text_features(x), self.get_image_features(x)

class Causal(nn.Module):
    # GPT-2, Llama: `generate` calls the model itself.
    def __init__(self):
        super().__init__()
        self.transformer, self.head = Block(), nn.Linear(4, 3)
    def forward(self, x):
        return self.head(self.transformer(x))
    def generate(self, x, count=3):
        return [self(x) for _ in range(count)]

class Wrapped(nn.Module):
    # PEFT: a wrapper passes `generate` on.
    def __init__(self):
        super().__init__()
        self.base_model = Tied()
    def forward(self, *args, **kwargs):
        return self.base_model(*args, **kwargs)
    def generate(self, *args, **kwargs):
        return self.base_model.generate(*args, **kwargs)

class Pair(nn.Module):
    # A GAN: a method trains both parts, and nothing calls the whole.
    def __init__(self):
        super().__init__()
        self.generator, self.discriminator = Block(), Block()
    def train_step(self, x):
        return self.discriminator(self.generator(x))

class Trainer:
    # A class of the program that is not a module.
    def __init__(self, model):
        self.model = model
    def run(self):
        return self.model.generate(X)
"""

PROGRAMS = {
    "generate": ("Tied()", "model.generate(X)"),
    "generate_twice": ("Tied()", "model.generate(X); model.generate(X, count=1)"),
    "encoder_of_a_part": ("Nested()", "model.generate(X)"),
    "one_tower": (
        "Towers()",
        "model.get_text_features(X); model.get_image_features(X)",
    ),
    "towers": ("Towers()", "model(X)"),
    "tower_first": ("Towers()", "model.get_image_features(X); model(X)"),
    "causal": ("Causal()", "model.generate(X)"),
    "forward": ("Tied()", "model(X); model(X)"),
    "wrapped": ("Wrapped()", "model.generate(X)"),
    "pair": ("Pair()", "model.train_step(X); model.train_step(X)"),
    "trainer": ("Tied()", "Trainer(model).run()"),
    "closure": ("Tied()", "(lambda: model.generate(X))()"),
}

HOOKED = """
import msitd
with msitd.Client("hooked", rank=0, world_size=1) as client:
    with msitd.register_hook(model, client):
        CALLS
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_ops_and_tokens_are_those_of_register_hook(name: str, daemon: Daemon) -> None:
    model, calls = PROGRAMS[name]
    Path("plain.py").write_text(f"{HEAD}\nmodel = {model}\n{calls}\n")
    hooked = HOOKED.replace("CALLS", calls)
    Path("hooked.py").write_text(f"{HEAD}\nmodel = {model}\n{hooked}\n")
    execute(sys.executable, "plain.py")
    execute(sys.executable, "hooked.py", flags=("--run", "unused"))
    recorded = places(daemon, "r")
    assert {op.split(".")[0] for _, _, op, _ in recorded} == {"root"}
    assert sorted(recorded) == sorted(places(daemon, "hooked"))


def test_a_model_that_is_called_later_is_beside_the_first(daemon: Daemon) -> None:
    Path("plain.py").write_text(
        f"{HEAD}\nmodel = Causal()\nmodel.generate(X)\nTied().generate(X)\n"
    )
    execute(sys.executable, "plain.py")
    assert {op.split(".")[0] for _, _, op, _ in places(daemon)} == {"root", "Tied"}


@pytest.mark.parametrize("wrong", ["", "encoder", "decoder"])
def test_bisect_names_the_module_of_such_a_model(wrong: str) -> None:
    Path("script.py").write_text(
        f"{HEAD}\nmodel = Tied()\n"
        "if sys.argv[1:]:\n"
        "    getattr(model, sys.argv[1]).fc.weight.data.mul_(1.5)\n"
        "model.generate(X)\n"
    )
    python = [sys.executable, "script.py"]
    execute(*python, flags=("--run", "golden"))
    done = execute(
        *python,
        *([wrong] if wrong else []),
        expect=1 if wrong else 0,
        program=("bisect", "golden", "-o", "name"),
    )
    assert done.stdout.split() == ([f"root.{wrong}.fc"] if wrong else [])
