"""Commands that exec runs twice, to compare their runs."""

import sys
from pathlib import Path

import pytest
from executing import HEAD, execute, place, places, script

from daemon import Daemon

__all__ = ["place"]

pytestmark = pytest.mark.usefixtures("place")

TRAINING = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# Differs from run to run.
UNSEEDED = """
model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4))
torch.seed()
model(torch.ones(8, 4))
"""
COMPILED = ("--against", "compiled:aot_eager")


def dtypes(daemon: Daemon, run: str, *flags: str) -> set[str]:
    found = daemon.ctl_json("tensor", "list", "--run", run, "--limit", "0", *flags)
    return {each["dtype"] for each in found["tensors"]}


def test_the_same_twice(daemon: Daemon) -> None:
    done = script(TRAINING, "--twice")

    assert "PASS" in done.stdout
    assert places(daemon, "r") == places(daemon, "r-again")
    recorded = {side.split()[0] for *_, side in places(daemon, "r")}
    assert {"input", "output", "weight", "grad_output", "grad_weight"} <= recorded


def test_twice_names_what_is_not_deterministic() -> None:
    done = script(UNSEEDED, "--twice", expect=1)

    assert "root.1" in done.stdout.splitlines()[0]


def test_against_float64(daemon: Daemon) -> None:
    done = script(TRAINING, "--against", "float64")

    assert "PASS" in done.stdout
    inner = ("--ops", "root.fc", "--io", "output")
    assert dtypes(daemon, "r", *inner) == {"D_TYPE_FLOAT32"}
    assert dtypes(daemon, "r-float64", *inner) == {"D_TYPE_FLOAT64"}
    assert places(daemon, "r") == places(daemon, "r-float64")


def test_float64_reaches_tensors_in_lists_and_keeps_others(daemon: Daemon) -> None:
    text = """
class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
    def forward(self, values, *, numbers):
        assert numbers.dtype == torch.int64
        return {"sum": self.fc(values["x"][0]) + numbers, "numbers": numbers}
out = Lists()({"x": [torch.ones(2, 4)]}, numbers=torch.arange(4))
assert out["sum"].dtype == torch.float32 and out["numbers"].dtype == torch.int64
"""
    script(text, "--against", "float64")

    inner = ("--ops", "root.fc", "--io", "input")
    assert dtypes(daemon, "r-float64", *inner) == {"D_TYPE_FLOAT64"}


def test_against_compiled_compares_each_module(daemon: Daemon) -> None:
    done = script(TRAINING, *COMPILED)

    assert "PASS" in done.stdout
    assert {"root", "root.fc"} <= {op for _, _, op, _ in places(daemon, "r-compiled")}
    inner = [each for each in places(daemon, "r") if each[2].startswith("root")]
    assert inner == places(daemon, "r-compiled")


def test_against_eager_of_a_program_that_compiles() -> None:
    text = "model = torch.compile(model, backend='aot_eager')\n" + TRAINING
    done = script(text, "--against", "eager")

    assert "PASS" in done.stdout


def test_a_program_that_compiles_is_not_compiled_again() -> None:
    text = "model.compile(backend='aot_eager')\n" + TRAINING
    done = script(text, *COMPILED, expect=125)

    assert "use --against eager" in done.stderr
    assert done.stdout == ""


def test_a_model_that_cannot_be_changed_is_not_compared() -> None:
    text = """
step = torch.compile(lambda x: model(x).sum(), backend="eager")
step(torch.ones(2, 4))
"""
    done = script(text, "--against", "float64", expect=125)

    assert "nothing is compared" in done.stderr
    assert "PASS" not in done.stdout


def test_a_program_without_a_compiler_is_not_compared_with_itself() -> None:
    done = script(TRAINING, "--against", "eager", expect=125)

    assert "the model was not changed with --against eager" in done.stderr
    assert "PASS" not in done.stdout


def test_the_cpu_needs_another_device() -> None:
    done = script(TRAINING, "--against", "cpu", expect=125)

    assert "finds no other device" in done.stderr
    assert "PASS" not in done.stdout


def test_a_command_that_fails_is_not_compared() -> None:
    done = script(TRAINING + "raise SystemExit(9)", "--twice", expect=9)
    assert "exited with 9 the first time" in done.stderr
    assert done.stderr.count("recorded r") == 1

    text = f"""
import pathlib
{TRAINING}
seen = pathlib.Path("seen")
if seen.exists():
    raise SystemExit(7)
seen.touch()
"""
    done = script(text, "--twice", expect=7)
    assert "exited with 7 the second time" in done.stderr


def test_each_process_is_compared_with_its_counterpart() -> None:
    Path("one.py").write_text(HEAD + TRAINING)
    both = f"{sys.executable} one.py; {sys.executable} one.py"
    done = execute("sh", "-c", both, flags=("--run", "two", "--twice"))
    assert done.stdout.count("PASS") >= 2

    text = f"if mkdir once 2>/dev/null; then {both}; else {sys.executable} one.py; fi"
    done = execute("sh", "-c", text, flags=("--run", "n", "--twice"), expect=125)
    assert "2 runs, and 1 the second time" in done.stderr


def test_a_private_daemon_compares() -> None:
    done = script(TRAINING, "--twice", "--data-dir", "store")

    assert "PASS" in done.stdout
    assert "msitd --data-dir store" in done.stderr


@pytest.mark.parametrize("what", ["compiled:", "float16", "", "twice"])
def test_an_unknown_variation_is_an_error(what: str) -> None:
    done = script(TRAINING, "--against", what, expect=125)

    assert "compiled:BACKEND, eager, float64 or cpu" in done.stderr


def test_twice_excludes_against() -> None:
    script(TRAINING, "--twice", "--against", "cpu", expect=125)
