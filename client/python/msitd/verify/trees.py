"""Walks and changes the arguments of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from msitd.verify.arguments import Arguments
from msitd.verify.unchecked import Unchecked

if TYPE_CHECKING:
    import torch


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple):
        for position, each in enumerate(value):
            yield from _walk(each, f"{path}.{position}")
    else:
        yield path, value


def leaves_of(arguments: Arguments) -> Iterator[tuple[str, Any]]:
    """Yields all leaves with their indexes."""
    for position, value in enumerate(arguments.args):
        yield from _walk(value, str(position))
    for name, value in arguments.kwargs.items():
        yield from _walk(value, name)


def tensors_of(arguments: Arguments) -> list[torch.Tensor]:
    """Returns the tensors in the arguments."""
    import torch

    return [each for _, each in leaves_of(arguments) if isinstance(each, torch.Tensor)]


def numbers_of(arguments: Arguments) -> list[int]:
    """Returns the integers in the arguments."""
    return [each for _, each in leaves_of(arguments) if type(each) is int]


def has_floats(arguments: Arguments) -> bool:
    """Returns whether an argument is a float that is not a tensor."""
    return any(type(each) is float for _, each in leaves_of(arguments))


def _mapped(value: Any, path: str, change: Callable[[str, Any], Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(
            _mapped(each, f"{path}.{position}", change)
            for position, each in enumerate(value)
        )
    return change(path, value)


def mapped(arguments: Arguments, change: Callable[[str, Any], Any]) -> Arguments:
    """Returns the arguments with each leaf replaced."""
    return Arguments(
        tuple(_mapped(v, str(i), change) for i, v in enumerate(arguments.args)),
        {name: _mapped(v, name, change) for name, v in arguments.kwargs.items()},
    )


def replaced(
    arguments: Arguments, change: Callable[[str, torch.Tensor], torch.Tensor]
) -> Arguments:
    """Returns the arguments with each tensor replaced."""
    import torch

    def of(path: str, value: Any) -> Any:
        return change(path, value) if isinstance(value, torch.Tensor) else value

    return mapped(arguments, of)


def picked(arguments: Arguments, position: int) -> Arguments:
    """Returns the arguments with only one element of each list.

    Raises:
        IndexError: A list is shorter.
    """

    def of(value: Any) -> Any:
        return (value[position],) if isinstance(value, tuple) else value

    return Arguments(
        tuple(map(of, arguments.args)),
        {name: of(value) for name, value in arguments.kwargs.items()},
    )


def named(given: Arguments, names: str) -> dict[str, Any]:
    """Returns the arguments by name."""
    order = names.split()
    if len(given.args) > len(order):
        raise Unchecked("it has too many arguments")
    out = dict(zip(order, given.args, strict=False))
    out.update(given.kwargs)
    return out


def wide_of(dtype: torch.dtype) -> torch.dtype:
    """Returns the dtype in which a tensor of `dtype` is computed with."""
    import torch

    if dtype.is_floating_point:
        return torch.float64
    return torch.complex128 if dtype.is_complex else dtype


def widened(arguments: Arguments) -> Arguments:
    """Returns the arguments in float64, also where they name a dtype."""
    import torch

    def of(_: str, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(wide_of(value.dtype))
        return wide_of(value) if isinstance(value, torch.dtype) else value

    return mapped(arguments, of)


def is_real(value: Any) -> bool:
    """Returns whether a tensor has elements that are rounded."""
    return bool(value.dtype.is_floating_point or value.dtype.is_complex)


class Disturbance:
    """Moves each element of a tensor by a part `step` of it, up or down at random, and
    rounds single numbers to `number_dtype`.
    """

    def __init__(
        self,
        step: float,
        generator: torch.Generator,
        tensors: bool,
        number_dtype: torch.dtype | None,
    ) -> None:
        self._step = step
        self._generator = generator
        self._tensors = tensors
        self._number_dtype = number_dtype
        # Dimensions of matrices whose elements are moved by the rounding of the norm
        # of all of them.
        self.shared: tuple[int, ...] = ()
        # The factor by which the changes of results are multiplied later.
        self.growth = 1.0

    def of(self, arguments: Arguments) -> Arguments:
        """Returns disturbed arguments."""
        return mapped(arguments, self._leaf)

    def _leaf(self, _: str, value: Any) -> Any:
        import torch

        if isinstance(value, torch.Tensor):
            return self.tensor(value) if self._tensors else value
        if type(value) is float and self._number_dtype is not None:
            wide = torch.tensor(value, dtype=torch.float64)
            return float(wide.to(self._number_dtype))
        return value

    def tensor(self, value: torch.Tensor) -> torch.Tensor:
        """Returns a disturbed tensor. Integers stay as they are."""
        import torch

        if not (value.dtype.is_floating_point or value.dtype.is_complex):
            return value
        moves = self._step * self._signs(value.shape)
        if self.shared and value.dim() >= 2:
            norms = torch.linalg.vector_norm(value, dim=self.shared, keepdim=True)
            return value + norms * moves
        return value * (1 + moves)

    def rounding(self, size: torch.Tensor, most: float) -> torch.Tensor:
        """Returns one rounding of numbers of a size, up or down at random, which does not
        grow with the changes of results.

        Args:
            size: Their absolute values.
            most: The step, if that of the disturbance is larger.
        """
        step = min(self._step, most) / self.growth
        return size * (step * self._signs(size.shape))

    def _signs(self, shape: torch.Size) -> torch.Tensor:
        import torch

        signs = torch.randint(0, 2, shape, generator=self._generator, dtype=torch.int8)
        return 2.0 * signs.to(torch.float64) - 1
