"""Makes TorchAir dump the tensors of a graph, with the same functions as msit.

The dumps are written to where `msit llm compare` and `msitctl run import`
search for them. TorchAir reads a configuration only once, when it compiles.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchair import CompilerConfig

_MODES = ("input", "output", "all")
# A token, or the first and the last token of a range.
_STEP = re.compile(r"[0-9]+(-[0-9]+)?")
# CANN accepts no other names of layers; spaces separate them.
_LAYER = re.compile(r'[A-Za-z0-9_"/\\.]+')


def get_ge_dump_config(
    dump_path: str | os.PathLike[str] = "",
    dump_mode: str = "all",
    fusion_switch_file: str | os.PathLike[str] | None = None,
    dump_token: Iterable[int | str] | None = None,
    dump_layer: Sequence[str] | None = None,
    compiler_config: CompilerConfig | None = None,
) -> CompilerConfig:
    """Makes GE dump the inputs and outputs of its ops into `dump_path`/msit_ge_dump.

    The graphs are written there as text, which a comparison with FX needs.

    Args:
        dump_path: A folder, which is created if it does not exist. Default: the
            current folder.
        dump_mode: "input", "output" or "all".
        fusion_switch_file: A JSON file that switches the fusion of ops on and
            off.
        dump_token: The tokens to dump, such as `[1, 2, "5-7"]`. Default: all.
        dump_layer: The ops to dump, such as `["Add", "Conv_1"]`. Default: all.
        compiler_config: A configuration to extend. Default: a new one.

    Returns:
        The configuration, for `torchair.get_npu_backend`.

    Raises:
        ImportError: TorchAir is not installed.
        TypeError: `compiler_config` is not a CompilerConfig, or a list is a
            str.
        ValueError: GE does not accept a mode, a token or a layer.
        OSError: The folder cannot be created or used, or the file cannot be
            read.
    """
    config = _config_of(compiler_config)
    if dump_mode not in _MODES:
        raise ValueError(f"dump_mode is {dump_mode!r}, not one of {', '.join(_MODES)}")
    # Checks everything before the first change.
    steps = None if dump_token is None else _joined("dump_token", dump_token, _STEP)
    layers = None if dump_layer is None else _joined("dump_layer", dump_layer, _LAYER)
    switches = None if fusion_switch_file is None else _file(fusion_switch_file)
    folder = _folder(dump_path, "msit_ge_dump")
    graph_dump = config.debug.graph_dump
    graph_dump.type = "txt"
    # TorchAir has renamed the attribute.
    setattr(graph_dump, "_path" if hasattr(graph_dump, "_path") else "path", folder)
    if switches is not None:
        config.fusion_config.fusion_switch_file = switches
    dump = config.dump_config
    dump.enable_dump = True
    dump.dump_mode = dump_mode
    dump.dump_path = folder
    if steps:
        dump.dump_step = "|".join(steps)
    if layers:
        dump.dump_layer = " ".join(layers)
    return config


def get_fx_dump_config(
    dump_path: str | os.PathLike[str] = "",
    compiler_config: CompilerConfig | None = None,
) -> CompilerConfig:
    """Makes TorchAir run the FX graph op by op and dump the inputs and outputs
    of each op.

    The files are written to `dump_path`/msit_fx_dump. A TorchAir from before
    May 2025, which takes no path, writes them to `data_dump` in the current
    folder; a warning reports this.

    Args:
        dump_path: A folder, which is created if it does not exist. Default: the
            current folder.
        compiler_config: A configuration to extend. Default: a new one.

    Returns:
        The configuration, for `torchair.get_npu_backend`.

    Raises:
        ImportError: TorchAir is not installed.
        TypeError: `compiler_config` is not a CompilerConfig.
        OSError: The folder cannot be created or used.
    """
    config = _config_of(compiler_config)
    data_dump = config.debug.data_dump
    if hasattr(data_dump, "path"):
        folder = _folder(dump_path, "msit_fx_dump")
        data_dump.type = "npy"
        data_dump.path = folder
        return config
    data_dump.type = "npy"
    if os.fspath(dump_path) != "":
        warnings.warn(
            "this TorchAir takes no path for dumps of FX: they will lie in "
            f"{os.path.abspath('data_dump')}",
            stacklevel=2,
        )
    return config


def _config_of(given: CompilerConfig | None) -> CompilerConfig:
    try:
        from torchair import CompilerConfig
    except ImportError as error:
        raise ImportError(
            f"TorchAir cannot be imported, which comes with torch_npu: {error}"
        ) from error
    if given is None:
        return CompilerConfig()
    if not isinstance(given, CompilerConfig):
        raise TypeError(
            f"compiler_config is of class {type(given).__name__}, not a CompilerConfig"
        )
    return given


def _joined(name: str, given: Iterable[object], form: re.Pattern[str]) -> list[str]:
    if isinstance(given, (str, bytes)):
        raise TypeError(f"{name} is a text, not a list")
    texts = [_text(value) for value in given]
    for text in texts:
        if not form.fullmatch(text):
            raise ValueError(f"{name} has {text!r}, which GE does not take")
    return texts


def _text(value: object) -> str:
    # `True` would become a name.
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(f"{value!r} is neither a number nor a text")
    return str(value)


def _file(path: str | os.PathLike[str]) -> str:
    """Returns the real path of a readable file."""
    with open(path, "rb"):
        return os.path.realpath(path)


def _folder(parent: str | os.PathLike[str], name: str) -> str:
    """Creates a folder that can be read and written, and returns its real path."""
    folder = os.path.realpath(os.path.join(parent or ".", name))
    os.makedirs(folder, mode=0o750, exist_ok=True)
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} cannot be read and written")
    if os.listdir(folder):
        warnings.warn(
            f"{folder} is not empty: dumps of several runs would mix", stacklevel=3
        )
    return folder
