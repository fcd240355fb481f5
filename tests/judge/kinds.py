"""The registry of faults: each has a name and the models in which it can occur."""

from collections.abc import Callable, Iterable

from anatomy import Body, Truth
from subjects import MODELS

Fault = Callable[[Body], Truth]
FAULTS: dict[str, tuple[tuple[str, ...], Fault]] = {}

# Models whose attention computes its scores separately from their
# normalization.
EAGER = ("gpt2", "mixtral", "t5")
LLAMAS = ("llama", "massive", "mixtral")
INFERRED = ("llama", "massive", "mixtral", "gpt2", "vit", "t5")
ALL = (*INFERRED, "train")


def fault(models: Iterable[str], name: str = "") -> Callable[[Fault], Fault]:
    """Registers a fault under the name of its function, or under `name`."""

    def register(function: Fault) -> Fault:
        key = name or function.__name__
        assert key not in FAULTS, key
        assert set(models) <= set(MODELS), models
        FAULTS[key] = tuple(models), function
        return function

    return register
