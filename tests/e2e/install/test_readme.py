"""The commands of the README, as printed and in their order, by an ordinary user who has
nothing but a program with a model.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from people import Person, make_person

from daemon import ROOT

pytestmark = pytest.mark.skipif(
    os.path.exists("/run/msitd"), reason="this machine has a service"
)

README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PASSES, FAILS = 0, 1
# Commands that do not exit with 0.
EXIT_CODES = {
    "msitctl compare run golden-fp32 bf16 --rows none --tol 'nl2 <= 5e-3'": FAILS,
    "msitctl compare run golden-fp32 tampered-fp32 --rows none": FAILS,
}
MODEL = """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--dtype", default="float32")
dtype = getattr(torch, parser.parse_args().dtype)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).to(dtype)
model(torch.ones(2, 8, dtype=dtype))
"""
# A program for the lines of the README that record. Its model is deep enough that
# bfloat16 exceeds the tolerance that the README sets.
BEFORE = """
import sys, torch
rank, dtype, factor = int(sys.argv[1]), getattr(torch, sys.argv[3]), float(sys.argv[4])
torch.manual_seed(0)
layers = [torch.nn.Linear(64, 64, bias=False) for _ in range(16)]
with torch.no_grad():
    layers[3].weight *= factor
model = torch.nn.Sequential(*layers).to(dtype)
batch = torch.randn(4, 64).to(dtype)
"""


@pytest.fixture
def person() -> Iterator[Person]:
    yield from make_person()


def section(heading: str) -> str:
    return README.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def commands(text: str) -> list[str]:
    """The lines of the blocks of shell: those with a `$`, or all that are commands."""
    lines = [
        line.removeprefix("$ ")
        for kind, block in BLOCK.findall(text)
        if not kind
        for line in block.splitlines()
    ]
    return [line for line in lines if line.startswith("msitctl ")]


def play(person: Person, command: str, expect: int = PASSES) -> str:
    return person.run("bash", "-c", command, expect=expect).stdout


def test_the_first_commands_work_in_order(person: Person) -> None:
    (person.home / "model.py").write_text(MODEL)
    person.own()
    played = commands(section("Try it"))
    assert [command.split()[1] for command in played] == ["exec", "exec", "compare"]
    for command in played:
        text = play(person, command)
    assert text.startswith("bf16 agrees with golden: ")
    # No other files.
    assert {path.name for path in person.home.iterdir()} == {
        *("model.py", ".config", ".local"),
    }


def test_the_commands_of_the_demonstration_work_in_order(person: Person) -> None:
    look = section("What it looks like")
    (code,) = [text for kind, text in BLOCK.findall(look) if kind == "python"]
    assert 'run="golden-fp32"' in code
    program = BEFORE + code.replace('run="golden-fp32"', "run=sys.argv[2]")
    for run, dtype, factor in (
        ("golden-fp32", "float32", "1"),
        ("bf16", "bfloat16", "1"),
        ("tampered-fp32", "float32", "1.5"),
    ):
        for rank in ("0", "1"):
            (person.home / "record.py").write_text(program)
            person.own()
            play(person, f"python record.py {rank} {run} {dtype} {factor}")
    played = commands(look)
    assert len(played) == 6
    for command in played:
        play(person, command, EXIT_CODES.get(command, PASSES))


def test_the_report_of_the_table_can_be_written(person: Person) -> None:
    table = section("What it looks like")
    (command,) = re.findall(r"`(msitctl compare report c-000001 [^`]*)`", table)
    (person.home / "model.py").write_text(MODEL)
    person.own()
    for line in commands(section("Try it")):
        play(person, line)
    play(person, command)
    assert (Path(person.home) / "report.html").stat().st_size > 0
