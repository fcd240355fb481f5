"""Records the runs of trials, those of several ranks in a process for each rank.

usage: recording_trials.py RANK RENDEZVOUS_FILE ENDPOINT RESULTS TRIAL...
"""

import dataclasses
import json
import logging
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path[:0] = [
        str(HERE),
        str(HERE.parents[1] / "judge"),
        str(HERE.parents[1] / "e2e"),
    ]

import msitd
import torch
import torch.distributed as dist
from anatomy import Place, Truth
from judging import OTHER_KERNELS
from seeding import Plot
from subjects import Setup, distance, run
from tiny_models import WORLD_SIZE, build
from torch import Tensor
from trials import Trial, all_trials, golden_of, target_of

TIMEOUT_S = 300
RANKS = "ranks"


@dataclasses.dataclass
class Recorded:
    """The runs of a trial."""

    golden: str
    target: str
    truth: Truth
    # How much the last result of the model differs, and how much it does so
    # without a mistake.
    error: float
    noise: float


def observe(setup: Setup) -> list[Tensor]:
    """Runs a model and returns its results.

    These include the losses of a training and the gradients of its embedding.
    """
    found: list[Tensor] = []
    if setup.name == "train":
        setup.model.register_forward_hook(
            lambda module, inputs, outputs: found.append(outputs[0].detach().clone())
        )
        setup.at("model.embed_tokens").weight.register_post_accumulate_grad_hook(
            lambda parameter: found.append(parameter.grad.clone())
        )
    return run(setup) + found


@cache
def noise_of(subject: str, precision: str, half: str, setting: str) -> float:
    """Returns how much a setting by itself changes the result of a model.

    If nothing differs, returns the change by kernels that round partial sums.
    """
    other = build(subject, precision, half, None)
    if setting == "against float32":
        precision = "float32"
    else:
        OTHER_KERNELS(other)
    return distance(observe(build(subject, precision, half, None)), observe(other))


def _record(endpoint: str, name: str, plot: Plot) -> list[Tensor]:
    """Records modules and functions of a run; returns the results of the model."""
    # Suppresses the warning about a module that a mistake skips.
    logging.getLogger("msitd").setLevel(logging.ERROR)
    is_split = dist.is_initialized()
    rank, ranks = (dist.get_rank(), WORLD_SIZE) if is_split else (0, 1)
    is_training = plot.setup.name == "train"
    # The functions are replaced first, so that their wrong results are recorded.
    with (
        plot.patched(),
        msitd.Client(name, endpoint=endpoint, rank=rank, world_size=ranks) as client,
        msitd.register_hook(plot.setup.model, client, gradients=is_training),
        msitd.register_api(client),
    ):
        return observe(plot.setup)


class Recorder:
    """Records trials; those with the same golden run share it."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._goldens: dict[tuple[Any, ...], tuple[str, list[Tensor]]] = {}

    def record(self, trial: Trial) -> Recorded:
        golden, results = self._golden(trial)
        plot, truth = target_of(trial)
        target = trial.name.replace("/", ".")
        error = distance(results, _record(self._endpoint, target, plot))
        noise = noise_of(trial.subject, trial.precision, trial.half, trial.setting)
        return Recorded(golden, target, truth, error, noise)

    def _golden(self, trial: Trial) -> tuple[str, list[Tensor]]:
        mistake = trial.mistake
        prepared = trial.kind if mistake is not None and mistake.prepare else ""
        key = (trial.half, trial.subject, trial.golden_precision, prepared)
        if key not in self._goldens:
            name = ".".join(("golden", *filter(None, key)))
            setup = golden_of(trial)
            self._goldens[key] = name, _record(self._endpoint, name, _whole(setup))
        return self._goldens[key]


def _whole(setup: Setup) -> Plot:
    return Plot(setup, 0, random.Random(0))


def record_ranks(endpoint: str, trials: Iterable[Trial]) -> dict[str, Recorded]:
    """Records the trials with several ranks."""
    names = [one.name for one in trials if one.subject == RANKS]
    if not names:
        return {}
    with tempfile.TemporaryDirectory(prefix="msitd-causes-") as folder:
        results = Path(folder) / "results.json"
        words = [str(Path(folder) / "meeting"), endpoint, str(results), *names]
        started = [
            subprocess.Popen([sys.executable, __file__, str(rank), *words])
            for rank in range(WORLD_SIZE)
        ]
        try:
            statuses = [process.wait(TIMEOUT_S) for process in started]
        finally:
            for process in started:
                process.kill()
        if any(statuses):
            raise RuntimeError(f"ranks failed: {statuses}")
        found = json.loads(results.read_text())
    return {name: _parse(one) for name, one in found.items()}


def _parse(words: dict[str, Any]) -> Recorded:
    def tuples(one: dict[str, Any]) -> dict[str, Any]:
        return {k: tuple(v) if isinstance(v, list) else v for k, v in one.items()}

    truth = [Place(**tuples(place)) for place in words.pop("truth")]
    return Recorded(truth=truth, **words)


def main() -> None:
    rank, meeting, endpoint, results = sys.argv[1:5]
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{meeting}",
        rank=int(rank),
        world_size=WORLD_SIZE,
    )
    trials = {one.name: one for one in all_trials()}
    recorder = Recorder(endpoint)
    found = {}
    for name in sys.argv[5:]:
        found[name] = dataclasses.asdict(recorder.record(trials[name]))
        dist.barrier()
    if rank == "0":
        Path(results).write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
