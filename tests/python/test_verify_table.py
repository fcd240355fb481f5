"""The fixed tables of `msitctl verify`: what a run can cause to be called."""

import json

import pytest
import torch
from msitd._core.api import names
from msitd.verify import modules, table
from msitd.verify.unchecked import Unchecked

OWNERS = (
    torch.nn.functional,
    torch,
    torch.Tensor,
    torch.linalg,
    torch.fft,
    torch.ops.aten,
)


def test_a_function_is_in_one_list_only() -> None:
    seen: dict[str, str] = {}
    lists = {kind.value: text for kind, text in table.KINDS.items()}
    for kind, text in {**lists, "random": table._RANDOM}.items():
        for name in set(text.split()):
            assert seen.setdefault(name, kind) == kind, name
    assert set(table._CREATING.split()) <= table.KIND_OF.keys()


def test_names_of_the_table_are_those_of_torch() -> None:
    unknown = [
        name
        for name in table.KIND_OF
        if not any(
            hasattr(o, n) for o in OWNERS for n in (name, f"{name}_", f"__{name}__")
        )
    ]
    assert unknown == []


def test_most_recorded_functions_are_in_the_table() -> None:
    prefixes = {
        "Torch.": names.TORCH + names.LINALG,
        "Torch.fft.": names.FFT,
        "VF.": names.VF,
        "Functional.": names.FUNCTIONAL,
        "Tensor.": names.TENSOR,
    }
    found = [
        isinstance(table.find(prefix + name), table.Spec)
        for prefix, text in prefixes.items()
        for name in text.split()
        if not name.startswith(("_foreach", "_fused"))
    ]
    assert sum(found) / len(found) > 0.8


@pytest.mark.parametrize(
    ("op", "plain", "in_place"),
    [
        ("Tensor.__iadd__", "add", True),
        ("Tensor.__radd__", "add", False),
        ("Tensor.__invert__", "bitwise_not", False),
        ("Tensor.__setitem__", "setitem", True),
        ("Torch.relu_", "relu", True),
        ("Aten.expand_copy", "expand", False),
        ("Torch._foreach_addcdiv_", "addcdiv", True),
        ("backward/mm_1-aten.mm.default", "mm", False),
    ],
)
def test_forms_of_a_function_have_its_kind(op: str, plain: str, in_place: bool) -> None:
    spec = table.find(op)
    assert isinstance(spec, table.Spec)
    assert (spec.plain, spec.is_in_place) == (plain, in_place)
    assert spec.kind == table.KIND_OF[plain]


@pytest.mark.parametrize(
    "op",
    [
        *(
            "Torch.load",
            "Torch.save",
            "Torch.hub.load",
            "Torch.ops",
            "Torch.__import__",
        ),
        *(
            "Tensor.__class__",
            "Tensor.__reduce_ex__",
            "Tensor.numpy",
            "Tensor.data_ptr",
        ),
        *("Functional.__builtins__", "Functional.os.system", "Aten.__class__"),
        *("x-aten.__class__.default", "x-aten._ops.default", "x-prims.add.default"),
        *(
            "",
            "Torch.",
            "Tensor.add\n",
            "Tensor.add;os.system('id')",
            "relu",
            "VF.relu",
            "Torch.fft",
            "Torch._foreach_sort",
            "Torch._foreach_load",
            "Torch.fft.relu",
            "Torch.rfft",
        ),
        "Torch.add.__globals__",
        "a-aten.add.default.__class__",
    ],
)
def test_what_is_not_in_the_table_is_refused(op: str) -> None:
    assert isinstance(table.find(op), table.Refusal)


def test_reasons_tell_random_functions_and_collectives_apart() -> None:
    assert table.find("Torch.randn") == table.Refusal(table.RANDOM_REASON)
    assert table.find("Tensor.bernoulli_") == table.Refusal(table.RANDOM_REASON)
    assert table.find("Distributed.all_reduce") == table.Refusal(
        table.COLLECTIVE_REASON
    )


def tree(kind: str, **attributes: str) -> str:
    module = {
        "op": "root",
        "class": kind,
        "parent": None,
        "training": False,
        "parameters": {"weight": {}},
        "buffers": {},
        "attributes": attributes,
    }
    return json.dumps({"version": 1, "modules": [module]})


def test_a_module_is_known_by_its_class_and_attributes() -> None:
    kind = "torch.nn.modules.normalization.LayerNorm"
    text = tree(kind, eps="1e-12", normalized_shape="(4,)")
    known = modules.Modules(modules.parse_tree(text), lambda op, name: torch.ones(4))
    from msitd.verify.arguments import Arguments

    spec, given = known.call_of("root", 0, Arguments((torch.zeros(2, 4),), {}))
    assert spec.name == "layer_norm"
    assert given.args[1] == (4,)
    assert given.args[4] == 1e-12


@pytest.mark.parametrize(
    "kind",
    [
        *("os.system", "torch.nn.modules.linear.Linear2", "my.Linear", ""),
        "transformers.models.llama.modeling_llama.LlamaMLP",
        "transformers.models.bert.modeling_bert.BertLayerNorm",
        "evil.transformers.models.llama.modeling_llama.LlamaRMSNorm",
    ],
)
def test_other_classes_are_refused(kind: str) -> None:
    from msitd.verify.arguments import Arguments

    known = modules.Modules(modules.parse_tree(tree(kind)), lambda op, name: None)
    assert not known.can_check("root")
    with pytest.raises(Unchecked):
        known.call_of("root", 0, Arguments((torch.zeros(2, 4),), {}))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "[]",
            "{}",
            '{"modules":3}',
            '{"modules":[1,null,{"op":1}]}',
            "[" * 100_000,
        ),
        '{"modules":[{"op":"a","class":"b","attributes":{"eps":"__import__(1)"}}]}',
    ],
)
def test_invalid_documents_have_no_modules_with_functions(text: str) -> None:
    found = modules.parse_tree(text)
    assert all(
        not modules.Modules(found, lambda *_: None).can_check(op) for op in found
    )


def test_weights_of_a_training_are_those_of_its_first_token() -> None:
    from msitd.verify.arguments import Arguments

    text = tree("torch.nn.modules.linear.Linear").replace("false", "true")
    known = modules.Modules(modules.parse_tree(text), lambda op, name: torch.ones(2, 4))
    given = Arguments((torch.zeros(2, 4),), {})
    assert known.call_of("root", 0, given)[0].name == "linear"
    with pytest.raises(Unchecked, match="may have changed"):
        known.call_of("root", 1, given)
