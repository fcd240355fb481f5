"""What recording costs the steps of a model."""

import functools
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msitd
import numpy as np
import torch
from llama_like import LlamaLike, decode_words, prefill_words
from measure import MIB, Bench, Result, at_most, new_daemon, ratio, seconds_of

# Holds a whole prefill, so that a step does not wait for the disk.
BUFFER_BYTES = 768 * MIB


@dataclass
class Step:
    """What one step of the model takes, in seconds, and how much it holds."""

    plain: float
    # Hooks are there, and the capture policy asks for nothing.
    idle: float
    full: float
    tensors: int
    values: int
    mebibytes: float

    @property
    def added(self) -> float:
        """Seconds that recording in full adds."""
        return self.full - self.plain


@dataclass
class Leaves:
    """All tensors that the modules of a step get and give."""

    tensors: list[torch.Tensor]

    def nbytes(self) -> int:
        """Returns their bytes."""
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

    with ExitStack() as hooks:
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
    rounds: int, works: list[Callable[[], object]], between: Callable[[], object]
) -> list[float]:
    """Returns the median seconds of each work; `between` runs unmeasured."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, known in zip(works, seconds, strict=True):
            known.append(seconds_of(work))
            between()
    return [statistics.median(one) for one in seconds]


@functools.cache
def step(bench: Bench, is_prefill: bool, aliases: bool) -> Step:
    """Measures a step of one thread of torch; the three ways take turns."""
    words = prefill_words() if is_prefill else decode_words()
    rounds = (7 if is_prefill else 40) * min(bench.scale.repetitions, 3)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    plain, idle, full = (LlamaLike().eval() for _ in range(3))
    try:
        with new_daemon(bench) as daemon, torch.inference_mode(not aliases):
            endpoint = f"unix:{daemon.socket_dir}"
            daemon.ctl("capture", "set", "--run", "idle", "--ops", "none")
            with (
                msitd.Client("idle", endpoint=endpoint) as off,
                msitd.Client(
                    "full", endpoint=endpoint, buffer_bytes=BUFFER_BYTES
                ) as client,
                msitd.register_hook(idle, off),
                msitd.register_hook(full, client, aliases=aliases),
                torch.no_grad(),
            ):
                for _ in range(2):
                    for model in (plain, idle, full):
                        model(words)
                    client.flush(600)
                before = client.counters()
                full(words)
                client.flush(600)
                after = client.counters()
                seconds = medians_in_turn(
                    rounds,
                    [lambda model=one: model(words) for one in (plain, idle, full)],
                    lambda: client.flush(600),
                )
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


def tensor_us(bench: Bench) -> Result:
    """What a tensor adds to a decode of one word, with all values beside it."""
    one = step(bench, False, False)
    baseline = f"none; {one.tensors} tensors and {one.values} values a step"
    return at_most(5.0, one.added / one.tensors * 1e6, "us", baseline, 0.0)


def decode_overhead(bench: Bench) -> Result:
    """A decode of one word, all modules recorded in full, against one without hooks."""
    one = step(bench, False, False)
    baseline = "the same model without hooks, s"
    return ratio("lower", 1.10, one.full, baseline, one.plain)


def idle_overhead(bench: Bench) -> Result:
    """A decode with hooks of which the policy asks for nothing."""
    one = step(bench, False, False)
    baseline = "the same model without hooks, s"
    return ratio("lower", 1.005, one.idle, baseline, one.plain)


def _copies(leaves: Leaves) -> Callable[[], object]:
    """Returns a copy of all leaves into memory that is touched."""
    arrays = [one.detach().contiguous().numpy() for one in leaves.tensors]
    room = [np.zeros_like(array) for array in arrays]

    def copy() -> None:
        for target, array in zip(room, arrays, strict=True):
            np.copyto(target, array)

    return copy


def step_vs_memcpy(bench: Bench) -> Result:
    """What a recorded prefill adds, with aliases, against copies of all leaves."""
    one = step(bench, True, True)
    with torch.no_grad():
        leaves = leaves_of(LlamaLike().eval(), prefill_words())
    (copy_s,) = medians_in_turn(7, [_copies(leaves)], lambda: None)
    baseline = f"memcpy of {one.tensors} leaves, {one.mebibytes:.0f} MiB, s"
    return ratio("lower", 1.0, one.added, baseline, copy_s)


def _vs_save(
    bench: Bench, target: float, name: str, save: Callable[[Path, torch.Tensor], object]
) -> Result:
    one = step(bench, True, True)
    with torch.no_grad():
        leaves = leaves_of(LlamaLike().eval(), prefill_words())

    def save_all() -> None:
        for number, tensor in enumerate(leaves.tensors):
            save(bench.folder / f"leaf-{number}", tensor)

    (save_s,) = medians_in_turn(3, [save_all], lambda: None)
    for number in range(len(leaves.tensors)):
        (bench.folder / f"leaf-{number}").unlink()
    return ratio("lower", target, one.added, f"{name} of the same leaves, s", save_s)


def vs_torch_save(bench: Bench) -> Result:
    """What a recorded prefill adds against torch.save of its leaves."""
    return _vs_save(bench, 0.05, "torch.save", lambda path, t: torch.save(t, path))


def vs_numpy_save(bench: Bench) -> Result:
    """What a recorded prefill adds against numpy.save of its leaves."""

    def save(path: Path, tensor: torch.Tensor) -> None:
        # Given a name, numpy would add a suffix.
        with path.open("wb") as file:
            np.save(file, tensor.numpy())

    return _vs_save(bench, 0.12, "numpy.save", save)


BENCHMARKS: dict[str, Callable[[Bench], Result]] = {
    "model.tensor_us": tensor_us,
    "model.decode_overhead": decode_overhead,
    "model.idle_overhead": idle_overhead,
    "model.step_vs_memcpy": step_vs_memcpy,
    "model.vs_torch_save": vs_torch_save,
    "model.vs_numpy_save": vs_numpy_save,
}
