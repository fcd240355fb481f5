"""The configuration of `register_hook`, with checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msitd.llm.seeding import seed_all

if TYPE_CHECKING:
    import torch

MODES = ("module", "api")
# Inputs, outputs, both.
_TENSOR_PARTS = (0, 1, 2)
# Tensors, statistics, both.
_STATISTICS_MODES = (0, 1, 2)


class DumpConfig:
    """The contents and the location of a dump by `register_hook`.

    Args:
        dump_path: The folder in which `msit_dump_<time>` is created. It is
            created if it does not exist. Default: the current folder.
        token_range: Numbers of the forwards of the model to dump, counted from
            0. Default, and for an empty list: the first one.
        analyze: Whether to write the extremes, variance and mean of each tensor
            to `tensor_analyze.csv`. An integer here is a `seed`: msit's
            documentation has the seed as the third parameter, its code has this
            one.
        module_list: Classes of the modules to dump. Default: all.
        api_list: Functions to dump, such as `torch.matmul`. Default: all.
            Requires the mode "api".
        tensor_part: 0 dumps inputs, 1 outputs, 2 both.
        device_id: Nothing is dumped if the model is on an accelerator with
            another number. Default: any.
        dump_statistics_mode: 0 dumps tensors, 1 a `statistics.csv` for each
            module or function, 2 both.
        dump_last_logits: Whether to dump, of the modules, only the results of
            the last module that returned a tensor.
        mode: "module", "api", or a list of both.
        dump_weight: Whether to dump the parameters of the model once.
        layer_name: A pattern that must match the whole name of a dumped item,
            such as `root.model.layers.1.*`, where `*` matches any text.
        seed: Makes computations deterministic at once; see `seed_all`.

    Raises:
        ValueError: msit does not accept a parameter, or would accept it and
            dump nothing.
    """

    def __init__(
        self,
        dump_path: str | os.PathLike[str] | None = "./",
        token_range: list[int] | None = None,
        analyze: bool | int = False,
        module_list: list[type[torch.nn.Module]] | None = None,
        api_list: list[Callable[..., Any]] | None = None,
        tensor_part: int = 2,
        device_id: int | None = None,
        dump_statistics_mode: int = 0,
        dump_last_logits: bool = False,
        mode: str | Sequence[str] = "module",
        dump_weight: bool = False,
        layer_name: str | None = None,
        seed: int | None = None,
    ) -> None:
        if _is_whole(analyze):
            if seed is not None:
                raise ValueError(
                    f"analyze is {analyze!r}, which is a seed, and so is seed, {seed!r}"
                )
            analyze, seed = False, int(analyze)
        self.dump_path = _path(dump_path)
        self.token_range = _tokens(token_range)
        self.analyze = _flag("analyze", analyze)
        self.module_list = _list("module_list", module_list, _is_module_class)
        self.api_list = _list("api_list", api_list, callable)
        self.tensor_part = _choice("tensor_part", tensor_part, _TENSOR_PARTS)
        self.device_id = _number("device_id", device_id)
        self.dump_statistics_mode = _choice(
            "dump_statistics_mode", dump_statistics_mode, _STATISTICS_MODES
        )
        self.dump_last_logits = _flag("dump_last_logits", dump_last_logits)
        self.mode = _modes(mode)
        self.dump_weight = _flag("dump_weight", dump_weight)
        if layer_name is not None and not isinstance(layer_name, str):
            raise ValueError(f"layer_name is {layer_name!r}, and no str")
        self.layer_name = layer_name
        self.seed = _number("seed", seed)
        if self.api_list and "api" not in self.mode:
            raise ValueError('api_list needs mode="api", or ["module", "api"]')
        if self.seed is not None:
            seed_all(self.seed)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_module_class(value: Any) -> bool:
    # torch is installed, since there is such a class.
    import torch

    return isinstance(value, type) and issubclass(value, torch.nn.Module)


def _path(value: Any) -> str:
    if value is None:
        return "./"
    if not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"dump_path is {value!r}, and no str")  # noqa: TRY004 - as msit
    path = os.fspath(value)
    if not isinstance(path, str) or "\0" in path:
        raise ValueError(f"dump_path is {path!r}, and no str of a path")
    return path or "./"


def _tokens(value: Any) -> tuple[int, ...]:
    tokens = _list("token_range", value, lambda each: _is_whole(each) and each >= 0)
    return tuple(sorted(set(tokens))) or (0,)


def _list(name: str, value: Any, is_right: Callable[[Any], bool]) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{name} is {value!r}, and no list")  # noqa: TRY004 - as msit
    for each in value:
        if not is_right(each):
            raise ValueError(f"{name} has {each!r}, which {_WRONG[name]}")
    return list(value)


_WRONG = {
    "token_range": "is no number of a token",
    "module_list": "is no class of torch.nn.Module",
    "api_list": "is no function",
}


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}, and no bool")  # noqa: TRY004 - as msit
    return value


def _choice(name: str, value: Any, choices: tuple[int, ...]) -> int:
    if not _is_whole(value) or value not in choices:
        raise ValueError(f"{name} is {value!r}, and none of {list(choices)}")
    return int(value)


def _number(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if not _is_whole(value) or value < 0:
        raise ValueError(f"{name} is {value!r}, and no int from 0 on")
    return int(value)


def _modes(value: Any) -> tuple[str, ...]:
    modes = [value] if isinstance(value, str) else value
    if not isinstance(modes, (list, tuple)):
        raise ValueError(f"mode is {value!r}, and neither a str nor a list")  # noqa: TRY004 - as msit
    wrong = [mode for mode in modes if mode not in MODES]
    if wrong or not modes:
        raise ValueError(f"mode is {value!r}, which is not made of {list(MODES)}")
    return tuple(mode for mode in MODES if mode in modes)
