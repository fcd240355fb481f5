"""Measures a step of a model without and with unchanged msprobe, or with msitd.probe.

usage: msprobe_original.py LEVEL TASK ROUNDS TRAINS [TOOL]

LEVEL is L0, L1 or mix, TASK is statistics or tensor, TRAINS is 1 for a forward
and a backward and 0 for a prefill. Requires a Python with msprobe
(mindstudio-probe of PyPI) and torch, and prints the median seconds of a step
without msprobe and with it. With TOOL msitd, msitd.probe replaces msprobe.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from llama_like import LlamaLike, prefill_words

if sys.argv[5:] == ["msitd"]:
    from msitd.probe import PrecisionDebugger
else:
    from msprobe.pytorch import PrecisionDebugger


def main() -> None:
    """Alternates between the two ways."""
    level, task, rounds, trains = (
        sys.argv[1],
        sys.argv[2],
        int(sys.argv[3]),
        sys.argv[4],
    )
    torch.set_num_threads(1)
    torch.manual_seed(0)
    plain, probed = LlamaLike(), LlamaLike()
    words = prefill_words()

    def step(model: torch.nn.Module) -> None:
        if trains == "1":
            model(words).pow(2).mean().backward()
            for parameter in model.parameters():
                parameter.grad = None
        else:
            with torch.no_grad():
                model(words)

    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "task": task,
            "level": level,
            "dump_path": folder,
            "rank": [],
            "step": [],
            task: {"scope": [], "list": [], "data_mode": ["all"]},
        }
        if task == "statistics":
            settings[task]["summary_mode"] = "statistics"
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(settings), encoding="utf-8")
        debugger = PrecisionDebugger(config_path=str(config))
        seconds: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds):
            start = time.perf_counter()
            step(plain)
            seconds[0].append(time.perf_counter() - start)
            start = time.perf_counter()
            debugger.start(probed)
            step(probed)
            debugger.stop()
            debugger.step()
            seconds[1].append(time.perf_counter() - start)
    print("seconds", *(statistics.median(one[1:]) for one in seconds))


main()
