"""The cost of recording for the steps of a model."""

import contextlib
import functools
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msitd
import numpy as np
import torch
from llama_like import LlamaLike, decode_words, prefill_words
from measure import (
    MIB,
    Bench,
    NotMeasured,
    Result,
    at_most,
    new_daemon,
    ratio,
    seconds_of,
)

# Enough for a whole prefill, so that a step does not wait for the disk.
BUFFER_BYTES = 768 * MIB


@dataclass
class Step:
    """The time of one step of the model in seconds, and its amount of data."""

    plain: float
    # With hooks for which the capture policy selects nothing.
    idle: float
    full: float
    tensors: int
    values: int
    mebibytes: float

    @property
    def added(self) -> float:
        """Seconds that full recording adds."""
        return self.full - self.plain


@dataclass
class Leaves:
    """All input and output tensors of the modules in a step."""

    tensors: list[torch.Tensor]

    def nbytes(self) -> int:
        """Returns the total size in bytes."""
        return sum(one.nbytes for one in self.tensors)


def leaves_of(model: torch.nn.Module, words: torch.Tensor) -> Leaves:
    """Returns the leaves of one forward."""
    found: list[torch.Tensor] = []

    def look(value: object) -> None:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            for one in value:
                look(one)
        elif isinstance(value, dict):
            look(tuple(value.values()))

    with contextlib.ExitStack() as hooks:
        for module in model.modules():
            before = module.register_forward_pre_hook(
                lambda _, args, kwargs: look((args, kwargs)), with_kwargs=True
            )
            after = module.register_forward_hook(lambda _, args, result: look(result))
            hooks.callback(before.remove)
            hooks.callback(after.remove)
        model(words)
    return Leaves(found)


def medians_in_turn(
    rounds: int, works: list[Callable[[], float]], between: Callable[[], object]
) -> list[float]:
    """Returns the median seconds that each work reports; `between` runs unmeasured."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, known in zip(works, seconds, strict=True):
            known.append(work())
            between()
    return [statistics.median(one) for one in seconds]


@dataclass(frozen=True)
class Way:
    """How a step is run and recorded."""

    is_prefill: bool = True
    # Forward and backward, with gradients.
    trains: bool = False
    # Whether torch functions are recorded instead of modules.
    has_functions: bool = False
    has_aliases: bool = False
    level: str = "full"


DECODE = Way(is_prefill=False)
WITH_ALIASES = Way(has_aliases=True)


def run_step(way: Way, model: torch.nn.Module, words: torch.Tensor) -> None:
    """Runs one step."""
    if not way.trains:
        with torch.no_grad():
            model(words)
        return
    model(words).pow(2).mean().backward()
    for parameter in model.parameters():
        parameter.grad = None


def seconds_of_step(
    way: Way, model: torch.nn.Module, words: torch.Tensor, functions: Any = None
) -> float:
    """Returns the time of a step. A client, if given, records its functions."""
    recorded = contextlib.nullcontext()
    if functions is not None:
        recorded = msitd.register_api(
            functions, aliases=way.has_aliases, gradients=way.trains
        )
    with recorded:
        return seconds_of(lambda: run_step(way, model, words))


def put_hooks(way: Way, model: torch.nn.Module, client: msitd.Client) -> Any:
    """Returns an object that removes the hooks."""
    if way.has_functions:
        return contextlib.nullcontext()
    return msitd.register_hook(
        model, client, aliases=way.has_aliases, gradients=way.trains
    )


@functools.cache
def step(bench: Bench, way: Way) -> Step:
    """Measures a step with one thread of torch; the three ways take turns."""
    words = prefill_words() if way.is_prefill else decode_words()
    rounds = (2 if way.is_prefill else 12) * min(bench.scale.repetitions, 3)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    plain, idle, full = (LlamaLike().train(way.trains) for _ in range(3))
    try:
        with new_daemon(bench) as daemon:
            endpoint = f"unix:{daemon.socket_dir}"
            daemon.ctl("capture", "set", "--run", "idle", "--ops", "none")
            daemon.ctl("capture", "set", "--run", "full", "--level", way.level)
            with (
                msitd.Client("idle", endpoint=endpoint) as off,
                msitd.Client(
                    "full", endpoint=endpoint, buffer_bytes=BUFFER_BYTES
                ) as client,
                put_hooks(way, idle, off),
                put_hooks(way, full, client),
            ):
                functions = client if way.has_functions else None
                works = [
                    lambda: seconds_of_step(way, plain, words),
                    lambda: seconds_of_step(way, idle, words),
                    lambda: seconds_of_step(way, full, words, functions),
                ]
                # The first access to memory is not part of a step's cost.
                medians_in_turn(2, works, lambda: client.flush(600))
                before = client.counters()
                works[-1]()
                client.flush(600)
                after = client.counters()
                seconds = medians_in_turn(rounds, works, lambda: client.flush(600))
                assert client.counters().dropped_count == 0
            with torch.no_grad():
                leaves = leaves_of(plain, words)
    finally:
        torch.set_num_threads(threads)
    records = after.recorded_count - before.recorded_count
    return Step(
        *seconds,
        tensors=len(leaves.tensors),
        values=records - len(leaves.tensors),
        mebibytes=leaves.nbytes() / MIB,
    )


def empty_hooks_s(bench: Bench) -> float:
    """Returns the seconds that hooks without an effect add to a decode of one word."""
    words, rounds = decode_words(), 12 * min(bench.scale.repetitions, 3)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    plain, hooked = LlamaLike(), LlamaLike()
    for module in hooked.modules():
        module.register_forward_pre_hook(lambda *_: None, with_kwargs=True)
        module.register_forward_hook(lambda *_: None, with_kwargs=True)
    works = [lambda: seconds_of_step(DECODE, plain, words)]
    works.append(lambda: seconds_of_step(DECODE, hooked, words))
    try:
        medians_in_turn(2, works, lambda: None)
        without, with_hooks = medians_in_turn(rounds, works, lambda: None)
    finally:
        torch.set_num_threads(threads)
    return with_hooks - without


def tensor_us(bench: Bench) -> Result:
    """Time that a tensor, with the values next to it, adds to a decode of one word."""
    one = step(bench, DECODE)
    baseline = (
        f"hooks of torch that do nothing, us; {one.tensors} tensors and "
        f"{one.values} values a step"
    )
    least = empty_hooks_s(bench) / one.tensors * 1e6
    return at_most(5.0, one.added / one.tensors * 1e6, "us", baseline, least)


def decode_overhead(bench: Bench) -> Result:
    """A decode of one word, all modules recorded in full, against one without hooks."""
    one = step(bench, DECODE)
    baseline = "the same model without hooks, s"
    return ratio("lower", 1.10, one.full, baseline, one.plain)


def idle_overhead(bench: Bench) -> Result:
    """A decode with hooks for which the policy selects nothing."""
    one = step(bench, DECODE)
    baseline = "the same model without hooks, s"
    return ratio("lower", 1.005, one.idle, baseline, one.plain)


def _copies(leaves: Leaves) -> Callable[[], object]:
    """Returns a function that copies all leaves into memory that is already in use."""
    arrays = [one.detach().contiguous().numpy() for one in leaves.tensors]
    room = [np.zeros_like(array) for array in arrays]

    def copy() -> None:
        for target, array in zip(room, arrays, strict=True):
            np.copyto(target, array)

    return copy


def step_vs_memcpy(bench: Bench) -> Result:
    """Time that recording adds to a prefill, with aliases, against copies of
    all leaves.
    """
    one = step(bench, WITH_ALIASES)
    with torch.no_grad():
        leaves = leaves_of(LlamaLike().eval(), prefill_words())
    copy = _copies(leaves)
    (copy_s,) = medians_in_turn(
        bench.scale.repetitions, [lambda: seconds_of(copy)], lambda: None
    )
    baseline = f"memcpy of {one.tensors} leaves, {one.mebibytes:.0f} MiB, s"
    return ratio("lower", 1.0, one.added, baseline, copy_s)


def _vs_save(
    bench: Bench, target: float, name: str, save: Callable[[Path, torch.Tensor], object]
) -> Result:
    one = step(bench, WITH_ALIASES)
    with torch.no_grad():
        leaves = leaves_of(LlamaLike().eval(), prefill_words())

    def save_all() -> None:
        for number, tensor in enumerate(leaves.tensors):
            save(bench.folder / f"leaf-{number}", tensor)

    (save_s,) = medians_in_turn(1, [lambda: seconds_of(save_all)], lambda: None)
    for number in range(len(leaves.tensors)):
        (bench.folder / f"leaf-{number}").unlink()
    return ratio("lower", target, one.added, f"{name} of the same leaves, s", save_s)


def vs_torch_save(bench: Bench) -> Result:
    """Time that recording adds to a prefill, against torch.save of its leaves."""
    return _vs_save(bench, 0.05, "torch.save", lambda path, t: torch.save(t, path))


def vs_numpy_save(bench: Bench) -> Result:
    """Time that recording adds to a prefill, against numpy.save of its leaves."""

    def save(path: Path, tensor: torch.Tensor) -> None:
        # With a name instead of a file, numpy would add a suffix.
        with path.open("wb") as file:
            np.save(file, tensor.numpy())

    return _vs_save(bench, 0.12, "numpy.save", save)


def _msprobe_python() -> str:
    python = os.environ.get("MSPROBE_PYTHON")
    if python is None:
        raise NotMeasured("MSPROBE_PYTHON names no Python that has msprobe")
    return python


def _probed(
    bench: Bench,
    python: str,
    how: tuple[str, ...],
    trains: bool,
    *tool: str,
    **env: str,
) -> tuple[float, float]:
    """Returns the seconds of a step without a debugger, and with one."""
    script = Path(__file__).with_name("msprobe_original.py")
    rounds = str(1 + min(bench.scale.repetitions, 4))
    out = subprocess.run(
        [python, script, *how, rounds, str(int(trains)), *tool],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **env},
    ).stdout
    plain_s, probed_s = map(float, out.strip().splitlines()[-1].split()[1:])
    return plain_s, probed_s


def _vs_msprobe(bench: Bench, target: float, way: Way, *how: str) -> Result:
    """Time added to a step, against the time that msprobe adds; each to its own
    step.
    """
    python = _msprobe_python()
    one = step(bench, way)
    plain_s, probed_s = _probed(bench, python, how, way.trains)
    baseline = f"{' '.join(how)} of msprobe in a step as long as ours, s"
    msprobe_s = (probed_s - plain_s) * one.plain / plain_s
    return ratio("lower", target, one.added, baseline, msprobe_s)


def step_vs_msprobe(bench: Bench) -> Result:
    """Summaries of all modules against statistics of msprobe."""
    way = Way(level="summary")
    return _vs_msprobe(bench, 0.12, way, "L0", "statistics")


def step_vs_msprobe_l1(bench: Bench, has_aliases: bool = False) -> Result:
    """Summaries of all functions against statistics of msprobe."""
    way = Way(level="summary", has_functions=True, has_aliases=has_aliases)
    return _vs_msprobe(bench, 0.10, way, "L1", "statistics")


def tensors_vs_msprobe(bench: Bench, has_aliases: bool = False) -> Result:
    """All bytes against files of msprobe."""
    way = Way(has_aliases=has_aliases)
    return _vs_msprobe(bench, 0.04, way, "L0", "tensor")


def train_vs_msprobe(bench: Bench, has_aliases: bool = False) -> Result:
    """Summaries of a forward and a backward against statistics of msprobe."""
    way = Way(level="summary", trains=True, has_aliases=has_aliases)
    return _vs_msprobe(bench, 0.15, way, "L0", "statistics")


def probe_vs_msprobe(bench: Bench, level: str) -> Result:
    """A training step with msitd.probe, including its folder, against one with
    msprobe.
    """
    python = _msprobe_python()
    how = (level, "statistics")
    with new_daemon(bench) as daemon:
        endpoint = f"unix:{daemon.socket_dir}"
        path = f"{bench.binaries.resolve()}:{os.environ['PATH']}"
        plain_s, probed_s = _probed(
            bench,
            sys.executable,
            how,
            True,
            "msitd",
            MSITD_ENDPOINT=endpoint,
            PATH=path,
        )
    other_plain_s, other_s = _probed(bench, python, how, True)
    baseline = f"{' '.join(how)} of msprobe in a step as long as ours, s"
    msprobe_s = (other_s - other_plain_s) * plain_s / other_plain_s
    return ratio("lower", 0.5, probed_s - plain_s, baseline, msprobe_s)


def at_level(level: str) -> Callable[[Bench], Result]:
    """Returns a function that measures a step with the debugger of msitd."""
    return functools.partial(probe_vs_msprobe, level=level)


def with_aliases(function: Callable[..., Result]) -> Callable[[Bench], Result]:
    """The same, but each tensor is read only once, however often it is recorded."""
    return functools.partial(function, has_aliases=True)


BENCHMARKS: dict[str, Callable[[Bench], Result]] = {
    "model.tensor_us": tensor_us,
    "model.decode_overhead": decode_overhead,
    "model.idle_overhead": idle_overhead,
    "model.step_vs_memcpy": step_vs_memcpy,
    "model.step_vs_msprobe": step_vs_msprobe,
    "model.step_vs_msprobe_l1": step_vs_msprobe_l1,
    "model.step_vs_msprobe_l1.aliases": with_aliases(step_vs_msprobe_l1),
    "model.tensors_vs_msprobe": tensors_vs_msprobe,
    "model.tensors_vs_msprobe.aliases": with_aliases(tensors_vs_msprobe),
    "model.probe_vs_msprobe.l0": at_level("L0"),
    "model.probe_vs_msprobe.l1": at_level("L1"),
    "model.probe_vs_msprobe.mix": at_level("mix"),
    "model.train_vs_msprobe": train_vs_msprobe,
    "model.train_vs_msprobe.aliases": with_aliases(train_vs_msprobe),
    "model.vs_torch_save": vs_torch_save,
    "model.vs_numpy_save": vs_numpy_save,
}
