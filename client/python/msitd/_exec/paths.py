"""Redirects the file paths of a program to folders that exist on this machine."""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable
from typing import Any

from msitd._core.daemon import msitctl
from msitd._exec.wrapping import with_mapped

# Functions of `os` whose first argument is a path, and those that take two
# paths.
_ONE = (
    "access",
    "chdir",
    "chmod",
    "chown",
    "getxattr",
    "listdir",
    "listxattr",
    "lstat",
    "makedirs",
    "mkdir",
    "open",
    "readlink",
    "remove",
    "removexattr",
    "rmdir",
    "scandir",
    "setxattr",
    "stat",
    "statvfs",
    "truncate",
    "unlink",
    "utime",
)
_TWO = ("link", "rename", "replace", "symlink")

# Functions of safetensors that take a path, and the position of that argument.
_OF_SAFETENSORS = ((0, "safe_open"), (0, "_safe_open_handle"), (1, "serialize_file"))


class _Mapping:
    def __init__(self, pairs: tuple[tuple[str, str], ...]) -> None:
        # The longest matching prefix counts.
        self._pairs = sorted(
            ((old.rstrip("/") or "/", new.rstrip("/") or "/") for old, new in pairs),
            key=lambda pair: -len(pair[0]),
        )

    def __call__(self, path: Any) -> Any:
        """Returns the mapped path.

        Values that are not text paths are returned unchanged.
        """
        if isinstance(path, os.PathLike):
            path = os.fspath(path)
        if not isinstance(path, str):
            return path
        for old, new in self._pairs:
            if path == old or path.startswith(old + "/" if old != "/" else "/"):
                return new + path[len(old) :] if old != "/" else new + path
        return path


def install(pairs: tuple[tuple[str, str], ...]) -> None:
    """Maps the paths that Python functions receive.

    Paths of files that C libraries open themselves are not mapped.
    """
    if not pairs:
        return
    mapped = _Mapping(pairs)
    msitctl.mapped_paths.append(mapped)
    builtins.open = io.open = with_mapped(builtins.open, 0, "file", mapped)
    for name in _ONE:
        _replace(name, with_mapped(getattr(os, name), 0, "path", mapped))
    for name in _TWO:
        call = with_mapped(getattr(os, name), 0, "src", mapped)
        _replace(name, with_mapped(call, 1, "dst", mapped))


def _replace(name: str, call: Callable[..., Any]) -> None:
    function = getattr(os, name)
    # Sets in which os lists functions by their capabilities, as function
    # objects.
    for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if function in able:
            able.add(call)
    setattr(os, name, call)


def install_in_torch(pairs: tuple[tuple[str, str], ...]) -> None:
    """Maps the paths of `torch.save`, which opens files without Python."""
    if not pairs:
        return
    # Called once the program has imported torch.
    import torch

    torch.save = with_mapped(torch.save, 1, "f", _Mapping(pairs))


def install_in_safetensors(pairs: tuple[tuple[str, str], ...]) -> None:
    """Maps the files of weights that safetensors opens without Python."""
    # The program has imported safetensors.
    import safetensors

    mapped = _Mapping(pairs)
    for place, name in _OF_SAFETENSORS:
        function = getattr(safetensors, name, None)
        if function is not None:
            call = with_mapped(function, place, "filename", mapped)
            setattr(safetensors, name, call)


def install_in_tokenizers(pairs: tuple[tuple[str, str], ...]) -> None:
    """Maps the vocabulary files that tokenizers opens without Python."""
    # The program has imported tokenizers.
    import tokenizers

    kind = tokenizers.Tokenizer
    call = with_mapped(kind.from_file, 0, "path", _Mapping(pairs))
    kind.from_file = staticmethod(call)
