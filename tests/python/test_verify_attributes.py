"""Siblings that the module tree describes differently."""

import pytest
from msitd.verify.attributes import compare_attributes
from msitd.verify.calls import calls_of
from msitd.verify.modules import Module
from msitd.verify.siblings import Tree, groups_of
from msitd.verify.unlike import ATTRIBUTES, ENDS, STRUCTURE, Unlike
from recorded_calls import Content, Recording, module

X = Content("x")


def attributes(modules: dict[str, Module]) -> list[Unlike]:
    run = Recording()
    for op in modules:
        if op.count(".") == 1:
            with run.module(op, X, X):
                pass
    (group,) = groups_of(calls_of(run.records, modules))
    return list(compare_attributes(group, Tree(modules)))


def test_attributes_and_parameters_of_modules() -> None:
    modules = {}
    for n in range(5):
        modules[f"root.{n}"] = module("Block", layer_idx=n)
        bias = {} if n == 1 else {"bias": "float32 [4]"}
        eps = 0.01 if n == 3 else 1e-6
        modules[f"root.{n}.norm"] = module("Norm", {"weight": "", **bias}, eps=eps)
    one, two = attributes(modules)
    assert one.severity == two.severity == ATTRIBUTES
    assert (one.place, one.text) == ("root.3.norm", "eps 0.01, in 4 siblings 1e-06")
    assert two.text == "parameter bias is not given, other than in 4 siblings"


@pytest.mark.parametrize(("at", "severity"), [(0, ENDS), (2, STRUCTURE), (4, ENDS)])
def test_a_part_that_only_one_block_has(at: int, severity: int) -> None:
    modules = {f"root.{n}": module("Block") for n in range(5)}
    modules[f"root.{at}.bias"] = module("Embedding")
    (found,) = attributes(modules)
    assert (found.severity, found.place) == (severity, f"root.{at}.bias")
    assert found.text == "Embedding, in 4 siblings not there"
