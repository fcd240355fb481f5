"""Which cases there are, and which half each belongs to."""

import dataclasses
import hashlib

# Registers them.
import faults_of_code  # noqa: F401
import faults_of_parts  # noqa: F401
import faults_of_training  # noqa: F401
from healthy import PAIRS
from kinds import FAULTS
from subjects import NOT_JUDGED, PRECISIONS

HALVES = ("seen", "unseen")
MODES = ("modules", "functions")
# What differs between the runs of a fault besides the fault.
SETTINGS = ("same", "other kernels", "against float32")


@dataclasses.dataclass(frozen=True, order=True)
class Case:
    """One pair of runs."""

    model: str
    precision: str
    kind: str
    is_fault: bool

    def _digest(self) -> bytes:
        return hashlib.sha256(
            f"{self.model}|{self.kind}|{self.precision}".encode()
        ).digest()

    @property
    def half(self) -> str:
        """Follows from the names alone, so that it is the same for ever."""
        return HALVES[self._digest()[0] % 2]

    @property
    def mode(self) -> str:
        """What is recorded: modules only or, in a quarter of the cases, functions too."""
        if not self.is_fault and PAIRS[self.kind].is_for_modules:
            return "modules"
        # Other kernels are functions themselves, which show in a backward.
        if self.model == "train" and self.setting != "same":
            return "modules"
        return MODES[self._digest()[1] % 4 == 0]

    @property
    def setting(self) -> str:
        """What differs besides the fault; healthy pairs have ways of their own."""
        if not self.is_fault:
            return "other kernels"
        setting = SETTINGS[self._digest()[2] % 3]
        is_float32 = self.precision == "float32" and setting == "against float32"
        return "other kernels" if is_float32 else setting

    @property
    def name(self) -> str:
        return f"{self.model}/{self.precision}/{self.kind.replace(' ', '_')}"


def _is_case(model: str, precision: str, kind: str) -> bool:
    if (model, precision) in NOT_JUDGED:
        return False
    pair = PAIRS.get(kind)
    if pair is None:
        return True
    return pair.golden_precision != precision and precision not in pair.not_in


def all_cases() -> list[Case]:
    """Returns all cases; those that share a golden run follow each other."""
    kinds = [(kind, models, True) for kind, (models, _) in FAULTS.items()]
    kinds += [(kind, pair.models, False) for kind, pair in PAIRS.items()]
    return sorted(
        Case(model, precision, kind, is_fault)
        for kind, models, is_fault in kinds
        for model in models
        for precision in PRECISIONS
        if _is_case(model, precision, kind)
    )
