"""The options of hooks have the defaults of the public functions, and one check."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import msitd
import pytest
from fake_daemon import FakeDaemon
from msitd._core.api.options import ApiOptions
from msitd._core.leaf.options import RecordOptions
from msitd._core.module.options import HookOptions
from torch import nn


@pytest.mark.parametrize(
    ("function", "kind"),
    [(msitd.register_hook, HookOptions), (msitd.register_api, ApiOptions)],
)
def test_defaults_are_those_of_the_public_function(
    function: Callable[..., Any], kind: type[RecordOptions]
) -> None:
    public = {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert {each.name: each.default for each in dataclasses.fields(kind)} == public


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (HookOptions, {"stack": "some"}),
        (HookOptions, {"optimizer_state": True}),
        (HookOptions, {"time": "never"}),
        (HookOptions, {"name": ""}),
        (HookOptions, {"name": "x" * 129}),
        (ApiOptions, {"stack": "some"}),
        (ApiOptions, {"groups": ("torch", "other")}),
    ],
)
def test_options_out_of_range_are_refused(
    kind: type[RecordOptions], options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"none of|needs|does not have"):
        kind(**options)


def test_patterns_can_be_read_more_than_once() -> None:
    options = HookOptions(op_pattern=(word for word in ("root", "root.0")))
    assert options.op_pattern == ("root", "root.0")


def test_a_refused_option_reserves_no_name(
    client: msitd.Client, daemon: FakeDaemon
) -> None:
    first, second = nn.Linear(1, 1), nn.Linear(1, 1)
    with pytest.raises(ValueError, match="time 'never'"):
        msitd.register_hook(first, client, name="model", time="never")
    msitd.register_hook(second, client, name="model").remove()
