"""The registry of seeded mistakes.

Each has a family, a half, and the kinds of explanations that name it. All of these
are determined from the code of the mistake, before any run.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from anatomy import Body, Place, Truth, layers
from explanations import KINDS
from kinds import FAULTS
from subjects import Setup

HALVES = (
    "calibration",
    "held_out",
    "held_out_2",
    "held_out_3",
    "held_out_4",
    "held_out_5",
    "held_out_6",
)
FAMILIES = {
    "rope": "RoPE pairing and base",
    "quantized_bias": "missing bias of a quantized weight",
    "kv_slot": "KV slot of another request",
    "prefix_cache": "prefix cache not read",
    "eps": "eps of a norm",
    "scale": "scale of the scores",
    "mask": "mask",
    "head_order": "order of the heads",
    "gqa_repeat": "repeated heads of GQA",
    "gate_up": "gate and up swapped",
    "router_ties": "router ties",
    "stale_buffer": "stale buffer",
    "lost_all_reduce": "lost all-reduce",
    "reduce_order": "wrong order of a reduction",
    "tile_row": "dropped last row of a tile",
    "overflow": "float16 overflow",
    "dropout": "dropout in eval",
    "position_ids": "position ids",
    "tied_weights": "tied weights",
    "loss_scale": "loss scale",
}
PRECISIONS = ("float32", "bfloat16")


@dataclasses.dataclass
class Plot(Body):
    """A setup into which a mistake is planted."""

    # Functions of torch that are replaced while the model runs: owner, name, and
    # replacement.
    patches: list[tuple[Any, str, Callable[..., Any]]] = dataclasses.field(
        default_factory=list
    )

    def parts(self, role: str) -> list[Any]:
        """Returns the parts of a role in all layers."""
        return [self.part(role, layer) for layer in range(layers(self.setup.name))]

    def break_kernel(
        self, module: Any, owner: Any, name: str, wrong: Callable[..., Any]
    ) -> None:
        """Replaces a function of torch while a module runs.

        `wrong` receives the correct function, and then the arguments of the call.
        Hooks record the call that the model made, with the wrong result.
        """
        self._break_kernels([module], owner, name, wrong)

    def _break_kernels(
        self, modules: list[Any], owner: Any, name: str, wrong: Callable[..., Any]
    ) -> None:
        plain, is_inside = getattr(owner, name), False

        def replacement(*args: Any, **kwargs: Any) -> Any:
            if is_inside:
                return wrong(plain, *args, **kwargs)
            return plain(*args, **kwargs)

        def entered(forward: Callable[..., Any]) -> Callable[..., Any]:
            def inside(*args: Any, **kwargs: Any) -> Any:
                nonlocal is_inside
                is_inside = True
                try:
                    return forward(*args, **kwargs)
                finally:
                    is_inside = False

            return inside

        for module in modules:
            module.forward = entered(module.forward)
        self.patches.append((owner, name, replacement))

    def break_part(
        self, role: str, owner: Any, name: str, wrong: Callable[..., Any]
    ) -> Truth:
        """Does the same for the part of a role, and returns the right places."""
        self.break_kernel(self.part(role), owner, name, wrong)
        return self._broken(role)

    def break_parts(
        self, role: str, owner: Any, name: str, wrong: Callable[..., Any]
    ) -> Truth:
        """Does the same in all layers. The right places are those of the first one."""
        self._break_kernels(self.parts(role), owner, name, wrong)
        self.layer = 0
        return self._broken(role)

    def _broken(self, role: str) -> Truth:
        if role == "attention":
            return self.attention_weights()
        return [Place(self.path(role))]

    @contextlib.contextmanager
    def patched(self) -> Iterator[None]:
        """Replaces the functions. Must be entered before functions are recorded."""
        with contextlib.ExitStack() as stack:
            for owner, name, replacement in self.patches:
                stack.callback(_restorer(owner, name))
                setattr(owner, name, replacement)
            yield


def _restorer(owner: Any, name: str) -> Callable[[], None]:
    if name in vars(owner):
        plain = vars(owner)[name]
        return lambda: setattr(owner, name, plain)
    # The attribute of a base class.
    return lambda: delattr(owner, name)


Plant = Callable[[Plot], Truth]


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A mistake, and what is right to say about it."""

    name: str
    half: str
    family: str
    subjects: tuple[str, ...]
    # Kinds of explanations, or of causes, that name the mistake.
    kinds: frozenset[str]
    plant: Plant
    # Changes both runs before they are converted to their precision.
    prepare: Callable[[Setup], object] | None = None
    # The pattern of the function that returns what its call does not state. Empty
    # if all functions are correct, and the code calls them in a wrong way.
    kernel: str = ""
    # A regular expression for the notes of a cause that name the mistake, such as an
    # argument that differs. Empty if no note names it.
    note: str = ""
    # Patterns of other ops that are right, wherever they are called.
    also: tuple[str, ...] = ()
    # Whether the mistake is in the arguments that the model receives.
    is_in_the_caller: bool = False
    # Whether the mistake makes a NaN or an infinity.
    is_infinite: bool = False
    precisions: tuple[str, ...] = PRECISIONS

    @property
    def shows_by_itself(self) -> bool:
        """Whether a run has the mistake on record without a golden run."""
        return bool(self.kernel) or self.is_infinite


MISTAKES: dict[str, Mistake] = {}


def _add(mistake: Mistake) -> None:
    assert mistake.name not in MISTAKES, mistake.name
    assert mistake.family in FAMILIES, mistake.family
    assert mistake.half in HALVES, mistake.half
    MISTAKES[mistake.name] = mistake


def seed(
    half: str,
    family: str,
    subjects: tuple[str, ...],
    kinds: tuple[str, ...] = (),
    **options: Any,
) -> Callable[[Plant], Plant]:
    """Registers a mistake under the name of its function."""

    def register(plant: Plant) -> Plant:
        _add(
            Mistake(
                plant.__name__,
                half,
                family,
                subjects,
                frozenset(kinds),
                plant,
                **options,
            )
        )
        return plant

    return register


def seed_judged(
    family: str,
    name: str,
    subjects: tuple[str, ...],
    note: str = "",
    more: tuple[str, ...] = (),
) -> None:
    """Registers a fault of tests/judge in the calibration half.

    `more` has kinds that are right because functions are recorded, too.
    """
    kinds = frozenset(KINDS.get(name, set())) | set(more)
    plant = FAULTS[name][1]
    _add(Mistake(name, "calibration", family, subjects, kinds, plant, note=note))
