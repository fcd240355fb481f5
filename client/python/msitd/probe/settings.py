"""The settings of `PrecisionDebugger` from config.json and arguments, with checks."""

from __future__ import annotations

import functools
import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msitd.probe.functions_file import FunctionsFile, functions_file
from msitd.probe.refused import (
    REFUSED_LEVELS,
    REFUSED_TASKS,
    TASKS_OF_KEYS,
    is_default,
    is_foreign,
    note_once,
)

_logger = logging.getLogger("msitd")

_TASKS = ("statistics", "tensor", "structure", "overflow_check")
_LEVELS = ("L0", "L1", "mix", "debug")
_SIDES = ("forward", "backward", "input", "output")
_SUMMARY_MODES = ("statistics", "md5", "xor")
_RISK_LEVELS = ("ALL", "FOCUS", "CORE")
_PRECISIONS = ("low", "high")
_NUMBER_MAX = 1_000_000
_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")
# Forms of the names of functions and of modules.
_FUNCTION_ENTRY = re.compile(r"\w[^.]*\..+\.\d+\.(forward|backward)")
_MODULE_ENTRY = re.compile(r"(Module|Cell)\..+\.(forward|backward)\.\d+")

# Keys that are accepted and ignored: records never wait for a disk, and the
# last one configures how a daemon of msprobe buffers.
_IDLE_KEYS = ("async_dump", "custom_op_namespaces", "buffer_size", "framework")

_COMMON_KEYS = (
    "task",
    "dump_path",
    "rank",
    "step",
    "level",
    "dump_enable",
    "extra_info",
    "precision",
    "risk_level",
    "seed",
    "is_deterministic",
    "enable_dataloader",
    "load",
    "support_wrap_ops",
)
_LOAD_KEYS = (
    "path",
    "modules",
    "step",
    "rank",
    "dump_after_load",
    "keep_gradients",
)
_TASK_KEYS = (
    "scope",
    "list",
    "data_mode",
    "summary_mode",
    "tensor_list",
    "slice",
    "request_id",
    "overflow_nums",
)
# The file may have a block for each of these, also for another task.
_BLOCKS = (*_TASKS, *REFUSED_TASKS)


@dataclass(frozen=True)
class Slice:
    """Records a part of the tensors whose dimension `dim` has `size` elements."""

    dim: int
    size: int
    begin: int
    end: int


@dataclass(frozen=True)
class Load:
    """Modules whose inputs are replaced by those of a dump."""

    # Folder that contains `step0` and others.
    path: str
    # Names of forward entries.
    modules: frozenset[str]
    # Steps to load; empty for all.
    steps: tuple[int, ...]
    ranks: tuple[int, ...]
    # Whether such steps are dumped.
    dumps: bool
    # Whether gradients flow to the original input.
    keeps_gradients: bool


@dataclass(frozen=True)
class Settings:
    """The content and the folder of a dump."""

    task: str = "statistics"
    dump_path: str = ""
    level: str = "L1"
    # Ranks to dump; empty for all.
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    # From the first name to the second one; empty for all.
    scope: tuple[str, ...] = ()
    # Parts of names; empty for all.
    names: tuple[str, ...] = ()
    # Parts of names whose tensors are also kept.
    tensor_names: tuple[str, ...] = ()
    data_mode: tuple[str, ...] = _SIDES
    summary_mode: str = "statistics"
    risk_level: str = "FOCUS"
    slices: tuple[Slice, ...] = ()
    request_id: str | None = None
    # Number of calls with NaN or infinities to dump; -1 for all.
    overflow_max: int = 1
    load: Load | None = None
    # A user's list of torch functions; None if there is none.
    functions: FunctionsFile | None = None
    # Whether mean and norm are written: with high precision, they are not.
    has_norms: bool = True
    # Whether the stacks of calls, and the calling modules, are written.
    has_extra_info: bool = True
    # None if the file does not state it; the file is then not read again.
    is_enabled: bool | None = None
    seed: int | None = None
    is_deterministic: bool = False
    steps_by_loader: bool = False

    @property
    def has_modules(self) -> bool:
        """Whether modules are dumped."""
        return self.level in ("L0", "mix")

    @property
    def has_functions(self) -> bool:
        """Whether functions are dumped."""
        return self.level in ("L1", "mix")


def read_settings(config_path: str | None, arguments: Mapping[str, Any]) -> Settings:
    """Returns the settings of a configuration file, overridden by arguments.

    Args:
        config_path: A file in the format of msprobe's config.json. None: as if
            it were empty.
        arguments: `task`, `dump_path`, `level` and `step`. None keeps the value
            of the file.

    Raises:
        ValueError: A setting is invalid, or requests something that msitd does
            not support. The text then names the alternative.
        OSError: The file cannot be read.
    """
    config: dict[str, Any] = {}
    if config_path is not None:
        try:
            with open(config_path, encoding="utf-8") as file:
                config = json.load(file)
        except ValueError as error:
            raise ValueError(f"{config_path} is no JSON: {error}") from None
        if not isinstance(config, dict):
            raise ValueError(f"{config_path} holds no object")
    given = {name: value for name, value in arguments.items() if value is not None}
    return _settings_of({**config, **given})


def _settings_of(config: dict[str, Any]) -> Settings:
    # As in msprobe, an empty value is the default.
    task = config.get("task") or "statistics"
    if isinstance(task, str) and task in REFUSED_TASKS:
        raise ValueError(f"task {task!r} is not done here: {REFUSED_TASKS[task]}")
    _choice("task", task, _TASKS)
    block = config.get(task) or {}
    if not isinstance(block, dict):
        raise ValueError(f"{task} is {block!r}, and no object")  # noqa: TRY004 - as msprobe
    _look_for_others(config, (*_COMMON_KEYS, *_IDLE_KEYS, *_BLOCKS), task, "")
    _look_for_others(block, _TASK_KEYS, task, f"{task}.")
    block = _effective(block, task)
    precision = _choice("precision", config.get("precision") or "low", _PRECISIONS)
    level = _choice("level", config.get("level") or "L1", (*_LEVELS, *REFUSED_LEVELS))
    if level in REFUSED_LEVELS and task != "structure":
        raise ValueError(f"level {level!r} is not done here: {REFUSED_LEVELS[level]}")
    if task == "structure" and level not in ("L0", "mix"):
        if level in ("L1", "L2"):
            _logger.warning("a structure is one of modules: level is 'mix'")
        level = "mix"
    load = _load(config)
    if load is not None and not load.dumps:
        config = {"dump_path": load.path, **config}
    scope = _scope(block.get("scope") or [], level)
    risk_level = config.get("risk_level", "FOCUS") or "ALL"
    return Settings(
        task=task,
        dump_path=_path(config.get("dump_path")),
        level=level,
        ranks=numbers("rank", config.get("rank") or []),
        steps=numbers("step", config.get("step") or []),
        scope=scope,
        names=_texts("list", block.get("list") or []),
        tensor_names=_texts("tensor_list", block.get("tensor_list") or []),
        data_mode=_data_mode(block.get("data_mode") or ["all"]),
        summary_mode=_choice(
            "summary_mode", block.get("summary_mode") or "statistics", _SUMMARY_MODES
        ),
        risk_level=_choice("risk_level", risk_level, _RISK_LEVELS),
        slices=_slices(block.get("slice") or []),
        request_id=_text("request_id", block.get("request_id")),
        overflow_max=_overflow_max(block.get("overflow_nums", 1)),
        load=load,
        functions=_functions(config.get("support_wrap_ops")),
        has_norms=precision == "low",
        has_extra_info=_flag("extra_info", config.get("extra_info", True)),
        is_enabled=(
            _flag("dump_enable", config["dump_enable"])
            if config.get("dump_enable") is not None
            else None
        ),
        seed=_former(config, "seed", _seed, None),
        is_deterministic=_former_flag(config, "is_deterministic"),
        steps_by_loader=_former_flag(config, "enable_dataloader"),
    )


def _former_flag(config: Mapping[str, Any], name: str) -> bool:
    return bool(_former(config, name, functools.partial(_flag, name), False))


def _load(config: Mapping[str, Any]) -> Load | None:
    if "load" not in config:
        return None
    said = config["load"]
    if not isinstance(said, dict):
        raise ValueError(f"load is {said!r}, and no object")  # noqa: TRY004 - as msprobe
    _look_for_others(said, _LOAD_KEYS, "", "load.")
    modules = _texts("load.modules", said.get("modules") or [])
    for name in modules:
        if not _MODULE_ENTRY.fullmatch(name) or ".backward." in name:
            raise ValueError(
                f"load.modules has {name!r}, and not a name such as "
                "Module.fc.Linear.forward.0"
            )
    if not modules or len(set(modules)) < len(modules):
        raise ValueError("load.modules has no names, or one of them twice")
    path = said.get("path")
    if not isinstance(path, str) or not os.path.isdir(path):
        raise ValueError(f"load.path is {path!r}, and no folder that is there")
    return Load(
        path=path,
        modules=frozenset(modules),
        steps=numbers("load.step", said.get("step") or []),
        ranks=numbers("load.rank", said.get("rank") or []),
        dumps=_flag("load.dump_after_load", said.get("dump_after_load", False)),
        keeps_gradients=_flag("load.keep_gradients", said.get("keep_gradients", False)),
    )


def _functions(value: Any) -> FunctionsFile | None:
    path = None if value is None else _path(value, "support_wrap_ops")
    return functions_file(path)


def _look_for_others(
    config: Mapping[str, Any], known: tuple[str, ...], task: str, prefix: str
) -> None:
    for key, value in config.items():
        if key not in known and not is_foreign(key, value, task, prefix):
            _logger.warning(
                "%s%s is no key that is known, and has no effect", prefix, key
            )


def _effective(block: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Returns the keys of a block that have an effect for the task."""
    found = {}
    for key, value in block.items():
        if task in TASKS_OF_KEYS.get(key, (task,)):
            found[key] = value
        elif not is_default(key, value):
            note_once(f"{task}.{key} has no effect for the task {task}")
    return found


def _former(
    config: Mapping[str, Any], name: str, read: Callable[[Any], Any], default: Any
) -> Any:
    """Returns the value of a key that only early releases of msprobe read.

    msprobe does not check the value, so an invalid one is noted and ignored.
    """
    try:
        return read(config.get(name, default))
    except ValueError as error:
        note_once(f"{error}: it has no effect")
        return default


def numbers(name: str, value: Any) -> tuple[int, ...]:
    """Returns the numbers in a list of numbers and ranges such as `"4-6"`, in order.

    Raises:
        ValueError: The value is not such a list.
    """
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{name} is {value!r}, and no list")  # noqa: TRY004 - as msprobe
    found: set[int] = set()
    for each in value:
        if isinstance(each, bool) or not isinstance(each, (int, str)):
            raise ValueError(f"{name} has {each!r}, which is no number")  # noqa: TRY004 - as msprobe
        match = _NUMBERS.fullmatch(str(each).strip())
        if match is None:
            raise ValueError(f"{name} has {each!r}, which is neither N nor 'N-M'")
        first = int(match[1])
        last = int(match[2] or first)
        if last > _NUMBER_MAX or first > last:
            raise ValueError(
                f"{name} has {each!r}, which is not in order, or above {_NUMBER_MAX}"
            )
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _scope(value: Any, level: str) -> tuple[str, ...]:
    scope = _texts("scope", value)
    if len(scope) not in (0, 2):
        raise ValueError(f"scope has {len(scope)} names, and not two")
    patterns = {"L0": (_MODULE_ENTRY,), "L1": (_FUNCTION_ENTRY,)}
    allowed = patterns.get(level, (_MODULE_ENTRY, _FUNCTION_ENTRY))
    for name in scope:
        is_module = name.startswith(("Module.", "Cell."))
        mine = _MODULE_ENTRY if is_module else _FUNCTION_ENTRY
        if mine not in allowed or not mine.fullmatch(name):
            raise ValueError(
                f"scope has {name!r}, which names nothing of level {level}: names "
                "are as in dump.json, Module.fc.Linear.forward.0 or "
                "Functional.linear.0.forward"
            )
    return scope


def _data_mode(value: Any) -> tuple[str, ...]:
    words = _texts("data_mode", value)
    if words == ("all",):
        return _SIDES
    for word in words:
        _choice("data_mode", word, _SIDES)
    directions = [word for word in words if word in _SIDES[:2]] or _SIDES[:2]
    sides = [word for word in words if word in _SIDES[2:]] or _SIDES[2:]
    return (*directions, *sides)


def _slices(value: Any) -> tuple[Slice, ...]:
    if not isinstance(value, list):
        raise ValueError(f"slice is {value!r}, and no list")  # noqa: TRY004 - as msprobe
    found = []
    for each in value:
        if not isinstance(each, dict) or "size" not in each:
            raise ValueError(f"slice has {each!r}, which is no object with a size")
        numbers = {"dim": 0, "begin": 0, "end": 0, **each}
        if set(numbers) != {"dim", "size", "begin", "end"} or any(
            isinstance(number, bool) or not isinstance(number, int)
            for number in numbers.values()
        ):
            raise ValueError(
                f"slice has {each!r}, and not whole numbers dim, size, begin, end"
            )
        if numbers["dim"] < 0:
            raise ValueError(f"slice has {each!r}, whose dim is negative")
        found.append(Slice(**numbers))
    return tuple(found)


def _path(value: Any, name: str = "dump_path") -> str:
    if value is None:
        raise ValueError(f"{name} is given neither by the file nor by an argument")
    if not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"{name} is {value!r}, and no str")  # noqa: TRY004 - as msprobe
    path = os.fspath(value)
    if not isinstance(path, str) or "\0" in path or not path:
        raise ValueError(f"{name} is {path!r}, and no path")
    return path


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{name} is {value!r}, and no list of texts")
    return tuple(value)


def _text(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}, and no text")
    return value or None


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}, and none of {list(choices)}")
    return str(value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}, and neither true nor false")  # noqa: TRY004 - as msprobe
    return value


def _overflow_max(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < -1 or not value:
        raise ValueError(f"overflow_nums is {value!r}, and neither -1 nor above 0")
    return value


def _seed(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"seed is {value!r}, and no whole number from 0 on")
    return value


def name_tests(names: tuple[str, ...]) -> Callable[[str], bool]:
    """Returns a function that tests whether one of `names` is part of a name.

    `name-regex(P)` is a regular expression that must match a part of the name.

    Raises:
        ValueError: An expression is invalid.
    """
    texts = []
    patterns = []
    for name in names:
        if name.startswith("name-regex(") and name.endswith(")"):
            try:
                patterns.append(re.compile(name[len("name-regex(") : -1]))
            except re.error as error:
                raise ValueError(f"list has {name!r}: {error}") from None
        else:
            texts.append(name)

    def has(name: str) -> bool:
        return any(text in name for text in texts) or any(
            pattern.search(name) for pattern in patterns
        )

    return has
