"""The pages of the interfaces describe each parameter of each function."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
from msitd import llm, probe
from msitd.llm import torchair_dump

from daemon import ROOT

WORDS = {
    "as the original",
    "better",
    "not supported",
    "msitd only",
    "accepted",
    "reported",
    "NaN and infinities",
}


def method(name: str) -> Callable[..., Any]:
    """Returns a method as defined, because reading it on the class needs a debugger."""
    defined = inspect.getattr_static(probe.PrecisionDebugger, name)
    return defined.__wrapped__  # type: ignore[no-any-return]


PAGES: dict[str, list[Callable[..., Any]]] = {
    "llm.md": [llm.DumpConfig, llm.register_hook, llm.seed_all],
    "torchair.md": [
        torchair_dump.get_ge_dump_config,
        torchair_dump.get_fx_dump_config,
    ],
    "probe.md": [
        probe.PrecisionDebugger.__init__,
        *map(method, ("start", "save", "set_init_step")),
        *map(method, ("register_custom_api", "restore_custom_api")),
        probe.module_dump,
        probe.seed_all,
        probe.random_save,
    ],
}


def rows_of(page: str) -> list[tuple[str, str]]:
    """Returns the first two cells of each row of the tables of parameters."""
    text = (ROOT / "docs" / page).read_text()
    tables = re.findall(
        r"^\| (?:parameter|argument or key) \| here \|.*\n\|[-|]+\n((?:\|.*\n)+)",
        text,
        re.MULTILINE,
    )
    rows = [line.split(" | ") for table in tables for line in table.splitlines()]
    return [(first.removeprefix("| "), here.strip(" |")) for first, here, *_ in rows]


@pytest.mark.parametrize("page", PAGES)
def test_a_table_has_every_parameter(page: str) -> None:
    rows = rows_of(page)
    words = [set(re.findall(r"\w+", first)) for first, _ in rows]
    for function in PAGES[page]:
        for name in inspect.signature(function).parameters.keys() - {"self"}:
            assert any(name in row for row in words), (function, name)
    assert {here for _, here in rows} <= WORDS
