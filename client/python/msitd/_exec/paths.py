"""Has a program find files elsewhere: below a folder that is here."""

from __future__ import annotations

import builtins
import functools
import io
import os
from collections.abc import Callable
from typing import Any

# Functions of `os` whose first argument is a path, and those that take two.
_ONE = (
    "access",
    "chdir",
    "chmod",
    "listdir",
    "lstat",
    "makedirs",
    "mkdir",
    "open",
    "readlink",
    "remove",
    "rmdir",
    "scandir",
    "stat",
    "truncate",
    "unlink",
    "utime",
)
_TWO = ("link", "rename", "replace", "symlink")


class _Mapping:
    def __init__(self, pairs: tuple[tuple[str, str], ...]) -> None:
        # The longest one counts.
        self._pairs = sorted(
            ((old.rstrip("/") or "/", new.rstrip("/") or "/") for old, new in pairs),
            key=lambda pair: -len(pair[0]),
        )

    def __call__(self, path: Any) -> Any:
        """Returns where a path is; what is no path of a text stays."""
        if isinstance(path, os.PathLike):
            path = os.fspath(path)
        if not isinstance(path, str):
            return path
        for old, new in self._pairs:
            if path == old or path.startswith(old + "/" if old != "/" else "/"):
                return new + path[len(old) :] if old != "/" else new + path
        return path


def install(pairs: tuple[tuple[str, str], ...]) -> None:
    """Maps paths that functions of Python are given.

    Those that libraries of C open themselves are not.
    """
    if not pairs:
        return
    mapped = _Mapping(pairs)
    builtins.open = io.open = _first(builtins.open, mapped)
    for name in _ONE:
        setattr(os, name, _first(getattr(os, name), mapped))
    for name in _TWO:
        setattr(os, name, _both(getattr(os, name), mapped))


def install_in_torch(pairs: tuple[tuple[str, str], ...]) -> None:
    """Maps what `torch.save` is given, which opens files without Python."""
    if not pairs:
        return
    # It is called once the program has it.
    import torch

    mapped = _Mapping(pairs)
    save: Callable[..., Any] = torch.save

    @functools.wraps(save)
    def mapped_save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        save(obj, mapped(f), *args, **kwargs)

    torch.save = mapped_save


def _first(function: Callable[..., Any], mapped: _Mapping) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if args:
            args = (mapped(args[0]), *args[1:])
        for name in ("file", "path"):
            if name in kwargs:
                kwargs[name] = mapped(kwargs[name])
        return function(*args, **kwargs)

    return call


def _both(function: Callable[..., Any], mapped: _Mapping) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        args = (*(mapped(path) for path in args[:2]), *args[2:])
        for name in ("src", "dst"):
            if name in kwargs:
                kwargs[name] = mapped(kwargs[name])
        return function(*args, **kwargs)

    return call
