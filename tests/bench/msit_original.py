"""Runs the comparison of msit itself, and prints how long it took.

usage: msit_original.py MSIT GOLDEN MY OUTPUT ELEMENTS

MSIT is a checkout of msit that has components/llm. Nothing in it is changed.
The parser of dumps, which belongs to CANN, is replaced by one that reads the
files of bench_import.py, with ELEMENTS in each tensor, and its time is
subtracted. Prints the seconds as the last line.
"""

import importlib
import importlib.machinery
import struct
import sys
import time
import types
from pathlib import Path

import numpy as np


class Parser:
    """Reads dumps of float32 tensors: the inputs have the shape of the only output."""

    def __init__(self, elements: int) -> None:
        self.elements = elements
        self.seconds = 0.0

    def parse(self, file: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
        start = time.perf_counter()
        data = bytearray(Path(file).read_bytes())
        (head_bytes,) = struct.unpack_from("<Q", data)
        rows = np.frombuffer(data, np.float32, offset=8 + head_bytes)
        *inputs, output = rows.reshape(-1, self.elements)
        self.seconds += time.perf_counter() - start
        return inputs, [output]


def use_sources(msit: Path) -> None:
    """Makes the packages of msit importable without their start-up code."""
    components = msit / "components"
    llm = components / "llm" / "msit_llm"
    sys.path.insert(0, str(msit))
    for name, folder in {
        "components": components,
        "msit_llm": llm,
        "msit_llm.common": llm / "common",
        "msit_llm.compare": llm / "compare",
    }.items():
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        package.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        sys.modules[name] = package


def main() -> None:
    msit, golden, mine, output, elements = sys.argv[1:]
    use_sources(Path(msit))
    compare = importlib.import_module("msit_llm.compare.torchair_acc_cmp")
    parser = Parser(int(elements))
    compare.parse_torchair_dump_data = parser.parse
    start = time.perf_counter()
    compare.acc_compare_once((golden, mine, output, 0))
    print(time.perf_counter() - start - parser.seconds)


if __name__ == "__main__":
    main()
