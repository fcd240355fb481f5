"""Runs one case after the other under one tool, each in a process of its own.

usage: side_by_side.py {msitd,msprobe} FOLDER CASE...

CASE is `NAME:LEVEL:TASK[:SUMMARY]`, such as `conv:mix:tensor` or `conv:L0:statistics:md5`.
The dump of a case is `FOLDER/NAME:LEVEL:TASK[:SUMMARY]`. A case that raises an exception
leaves the file `error.txt` there.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from cases import CASES


class Steps:
    """Runs steps as the documentation of msprobe describes."""

    def __init__(self, debugger: Any, level: str) -> None:
        self.debugger = debugger
        self.level = level

    def __call__(self, model: Any = None, count: int = 1) -> Iterator[int]:
        """Yields the number of each step, which is dumped."""
        for step in range(count):
            if self.level == "L1":
                self.debugger.start()
            else:
                self.debugger.start(model)
            yield step
            self.debugger.stop()
            self.debugger.step()


def main() -> None:
    """Forks for each case, because a debugger of msprobe cannot be replaced."""
    tool, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    if tool == "msprobe":
        from msprobe.pytorch import PrecisionDebugger
    else:
        from msitd.probe import PrecisionDebugger
    for name in sys.argv[3:]:
        place = folder / name
        place.mkdir(parents=True)
        child = os.fork()
        if child == 0:
            faulthandler.enable()
            try:
                _run(PrecisionDebugger, name, place, tool)
            except BaseException:  # noqa: BLE001 - reported by the parent's caller
                (place / "error.txt").write_text(traceback.format_exc())
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        os.waitpid(child, 0)


def _run(kind: Any, name: str, place: Path, tool: str) -> None:
    case, level, task, *rest = name.split(":")
    block: dict[str, Any] = {"data_mode": ["all"]}
    if rest:
        block["summary_mode"] = rest[0]
    settings = {"task": task, "level": level, "dump_path": str(place), task: block}
    config = place / "config.json"
    config.write_text(json.dumps(settings))
    torch.manual_seed(0)
    debugger = kind(config_path=str(config))
    CASES[case](Steps(debugger, level))
    if tool == "msitd":
        debugger.close()


main()
