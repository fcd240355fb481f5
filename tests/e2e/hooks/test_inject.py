"""Modules receive the inputs of another run."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msitd
import pytest
import torch
from msitd import query
from torch import nn

from daemon import BIN_DIR


@pytest.fixture(autouse=True)
def place(user_place: Path) -> Path:
    """A daemon at its usual location."""
    return user_place


class Scale(nn.Module):
    """Takes a tuple and a keyword argument."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = 1.0

    def forward(
        self, pair: tuple[torch.Tensor, torch.Tensor], *, shift: torch.Tensor
    ) -> torch.Tensor:
        return pair[0] * pair[1] * self.factor + shift


class Net(nn.Module):
    """Calls its first layer twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.scale = Scale()
        self.last = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(self.first(x))
        return self.last(self.scale((y, x), shift=y))


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def batches() -> torch.Tensor:
    return torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(1))


def record(run: str, model: nn.Module, **options: Any) -> msitd.Injection | None:
    """Records three forwards, optionally with inputs of `golden`."""
    injection = None
    with (
        msitd.Client(run) as client,
        msitd.register_hook(model, client),
        torch.no_grad(),
    ):
        if options:
            injection = msitd.inject(
                model, "golden", connection=query.connect(), client=client, **options
            )
        for batch in batches():
            model(batch)
        if injection is not None:
            injection.remove()
    return injection


def failing(run: str) -> set[str]:
    """Returns ops whose results differ from those of `golden`."""
    report = query.connect().comparisons.run(
        "golden", run, select=query.select(io="output")
    )
    rows = query.connect().comparisons.rows(report.name)
    return {row.op for row in rows if row.verdict == "fail"}


@pytest.mark.parametrize("wrong", ["first", "last", "scale"])
def test_only_the_module_that_is_wrong_differs(wrong: str) -> None:
    record("golden", net())
    model = net()
    with torch.no_grad():
        if wrong == "scale":
            model.scale.factor = 1.25
        else:
            model.get_submodule(wrong).weight.mul_(1.25)
    record("plain", model)
    injection = record("injected", model, ops="root.*")
    assert injection is not None
    # Two calls of the first, a pair and a shift of the scale, and the last,
    # three times.
    assert (injection.replaced_count, injection.kept_count) == (3 * 6, 0)
    # The result of the model is that of its last layer.
    assert failing("injected") - {"root"} == {f"root.{wrong}"}
    assert failing("plain") >= failing("injected")
    # The recorded inputs are those that modules receive.
    report = query.connect().comparisons.run(
        "golden", "injected", select=query.select(io="input")
    )
    assert report.fail_count == 0


@pytest.mark.parametrize("wrong", ["first", "scale"])
def test_what_is_behind_a_wrong_module_can_be_given_the_right_result(
    wrong: str,
) -> None:
    record("golden", net())
    model = net()
    with torch.no_grad():
        model.first.weight.mul_(1.25 if wrong == "first" else 1)
    model.scale.factor = 1.25 if wrong == "scale" else 1.0
    injection = record("injected", model, ops=f"root.{wrong}", what="outputs")
    assert injection is not None
    count = 3 * (2 if wrong == "first" else 1)
    assert (injection.replaced_count, injection.kept_count) == (count, 0)
    # Its own result is recorded, and no other module is wrong.
    assert failing("injected") == {f"root.{wrong}"}


def test_a_wrong_module_is_recorded_as_it_is_when_the_model_gets_another_one() -> None:
    record("golden", net())
    model = net()
    model.scale.factor = 1.25
    with (
        msitd.Client("injected") as client,
        msitd.register_hook(model, client),
        msitd.inject(
            model, "golden", connection=query.connect(), client=client, what="outputs"
        ) as injection,
        torch.no_grad(),
    ):
        model.first.add_module("lazy", nn.Identity())
        for batch in batches():
            model(batch)
    # The first layer twice, and the others.
    assert injection.replaced_count == 3 * 5
    assert failing("injected") == {"root.scale"}


@pytest.mark.parametrize("name", [None, "G"])
def test_a_model_gets_what_was_recorded_under_its_name(name: str | None) -> None:
    def run(run: str, injects: bool) -> msitd.Injection | None:
        other, model = net(), net()
        injection = None
        with (
            msitd.Client(run) as client,
            msitd.register_hook(other, client, time="step"),
            msitd.register_hook(model, client, time="step", name=name),
            torch.no_grad(),
        ):
            if injects:
                injection = msitd.inject(
                    model, "golden", connection=query.connect(), client=client
                )
            other(torch.ones(2, 4))
            model(torch.full((2, 4), 0.0 if injects else 5.0))
            if injection is not None:
                injection.remove()
        return injection

    run("golden", injects=False)
    injection = run("injected", injects=True)
    assert injection is not None
    assert (injection.replaced_count, injection.kept_count) == (7, 0)
    report = query.connect().comparisons.run(
        "golden", "injected", select=query.select(io="input")
    )
    assert (report.fail_count, report.pass_count) == (0, 14)


def test_a_model_without_a_name_of_its_own_is_refused() -> None:
    first, second = net(), net()
    connection = query.connect()

    def inject(model: nn.Module, name: str | None = None) -> None:
        msitd.inject(
            model, "golden", connection=connection, client=client, name=name
        ).remove()

    with msitd.Client("golden") as client:
        hooks = msitd.register_hook(first, client)
        with pytest.raises(ValueError, match="another model as 'root'"):
            inject(second)
        inject(second, "G")
        more = msitd.register_hook(first, client, name="G")
        with pytest.raises(ValueError, match="several names: .* of G, root"):
            inject(first)
        hooks.remove()
        inject(first)
        inject(second)
        more.remove()


def test_inputs_are_replaced_before_they_are_recorded_if_hooks_were_off() -> None:
    record("golden", net())
    model = net()
    with (
        msitd.Client("injected") as client,
        msitd.register_hook(model, client, tokens=[2], time="forward"),
        torch.no_grad(),
    ):
        model(torch.zeros(2, 4))
        with msitd.inject(model, "golden", connection=query.connect(), client=client):
            for _ in range(2):
                model(torch.zeros(2, 4))
    report = query.connect().comparisons.run(
        "golden", "injected", select=query.select(io="input", tokens=2)
    )
    assert (report.fail_count, report.pass_count) == (0, 7)


def test_results_of_the_model_itself_are_those_of_its_token() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> dict[str, Any]:
            return {"y": self.fc(x), "more": (x, [x + 1])}

    torch.manual_seed(0)
    golden, other = Pair(), Pair()
    record("golden", golden)
    with msitd.inject(
        other, "golden", connection=query.connect(), ops="root", what="outputs"
    ) as injection:
        for batch in batches():
            expected = golden(batch)
            made = other(torch.zeros(2, 4))
            assert made["y"].equal(expected["y"])
            assert made["more"][1][0].equal(batch + 1)
    assert injection.replaced_count == 9


def test_of_several_runs_the_first_that_has_a_tensor_counts() -> None:
    for run, value in (("a", 1.0), ("b", 2.0)):
        with msitd.Client(run, rank=1, world_size=2) as client:
            for token, op in ((0, "root"), (1, "root"))[: 2 if run == "b" else 1]:
                client.record(
                    torch.full((2, 4), value), op=op, io="input", index="0", token=token
                )
    seen = []

    class Look(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(float(x[0, 0]))
            return x

    model = Look()
    with msitd.inject(model, ["a", "b"], connection=query.connect(), rank=1):
        for _ in range(3):
            model(torch.zeros(2, 4))
    # Neither run has the rank of this process.
    with msitd.inject(model, ["a", "b"], connection=query.connect()) as injection:
        model(torch.zeros(2, 4))
    assert seen == [1.0, 2.0, 0.0, 0.0]
    assert injection.replaced_count == 0


def test_what_is_no_side_is_refused() -> None:
    for bad in ({"what": "weights"}, {"run": []}):
        options: dict[str, Any] = {"run": "golden", **bad}
        with pytest.raises(ValueError, match="what is|no name of a run"):
            msitd.inject(net(), connection=query.connect(), **options)


def test_gradients_are_kept_on_request() -> None:
    record("golden", net())
    for keep in (False, True):
        model = net()
        injection = msitd.inject(
            model,
            "golden",
            connection=query.connect(),
            ops="root.last",
            keep_gradients=keep,
        )
        model(batches()[0]).sum().backward()
        injection.remove()
        assert (model.first.weight.grad is not None) == keep
        assert model.last.weight.grad is not None


def test_what_does_not_fit_stays_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    record("golden", net())
    model = net()
    with (
        msitd.inject(model, "golden", connection=query.connect()) as injection,
        torch.no_grad(),
    ):
        expected = net()(torch.ones(5, 4))
        assert model(torch.ones(5, 4)).equal(expected)
        for _ in range(3):
            model(batches()[0])
    assert "root 0 is not replaced: it was torch.float32 (2, 4)" in caplog.text
    assert "golden has no such input at 3" in caplog.text
    assert injection.kept_count == 7 + 7
    assert injection.replaced_count == 2 * 7
    for module in model.modules():
        assert not module._forward_pre_hooks


SCRIPT = """
import sys, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.GELU()), nn.Linear(4, 2))
if sys.argv[1:] not in ([], ["larger"]):
    with torch.no_grad():
        model.get_submodule(sys.argv[1]).weight.add_(0.25)
with torch.no_grad():
    for _ in range(2):
        model(torch.ones(3 if sys.argv[1:] == ["larger"] else 2, 4))
"""


def execute(*words: str, expect: int = 0) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [BIN_DIR / "msitctl", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == expect, done.stderr
    return done


def test_exec_injects(place: Path) -> None:
    (place / "script.py").write_text(SCRIPT)
    python = [sys.executable, "script.py"]
    execute("exec", "--run", "golden", "--", *python)
    done = execute("exec", "--run", "wrong", "--inject", "golden", "--", *python, "1.0")
    # The model is found during its first forward.
    assert "11 inputs are those of golden, 0 are not" in done.stderr
    # The modules after it have the right input again.
    assert failing("wrong") == {"root.1.0"}


def test_exec_injects_results(place: Path) -> None:
    (place / "script.py").write_text(SCRIPT)
    python = [sys.executable, "script.py"]
    execute("exec", "--run", "golden", "--", *python)
    flags = ["--inject", "none", "--inject", "golden", "--inject-what", "outputs"]
    msitd.Client("none").close()
    flags += ["--inject-rank", "0"]
    done = execute("exec", "--run", "wrong", *flags, "--", *python, "1.0")
    assert "12 outputs are those of none, golden, 0 are not" in done.stderr
    assert failing("wrong") == {"root.1.0"}
    for bad in (["--inject-what", "x"], ["--inject-rank", "-1"]):
        execute("exec", *bad, "--", *python, expect=125)


@pytest.mark.parametrize("wrong", ["0", "1.0", "2"])
def test_bisect_names_the_module_that_is_wrong(wrong: str, place: Path) -> None:
    (place / "script.py").write_text(SCRIPT)
    python = [sys.executable, "script.py"]
    execute("exec", "--run", "golden", "--", *python)
    done = execute("bisect", "golden", "--", *python, wrong, expect=1)
    assert done.stdout.splitlines()[0].split()[:1] == ["op"]
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [
        f"root.{wrong}"
    ]
    right = execute("bisect", "golden", "--", *python)
    assert "no module is wrong by itself" in right.stderr


def test_bisect_does_not_decide_about_modules_with_other_inputs(place: Path) -> None:
    (place / "script.py").write_text(SCRIPT)
    python = [sys.executable, "script.py"]
    execute("exec", "--run", "golden", "--", *python)
    done = execute("bisect", "golden", "--", *python, "larger", expect=4)
    assert done.stdout == ""
    assert "undecided: root.0, root.1.0, root.1.1, root.2: the differ" in done.stderr
    assert "no module is wrong" not in done.stderr
    done = execute("bisect", "golden", "-o", "json", "--", *python, "larger", expect=4)
    answer = json.loads(done.stdout)
    assert answer["wrong"] == []
    assert answer["undecided"][0] == "root.0"


def test_one_list_that_fails_leaves_no_module_with_its_own_inputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record("golden", net())
    asked = 0
    real = query.Tensors.list

    def every_second(*given: Any, **named: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked % 2:
            raise query.QueryError("UNAVAILABLE", "", "busy")
        return real(*given, **named)

    monkeypatch.setattr(query.Tensors, "list", every_second)
    injection = record("injected", net(), ops="root.*")
    assert injection is not None
    assert asked == 6
    assert (injection.replaced_count, injection.kept_count) == (3 * 6, 0)
