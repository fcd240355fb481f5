"""The trials: pairs of runs with a mistake, and pairs without one."""

import dataclasses
import hashlib
import random

# Imported to register their mistakes.
import calibration  # noqa: F401
import held_out_2_attention  # noqa: F401
import held_out_2_parts  # noqa: F401
import held_out_2_systems  # noqa: F401
import held_out_3_attention  # noqa: F401
import held_out_3_parts  # noqa: F401
import held_out_3_systems  # noqa: F401
import held_out_4_attention  # noqa: F401
import held_out_4_parts  # noqa: F401
import held_out_4_systems  # noqa: F401
import held_out_5_attention  # noqa: F401
import held_out_5_parts  # noqa: F401
import held_out_5_systems  # noqa: F401
import held_out_6_attention  # noqa: F401
import held_out_6_parts  # noqa: F401
import held_out_6_positions  # noqa: F401
import held_out_6_systems  # noqa: F401
import held_out_attention  # noqa: F401
import held_out_parts  # noqa: F401
import held_out_systems  # noqa: F401
from anatomy import Truth, layers
from cases import SETTINGS
from healthy import kernels
from seeding import HALVES, MISTAKES, PRECISIONS, Mistake, Plot
from subjects import Setup
from tiny_models import SUBJECTS, build

HEALTHY = "healthy"
# Kernels that add in another order, and round once.
OTHER_KERNELS = kernels("split_k", "softmax", "norm", "activation")


@dataclasses.dataclass(frozen=True)
class Trial:
    """A golden run and a target run."""

    half: str
    subject: str
    precision: str
    # The name of the mistake, or HEALTHY.
    kind: str

    @property
    def name(self) -> str:
        return f"{self.half}/{self.subject}/{self.precision}/{self.kind}"

    @property
    def mistake(self) -> Mistake | None:
        return None if self.kind == HEALTHY else MISTAKES[self.kind]

    @property
    def setting(self) -> str:
        """How the runs differ in addition to the mistake.

        Depends only on the name. Other kernels call other functions in a backward,
        so trainings have none.
        """
        if self.precision == "float16":
            return "against float32"
        choices = list(SETTINGS)
        # Sums in float32 that are rounded once hardly differ in bfloat16, so other
        # kernels take the place of equal ones.
        choices.remove("against float32" if self.precision == "float32" else "same")
        if SUBJECTS[self.subject].judged == "train":
            choices = ["same", *(c for c in choices if c == "against float32")]
        digest = hashlib.sha256(self.name.encode()).digest()
        return choices[digest[0] % len(choices)]

    @property
    def golden_precision(self) -> str:
        is_wide = self.setting == "against float32"
        return "float32" if is_wide else self.precision


def all_trials() -> list[Trial]:
    """Returns all trials; those that share a golden run are consecutive."""
    faulty = [
        Trial(one.half, subject, precision, one.name)
        for one in MISTAKES.values()
        for subject in one.subjects
        for precision in one.precisions
    ]
    pairs = sorted({(one.half, one.subject) for one in faulty})
    healthy = [Trial(*pair, p, HEALTHY) for pair in pairs for p in PRECISIONS]
    order = [*HALVES]
    return sorted(
        faulty + healthy,
        key=lambda one: (order.index(one.half), one.subject, one.precision, one.kind),
    )


def golden_of(trial: Trial) -> Setup:
    """Returns the golden run of a trial."""
    return build(trial.subject, trial.golden_precision, trial.half, trial.mistake)


def target_of(trial: Trial) -> tuple[Plot, Truth]:
    """Returns the target run of a trial, and the places of its mistake."""
    setup = build(trial.subject, trial.precision, trial.half, trial.mistake)
    if trial.setting == "other kernels":
        OTHER_KERNELS(setup)
    draw = random.Random(trial.name)
    plot = Plot(setup, draw.randrange(layers(setup.name)), draw)
    truth = trial.mistake.plant(plot) if trial.mistake else []
    return plot, truth
