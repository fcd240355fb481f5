"""The packages msit_llm and msprobe of msitd, with which `python script.py` is
enough.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from executing import HEAD, execute
from msitd._exec.names import STAND_INS

from daemon import ROOT

COMPAT = ROOT / "client/python/compat"

pytestmark = pytest.mark.usefixtures("place")


def python(text: str) -> "subprocess.CompletedProcess[str]":
    Path("script.py").write_text(HEAD + text)
    variables = dict(os.environ, PYTHONPATH=str(COMPAT))
    for name in ("MSITD_ENDPOINT", "MSITCTL_ENDPOINT"):
        variables.pop(name, None)
    done = subprocess.run(
        [sys.executable, "script.py"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_they_have_the_modules_that_exec_stands_for() -> None:
    found = {
        ".".join(path.relative_to(COMPAT).with_suffix("").parts).removesuffix(
            ".__init__"
        )
        for path in COMPAT.rglob("*.py")
        if path.name != "of_msitd.py"
    }
    # exec also has the packages of early releases.
    assert found == {
        name for name in STAND_INS if name.split(".")[0] in ("msit_llm", "msprobe")
    }


def test_a_script_for_msit_llm_makes_its_own_daemon(place: Path) -> None:
    done = python(
        "from msit_llm import DumpConfig, register_hook\n"
        "from msit_llm.dump import torchair_dump\n"
        "assert torchair_dump.get_ge_dump_config\n"
        "from msit_llm.dump.torch_dump.dump_config import DumpConfig as same\n"
        "assert same is DumpConfig\n"
        "register_hook(model, DumpConfig(dump_path='dump', token_range=[0]))\n"
        "with torch.no_grad():\n"
        "    model(torch.ones(2, 4))\n"
    )
    (folder,) = (place / "dump").glob("msit_dump_*/torch_tensors/cpu_*/0/root.fc")
    assert {path.name for path in folder.iterdir()} == {"input_0.pth", "output.pth"}
    assert "daemon" in done.stderr


def test_a_script_for_msprobe_makes_its_own_daemon(place: Path) -> None:
    (place / "config.json").write_text('{"task": "statistics", "level": "L0"}')
    done = python(
        "from msprobe.pytorch import PrecisionDebugger, seed_all\n"
        "import msprobe.pytorch.common.utils\n"
        "seed_all(1)\n"
        "debugger = PrecisionDebugger('config.json', dump_path='dump')\n"
        "debugger.start(model=model)\n"
        "model(torch.ones(2, 4)).sum().backward()\n"
        "debugger.stop()\n"
        "debugger.step()\n"
    )
    assert (
        "Module.fc.Linear.forward.0"
        in (place / "dump/step0/rank/dump.json").read_text()
    )
    assert "daemon" in done.stderr


def test_exec_does_not_speak_of_them() -> None:
    text = "import msprobe.pytorch, msit_llm"
    variables = {**os.environ, "PYTHONPATH": str(COMPAT)}
    done = execute(sys.executable, "-c", text, env=variables)
    assert "is that of msitd" not in done.stderr
