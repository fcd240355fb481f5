"""Builds the stand-ins for CANN and MindIE, and dump trees that they replay."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import ge_dump
import numpy as np

from daemon import BIN_DIR, ROOT

LIB_DIR = BIN_DIR.parent / "lib"
SHIM = LIB_DIR / "libmsit_acl.so"
# The shim loads the library from its own folder.
FEED = LIB_DIR / "libmsit_acl_feed.so"

TIME_US = 1759312800000000


@dataclass
class Standin:
    """A folder for ASCEND_TOOLKIT_HOME, and programs that use its libascendcl.so."""

    home: Path
    mindie: Path
    # A program that loads users of CANN at run time.
    loader: Path

    def environment(self, **more: object) -> dict[str, str]:
        return {
            **os.environ,
            "ASCEND_TOOLKIT_HOME": str(self.home),
            "LD_LIBRARY_PATH": str(self.home / "lib64"),
            **{name: str(value) for name, value in more.items()},
        }


def _compile(*words: object) -> None:
    flags = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Wno-format-truncation")
    subprocess.run(["cc", *flags, *map(str, words)], check=True)


def build(folder: Path, *, has_mindie_dump: bool = False) -> Standin:
    """`has_mindie_dump`: the toolkit has a library for dumps of MindIE."""
    for library in (SHIM, FEED):
        assert library.exists(), f"{library} is not built: build the target all"
    sources = ROOT / "tests/e2e/msit"
    cann = folder / "toolkit/lib64/libascendcl.so"
    cann.parent.mkdir(parents=True)
    soname = "-Wl,-soname,libascendcl.so"
    shared = ("-shared", "-fPIC")
    _compile(*shared, soname, sources / "standin_ascendcl.c", "-o", cann)
    made = Standin(cann.parents[1], folder / "mindie", folder / "loader")
    mindie = sources / "standin_mindie.c"
    _compile(mindie, cann, "-o", made.mindie)
    library = folder / "libmindie.so"
    _compile(*shared, "-DSTANDIN_LIBRARY", mindie, cann, "-o", library)
    _compile(f'-DSTANDIN_LOADS="{library}"', mindie, cann, "-ldl", "-o", made.loader)
    if has_mindie_dump:
        dump = made.home / "tools/ait_backend/mindie_torch_dump/libmindiedump.so"
        dump.parent.mkdir(parents=True)
        _compile(*shared, sources / "standin_mindiedump.c", "-o", dump)
    return made


def write_tree(
    folder: Path, *, ops: int = 6, tokens: int = 2, device: int = 0, rank: str = ""
) -> Path:
    """Writes a dump tree of MindIE. Each op occurs twice; one is stored in blocks."""
    for token in range(tokens):
        dumps = folder / rank / f"20251001120000/{device}/Graph/1/{token}"
        dumps.mkdir(parents=True)
        for number in range(ops):
            random = np.random.default_rng(1000 * token + number)
            value = random.standard_normal((20, 18)).astype(np.float16)
            blocks = ge_dump.to_nz(value, 16, 16)
            stored = ge_dump.Dumped(
                2, ge_dump.FRACTAL_NZ, blocks.shape, value.shape, blocks.tobytes()
            )
            plain = ge_dump.Dumped(
                1, ge_dump.ND, (3, number), (3, number), bytes(12 * number)
            )
            absent = ge_dump.Dumped(1, ge_dump.ND, (2,), (2,), b"", size=8, address=0)
            op = number // 2 + 1
            name = f"MatMul.layer_op{op}.{number}.1.{TIME_US + 10 * token + number}"
            ge_dump.write(
                dumps / name, [plain, absent], [stored, plain], op=f"layer/op{op}"
            )
    return folder
