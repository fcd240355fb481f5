"""Records where a program draws random numbers."""

from __future__ import annotations

import csv
import functools
import io
import logging
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from msitd._core.daemon.ranks import rank_of_group
from msitd._core.leaf.stacks import stack_of_caller
from msitd.probe.frames import frames_of

_logger = logging.getLogger("msitd")

# Functions of each module whose calls are recorded, as in msprobe 26.2.0.
_PYTHON = """
    betavariate choice choices expovariate gammavariate gauss getrandbits lognormvariate
    normalvariate paretovariate randbytes randint random randrange sample shuffle
    triangular uniform vonmisesvariate weibullvariate
"""
_NUMPY = """
    beta binomial bytes chisquare choice dirichlet exponential f gamma geometric gumbel
    hypergeometric laplace logistic lognormal logseries multinomial multivariate_normal
    negative_binomial noncentral_chisquare noncentral_f normal pareto permutation
    poisson power rand randint randn random random_integers random_sample ranf rayleigh
    sample shuffle standard_cauchy standard_exponential standard_gamma standard_normal
    standard_t triangular uniform vonmises wald weibull zipf
"""
_TORCH = """
    bernoulli multinomial normal poisson rand rand_like randint randint_like randn
    randn_like randperm
"""
_TENSOR = """
    bernoulli_ cauchy_ exponential_ geometric_ log_normal_ multinomial normal_ random_
    uniform_
"""


class _Saving:
    """Intercepts the calls of these functions until `remove`."""

    def __init__(self, folder: str) -> None:
        # torch is installed, since this module belongs to its interface.
        import torch

        os.makedirs(folder, 0o750, exist_ok=True)
        group = rank_of_group()
        self._time = time.strftime("%Y%m%d%H%M%S")
        self._folder = folder
        self._has_rank = group is not None
        self._path = self._path_of(f"rank{group[0]}" if group else f"proc{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o640)
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._originals: list[tuple[Any, str, Callable[..., Any]]] = []
        self._write(["api_name", "stack"])
        self._replace("python_random", random, _PYTHON)
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            self._replace("numpy_random", numpy.random, _NUMPY)
        self._replace("torch_random", torch, _TORCH)
        self._replace("tensor_random", torch.Tensor, _TENSOR)
        _logger.info("where random numbers are drawn is written to %s", self._path)

    def remove(self) -> None:
        """Restores the functions."""
        for owner, name, original in reversed(self._originals):
            setattr(owner, name, original)
        self._originals.clear()
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def _replace(self, place: str, owner: Any, names: str) -> None:
        for name in names.split():
            original = getattr(owner, name, None)
            if callable(original):
                self._originals.append((owner, name, original))
                setattr(owner, name, self._stand_in(f"{place}.{name}", original))

    def _stand_in(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            stack = stack_of_caller("full") or ""
            with self._lock:
                if self._file < 0:
                    return result
                try:
                    self._find_rank()
                    number = self._counts[name]
                    self._counts[name] += 1
                    frames = "".join(f"{frame} \n" for frame in frames_of(stack))
                    self._write([f"{name}.{number}", frames])
                except OSError as error:
                    _logger.error("%s ends here: %s", self._path, error)
                    os.close(self._file)
                    self._file = -1
            return result

        return call

    def _find_rank(self) -> None:
        """Renames the file by its rank, once there is a process group."""
        if self._has_rank:
            return
        group = rank_of_group()
        if group is not None:
            self._has_rank = True
            path = self._path_of(f"rank{group[0]}")
            os.rename(self._path, path)
            self._path = path

    def _path_of(self, who: str) -> str:
        return os.path.join(self._folder, f"random_{who}_{self._time}.csv")

    def _write(self, row: list[str]) -> None:
        text = io.StringIO()
        csv.writer(text).writerow(row)
        # In one write, because forked processes share the file.
        os.write(self._file, text.getvalue().encode(errors="replace"))


_saving: _Saving | None = None
_lock = threading.Lock()


def random_save(output_path: str = "./output") -> None:
    """Writes a line for each call that draws random numbers, with its stack.

    The file is `random_rank3_<time>.csv` in the folder, or
    `random_proc<pid>_<time>.csv` without a process group. It grows line by line
    while the program runs. Recorded are calls of functions of `random`,
    `numpy.random` and torch, through these modules. A second call has no
    effect.

    Raises:
        ValueError: `output_path` is not a text.
        OSError: The file cannot be created.
    """
    global _saving
    if not isinstance(output_path, str) or not output_path:
        raise ValueError(f"output_path is {output_path!r}, and no text")
    with _lock:
        if _saving is None:
            _saving = _Saving(output_path)


def random_save_end() -> None:
    """Stops the recording, and restores the functions."""
    global _saving
    with _lock:
        saving, _saving = _saving, None
    if saving is not None:
        saving.remove()
