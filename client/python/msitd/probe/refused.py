"""Features of msprobe that msitd does not support, and their alternatives.

The tables follow msprobe 26.2.0. A key that this release does not read has no
effect there, so a file that has one is not wrong: such a key is accepted, and
noted once in each process. A key or a task that the release does read, and that
msitd does not support, is refused with an alternative, because a dump without
it would not be the dump that the file requests.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, NamedTuple

_logger = logging.getLogger("msitd")

REFUSED_TASKS = {
    "nan_check": "use the task overflow_check, or dump statistics and ask `msitctl "
    "tensor find --where 'nan_count > 0 or inf_count > 0'`",
    "diff_check": "dump tensors, and follow them with `msitctl compare run --follow`",
    "acc_check": "dump tensors, and compare the run with one that was made on a CPU",
    "run_ut": "dump tensors, and compare the run with one that was made on a CPU",
    "free_benchmark": "compare the run with one that was made with other kernels",
    "grad_probe": "dump level L0, and look at the gradients of parameters "
    "(grad_weight) with `msitctl tensor stats`",
    "exception_dump": "records of a program that ended are in the run anyway",
}

REFUSED_LEVELS = {
    "L2": "it needs the kernels of an NPU; `libmsit_acl.so` brings their dumps into a "
    "run",
}


class RefusedKey(NamedTuple):
    """A key that has an effect in msprobe, and is not supported."""

    # The tasks whose blocks may have it; in other blocks it has no effect.
    tasks: frozenset[str]
    alternative: str


REFUSED_KEYS = {
    "bench_path": RefusedKey(
        frozenset({"tensor"}), "compare the runs with `msitctl compare run --follow`"
    ),
}

_ONLINE = "tensors go to a daemon anyway: set MSITD_ENDPOINT"
_CARD = "it belonged to level L2, which needs the kernels of an NPU"

# Keys of earlier releases that have no effect in msprobe 26.2.0, and their
# alternatives.
INERT_KEYS = {
    "acl_config": _CARD,
    "backward_input": _CARD,
    "check_mode": "the task overflow_check finds NaN and infinities in any mode",
    "file_format": "files are .pt, and `msitctl run export --format npy` writes others",
    "host": _ONLINE,
    "nfs_path": _ONLINE,
    "online_run_ut": _ONLINE,
    "port": _ONLINE,
    "tls_path": f"{_ONLINE} and MSITD_CA_FILE",
}

# Values that request what happens anyway.
_DEFAULTS = (
    ("file_format", "pt"),
    ("check_mode", "all"),
    ("data_mode", ["all"]),
    ("summary_mode", "statistics"),
    ("overflow_nums", 1),
)

# Keys of blocks that have an effect in the blocks of some tasks only. In other
# blocks msprobe does not even check their values.
TASKS_OF_KEYS = {
    "data_mode": frozenset({"statistics", "tensor", "overflow_check"}),
    "overflow_nums": frozenset({"overflow_check"}),
    "slice": frozenset({"statistics", "tensor", "overflow_check"}),
    "summary_mode": frozenset({"statistics", "tensor", "overflow_check"}),
    "tensor_list": frozenset({"statistics"}),
}

_noted: set[str] = set()
_lock = threading.Lock()


def note_once(text: str) -> None:
    """Logs that a part of a configuration has no effect, once in each process."""
    with _lock:
        is_new = text not in _noted
        _noted.add(text)
    if is_new:
        _logger.warning("%s", text)


def is_default(key: str, value: Any) -> bool:
    """Returns whether a value requests what happens without the key, too."""
    return value in (None, False, "", []) or (key, value) in _DEFAULTS


def is_foreign(key: str, value: Any, task: str, prefix: str) -> bool:
    """Handles a key of msprobe that msitd does not support.

    Args:
        task: The task whose block contains the key.
        prefix: Precedes the key in messages, such as `tensor.`.

    Returns:
        Whether it is such a key.

    Raises:
        ValueError: The key has an effect in msprobe. The text names the
            alternative.
    """
    if key not in INERT_KEYS and key not in REFUSED_KEYS:
        return False
    if is_default(key, value):
        return True
    if key in INERT_KEYS:
        note_once(f"{prefix}{key} has no effect, as in msprobe: {INERT_KEYS[key]}")
        return True
    tasks, alternative = REFUSED_KEYS[key]
    if prefix and task in tasks:
        raise ValueError(f"{prefix}{key} is not done here: {alternative}")
    note_once(f"{prefix}{key} has no effect for the task {task}: {alternative}")
    return True
