"""msitctl exec: names of other tools for which msitd does not stand."""

import os
import sys
from pathlib import Path

import pytest
from executing import (
    execute,
    place,  # noqa: F401
    places,
)

from daemon import BIN_DIR, Daemon

pytestmark = pytest.mark.usefixtures("place")

# The outputs of statements if msprobe and msit_llm are not installed.
ALTERNATIVES = {
    "from msprobe.pytorch import TrainerMon": "msitd.register_hook(gradients=True)",
    "from msprobe.pytorch import acl_save": "msitd.Client.record",
    "from msprobe.pytorch import set_ge_dump_config": "get_ge_dump_config",
    "from msprobe.pytorch import set_fx_dump_config": "get_fx_dump_config",
    "from msprobe.pytorch import compare": "msitctl compare run",
    "from msprobe.pytorch.common.log import logger": "install mindstudio-probe",
    "import msprobe.core.common.const": "install mindstudio-probe",
    "from msit_llm import read_atb_data": "msitctl run import",
    "from msit_llm import CaseFilter": "msitctl compare run",
    "from msit_llm.dump import manual_dump": "msitd.Client.record",
    "import msit_llm; msit_llm.Analyzer": "msitctl compare run",
    "from ptdbg_ascend import register_hook": "msitd.probe",
    "from ptdbg_ascend.parse import parse": "msprobe compare",
    "import mindietorch": "msit debug dump",
}


def run(text: str, expect: int = 0, **options: object) -> str:
    Path("script.py").write_text(text)
    done = execute(sys.executable, "script.py", expect=expect, **options)
    return done.stdout + done.stderr


def test_a_name_that_is_not_there_says_what_to_use() -> None:
    lines = ["import traceback"]
    for statement in ALTERNATIVES:
        lines += [
            "try:",
            f"    {statement}",
            "except (ImportError, AttributeError) as error:",
            "    print(error)",
        ]
    said = run("\n".join(lines)).splitlines()
    for line, (statement, expected) in zip(said, ALTERNATIVES.items(), strict=False):
        assert " is not done here: " in line, statement
        assert expected in line, statement


def test_a_program_may_ask_for_a_name() -> None:
    assert "False None\n" in run(
        "import msprobe.pytorch as p\n"
        "print(hasattr(p, 'TrainerMon'), getattr(p, 'acl_save', None))\n"
    )


@pytest.fixture
def installed(place: Path) -> Path:  # noqa: F811 - the fixture
    """A package of the other tool, in the folder of the script."""
    files = {
        "msprobe/__init__.py": "raise AssertionError('msprobe is hidden')",
        "msprobe/core/__init__.py": "",
        "msprobe/core/const.py": "from msprobe.pytorch import PrecisionDebugger\n"
        "class Const: FOUND = PrecisionDebugger.__module__\n",
        "msprobe/pytorch/__init__.py": "from .debugger.precision_debugger import "
        "PrecisionDebugger\nfrom .monitor import TrainerMon\n",
        "msprobe/pytorch/monitor.py": "from msprobe.pytorch import seed_all\n"
        "from msprobe.pytorch.common.utils import helper\n"
        "class TrainerMon: pass\n",
        "msprobe/pytorch/common/__init__.py": "",
        "msprobe/pytorch/common/utils.py": "def helper(): pass\n",
        "msprobe/pytorch/common/log.py": "logger = 'theirs'\n",
    }
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


@pytest.mark.usefixtures("installed")
def test_other_names_are_those_of_the_installed_tool() -> None:
    said = run(
        "from msprobe.pytorch import PrecisionDebugger, TrainerMon\n"
        "from msprobe.pytorch.common.log import logger\n"
        "from msprobe.core.const import Const\n"
        "import msprobe.pytorch.monitor\n"
        "print(PrecisionDebugger.__module__, TrainerMon.__module__, logger, "
        "Const.FOUND)\n"
    )
    assert (
        "msitd.probe.debugger msprobe.pytorch.monitor theirs msitd.probe.debugger\n"
        in said
    )
    assert "msprobe is that of msitd, not " in said


@pytest.mark.usefixtures("installed")
def test_a_name_that_the_installed_tool_lacks_says_so() -> None:
    said = run("from msprobe.pytorch import acl_save", expect=1)
    assert "msprobe.pytorch.acl_save is not done here" in said


@pytest.mark.parametrize("package", ["msit_llm", "ait_llm"])
def test_names_of_early_releases_are_those_of_msitd(package: str) -> None:
    said = run(
        f"from {package} import DumpConfig, register_hook\n"
        f"from {package}.dump.torch_dump.dump_config import DumpConfig as Same\n"
        "print(DumpConfig.__module__, Same is DumpConfig)\n"
    )
    assert "msitd.llm.dump_config True" in said


def test_a_script_finds_programs_that_are_not_in_path(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = os.environ["PATH"].split(os.pathsep)
    others = [folder for folder in folders if folder != str(BIN_DIR)]
    monkeypatch.setenv("PATH", os.pathsep.join(others))
    run(
        "import torch\n"
        "from msprobe.pytorch import PrecisionDebugger\n"
        "debugger = PrecisionDebugger(task='tensor', level='L1', dump_path='dump')\n"
        "debugger.start()\n"
        "torch.relu(torch.ones(2))\n"
        "debugger.stop()\n"
    )
    assert Path("dump/step0/rank/dump.json").exists()
    assert "Torch.relu" in {op for _, _, op, _ in places(daemon)}
