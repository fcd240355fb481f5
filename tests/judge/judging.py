"""Records and compares cases with one daemon."""

import dataclasses
import json
import random
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import msitd.query
import torch
from anatomy import Body, layers
from cases import Case
from explanations import judge_explanations
from healthy import PAIRS, VARIANTS, kernels
from kinds import FAULTS
from recording import record
from subjects import Setup, convert, distance, make, run
from torch import Tensor
from verdicts import Positions, header, judge_fault, judge_healthy

from daemon import Daemon

# A fault may be missed if its result differs less than this multiple of the
# noise.
ABOVE_NOISE = 3.0


@dataclasses.dataclass
class Outcome:
    """The outcome of a case."""

    name: str
    precision: str
    # "fault", "healthy" or "informational".
    category: str
    mode: str
    setting: str
    outcome: str
    # The nl2 of the model's last results, and that of other kernels.
    error: float
    noise: float
    is_above_noise: bool
    truth: list[str]
    header: str
    # For a fault whose maker is right: "right", "wrong" or "none".
    explanation: str = ""


@dataclasses.dataclass
class Golden:
    """A golden run that is recorded."""

    run: str
    results: list[Tensor]
    positions: Positions


OTHER_KERNELS = kernels("split_k_rounded", "softmax", "norm", "activation")


@cache
def noise_of(model: str, precision: str, setting: str, draw: int) -> float:
    """Returns how much a setting by itself changes the result of a model.

    If nothing differs, returns the change by other kernels.
    """
    other = make(model, precision, draw)
    if setting == "against float32":
        return distance(run(make(model, "float32", draw)), run(other))
    OTHER_KERNELS(other)
    return distance(run(make(model, precision, draw)), run(other))


class Judging:
    """Judges cases; golden runs are recorded once."""

    def __init__(self, daemon: Daemon, seed: int, draw: int = 0) -> None:
        self._daemon = daemon
        self._seed = seed
        self._draw = draw
        self._goldens: dict[tuple[str, ...], Golden] = {}
        self._count = 0

    def judge_all(self, cases: Iterable[Case]) -> Iterator[Outcome]:
        for case in cases:
            try:
                yield self.judge(case)
            except (
                ArithmeticError,
                AssertionError,
                LookupError,
                RuntimeError,
                TypeError,
                ValueError,
            ):
                # An exception is a fault of the harness; the other cases
                # continue.
                yield Outcome(
                    name=case.name,
                    precision=case.precision,
                    category="fault" if case.is_fault else "healthy",
                    mode=case.mode,
                    setting=case.setting,
                    outcome="error",
                    error=0.0,
                    noise=0.0,
                    is_above_noise=False,
                    truth=[],
                    header=traceback.format_exc(limit=-3),
                )

    def judge(self, case: Case) -> Outcome:
        return self._fault(case) if case.is_fault else self._healthy(case)

    def _name(self, what: str) -> str:
        self._count += 1
        return f"{what}-{self._count:05}"

    def _golden(self, case: Case, precision: str, variant: str) -> Golden:
        key = (case.model, precision, case.mode, variant)
        if key not in self._goldens:
            setup = self._setup(case.model, precision, variant)
            name = self._name("golden")
            results = record(self._daemon.endpoint, name, setup, case.mode)
            positions: Positions = {}
            if case.mode == "functions":
                positions = self._positions(name)
            # Cases are in order, so earlier golden runs are not needed again.
            self._goldens[key] = Golden(name, results, positions)
        return self._goldens[key]

    def _setup(self, model: str, precision: str, variant: str) -> Setup:
        # Variants change the unconverted weights, which are converted
        # afterwards.
        setup = make(
            model, "autocast" if precision == "autocast" else "float32", self._draw
        )
        VARIANTS[variant](setup)
        setup.precision = precision
        if precision in ("bfloat16", "float16"):
            convert(setup, getattr(torch, precision))
        return setup

    def _positions(self, name: str) -> Positions:
        found: Positions = defaultdict(list)
        with msitd.query.connect(self._daemon.endpoint) as connection:
            for tensor in connection.tensors.list(name):
                found[tensor.token, tensor.op, tensor.io].append(tensor.sequence)
        return dict(found)

    def _compare(self, golden: str, target: str, flags: Iterable[str]) -> Any:
        args = ("compare", "run", golden, target, "--rows", "none", *flags)
        return _parse(self._daemon.ctl("-o", "json", *args, expect=None))

    def _fault(self, case: Case) -> Outcome:
        is_wide = case.setting == "against float32"
        golden = self._golden(case, "float32" if is_wide else case.precision, "")
        setup = self._setup(case.model, case.precision, "")
        if case.setting == "other kernels":
            OTHER_KERNELS(setup)
        draw = random.Random(f"{self._seed}/{case.name}")
        body = Body(setup, draw.randrange(layers(case.model)), draw)
        truth = FAULTS[case.kind][1](body)
        target = self._name("target")
        results = record(self._daemon.endpoint, target, setup, case.mode)
        answer = self._compare(golden.run, target, ())
        error, noise = distance(golden.results, results), self._noise(case)
        return Outcome(
            name=case.name,
            precision=case.precision,
            category="fault",
            mode=case.mode,
            setting=case.setting,
            outcome=judge_fault(answer, truth, golden.positions),
            error=error,
            noise=noise,
            is_above_noise=error > ABOVE_NOISE * noise,
            truth=[str(place) for place in truth],
            header=header(answer),
            explanation=judge_explanations(case.kind, answer),
        )

    def _healthy(self, case: Case) -> Outcome:
        pair = PAIRS[case.kind]
        golden = self._golden(
            case, pair.golden_precision or case.precision, pair.variant
        )
        setup = self._setup(case.model, case.precision, pair.variant)
        pair.way(setup)
        target = self._name("target")
        results = record(self._daemon.endpoint, target, setup, case.mode)
        answer = self._compare(golden.run, target, pair.flags)
        error, noise = distance(golden.results, results), self._noise(case)
        return Outcome(
            name=case.name,
            precision=case.precision,
            category="informational" if pair.is_informational else "healthy",
            mode=case.mode,
            setting=case.setting,
            outcome=judge_healthy(answer),
            error=error,
            noise=noise,
            is_above_noise=error > ABOVE_NOISE * noise,
            truth=[],
            header=header(answer),
        )

    def _noise(self, case: Case) -> float:
        return noise_of(case.model, case.precision, case.setting, self._draw)


def _parse(result: Any) -> Any:
    if result.returncode not in (0, 1, 4):
        raise RuntimeError(f"msitctl: {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)
