"""msitd.probe: keys of msprobe that msitd does not support.

The expected effects are those of msprobe 26.2.0, which ignores the keys of
earlier releases.
"""

from pathlib import Path
from typing import Any

import pytest
from msitd import probe
from msitd.probe import refused
from probe_dumps import (
    MODULES,
    config,
    names,
    probe_place,  # noqa: F401
    run,
)

TASKS = ("statistics", "tensor", "structure", "overflow_check")

# A value of each inert key that requests something.
VALUES: dict[str, Any] = {
    "acl_config": "acl.json",
    "backward_input": ["a.pt"],
    "check_mode": "aicore",
    "file_format": "npy",
    "host": "h",
    "nfs_path": "/x",
    "online_run_ut": True,
    "port": 1,
    "tls_path": "/y",
}

# The blocks of the configuration that msprobe installs, and of the defaults that
# SGLang and vllm-ascend document.
VENDORS = {"scope": [], "list": [], "data_mode": ["all"], "file_format": "npy"}


@pytest.fixture(autouse=True)
def no_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused, "_noted", set())


def debugger_of(place: Path, task: str, **keys: Any) -> probe.PrecisionDebugger:
    # A debugger of the same file is otherwise the same debugger.
    probe.debugger.forget_all()
    return probe.PrecisionDebugger(str(config(place, task, **keys)))


def test_every_inert_key_has_a_value_here() -> None:
    assert VALUES.keys() == refused.INERT_KEYS.keys()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("where", ["", "block_"])
@pytest.mark.parametrize("key", sorted(VALUES))
def test_an_inert_key_is_accepted_and_noted_once(
    key: str, where: str, task: str, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for level in ("L0", "L1", "mix"):
        debugger_of(place, task, level=level, **{where + key: VALUES[key]})
    name = f"{task}.{key}" if where else key
    notes = [text for text in caplog.messages if text.startswith(name)]
    assert len(notes) == 1
    assert f"{name} has no effect, as in msprobe: " in notes[0]


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_the_configuration_of_the_vendors_dumps(task: str, place: Path) -> None:
    blocks = {f"block_{key}": value for key, value in VENDORS.items()}
    run(debugger_of(place, task, level="L0", rank=[], step=[], **blocks))
    assert names(Path("dump/step0")) == MODULES


def test_a_bench_path_is_refused_where_it_has_an_effect(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError, match=r"tensor\.bench_path is not done here: .{20}"):
        debugger_of(place, "tensor", block_bench_path="golden")
    for task in ("statistics", "structure"):
        debugger_of(place, task, block_bench_path="golden")
        assert f"{task}.bench_path has no effect for the task {task}" in caplog.text


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_level_l2_is_refused(task: str, place: Path) -> None:
    with pytest.raises(ValueError, match="level 'L2' is not done here: .{20}"):
        debugger_of(place, task, level="L2")


def test_a_structure_of_level_l2_is_that_of_mix(place: Path) -> None:
    debugger = debugger_of(place, "structure", level="L2")
    assert debugger.config.level == "mix"


@pytest.mark.parametrize("task", [None, "", 0])
@pytest.mark.parametrize("level", [None, "", 0])
def test_an_empty_value_is_the_default(task: Any, level: Any, place: Path) -> None:
    settings = debugger_of(place, task, level=level, dump_enable=None).config
    assert (settings.task, settings.level) == ("statistics", "L1")


@pytest.mark.parametrize("key", ["seed", "is_deterministic", "enable_dataloader"])
def test_an_invalid_value_of_a_former_key_is_noted(
    key: str, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        debugger_of(place, "statistics", **{key: "x"})
    notes = [text for text in caplog.messages if text.startswith(f"{key} is 'x'")]
    assert len(notes) == 1
    assert notes[0].endswith(": it has no effect")


@pytest.mark.parametrize(
    "task, key",
    [
        ("tensor", "tensor_list"),
        ("structure", "data_mode"),
        ("structure", "slice"),
        ("structure", "tensor_list"),
        ("structure", "summary_mode"),
        ("statistics", "overflow_nums"),
        ("tensor", "overflow_nums"),
    ],
)
def test_a_key_of_another_task_is_not_even_checked(
    task: str, key: str, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    debugger_of(place, task, **{f"block_{key}": -5})
    assert f"{task}.{key} has no effect for the task {task}" in caplog.text
