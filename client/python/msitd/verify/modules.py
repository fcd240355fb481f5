"""The fixed table of module classes that are one function of their weights.

The class and the attributes of a module are those of the document `module_tree.json`
of the run. A class is looked up by its name, and no code of it is imported. Each entry
makes the call of the function that the class is known to make.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msitd.verify import replay
from msitd.verify.arguments import Arguments, parse
from msitd.verify.table import KIND_OF, MODULE_REASON, Kind, Spec
from msitd.verify.unchecked import Unchecked

if TYPE_CHECKING:
    import torch

    from msitd.verify.records import Call
    from msitd.verify.scores import Checked

# Maximum size of a document, and number of modules in it.
_DOCUMENT_MAX = 64 << 20
_MODULES_MAX = 1 << 20

_TUPLE = re.compile(r"\(([-+0-9., e]{0,250})\)\Z")

_CHANGED = "its weights may have changed since they were recorded"
_NO_WEIGHT = "its weights were not recorded"
_NO_ATTRIBUTE = "its attributes were not recorded"
_OTHER_CALL = "it was called with other arguments than its class has"


class Module(NamedTuple):
    """The description of a module in a run."""

    kind: str
    training: bool
    parameters: frozenset[str]
    attributes: Mapping[str, Any]

    def get(self, name: str) -> Any:
        """Returns an attribute. Raises Unchecked without it."""
        if name not in self.attributes:
            raise Unchecked(_NO_ATTRIBUTE)
        return self.attributes[name]


Weights = Callable[[str], Any]
Build = Callable[[Module, "torch.Tensor", Weights], tuple[str, Arguments]]


def parse_tree(text: str) -> dict[str, Module]:
    """Returns the modules of a document by op. Invalid parts are left out."""
    if len(text) > _DOCUMENT_MAX:
        return {}
    try:
        found = json.loads(text)["modules"][:_MODULES_MAX]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    out: dict[str, Module] = {}
    for each in found:
        try:
            attributes = each.get("attributes", {})
            out[str(each["op"])] = Module(
                str(each["class"]),
                bool(each.get("training", False)),
                frozenset(map(str, each.get("parameters", {}))),
                {str(k): _attribute(str(v)) for k, v in attributes.items()},
            )
        except (KeyError, TypeError, AttributeError):
            continue
    return out


def _attribute(text: str) -> Any:
    """Returns the value of an attribute; the text itself if it has no known form."""
    if text == "None":
        return None
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    inner = _TUPLE.match(text)
    try:
        if inner is None:
            return parse("number", text)
        parts = [part.strip() for part in inner.group(1).split(",") if part.strip()]
        return tuple(parse("number", part) for part in parts)
    except Unchecked:
        return text


def _linear(m: Module, x: Any, weight: Weights) -> tuple[str, Arguments]:
    bias = weight("bias") if "bias" in m.parameters else None
    return "linear", Arguments((x, weight("weight"), bias), {})


def _hf_conv1d(m: Module, x: Any, weight: Weights) -> tuple[str, Arguments]:
    return "linear", Arguments((x, weight("weight").T, weight("bias")), {})


def _embedding(m: Module, x: Any, weight: Weights) -> tuple[str, Arguments]:
    if m.attributes.get("max_norm") is not None:
        raise Unchecked("its weights change when it is called")
    return "embedding", Arguments((x, weight("weight"), m.get("padding_idx")), {})


def _layer_norm(m: Module, x: Any, weight: Weights) -> tuple[str, Arguments]:
    shape = m.get("normalized_shape")
    values = [weight(n) if n in m.parameters else None for n in ("weight", "bias")]
    return "layer_norm", Arguments((x, shape, *values, m.get("eps")), {})


def _rms_norm(m: Module, x: Any, weight: Weights) -> tuple[str, Arguments]:
    scale = weight("weight") if "weight" in m.parameters else None
    shape = (int(x.shape[-1]),) if scale is None else tuple(scale.shape)
    eps = m.attributes.get("variance_epsilon", m.attributes.get("eps"))
    if eps is None:
        raise Unchecked(_NO_ATTRIBUTE)
    return "rms_norm", Arguments((x, shape, scale, eps), {})


def _group_norm(m: Module, x: Any, weight: Weights) -> tuple[str, Arguments]:
    values = [weight(n) if n in m.parameters else None for n in ("weight", "bias")]
    return "group_norm", Arguments((x, m.get("num_groups"), *values, m.get("eps")), {})


def _conv(name: str) -> Build:
    def build(m: Module, x: Any, weight: Weights) -> tuple[str, Arguments]:
        if m.get("padding_mode") != "zeros":
            raise Unchecked(MODULE_REASON)
        bias = weight("bias") if "bias" in m.parameters else None
        names = ("stride", "padding", "dilation", "groups")
        given = (x, weight("weight"), bias, *(m.get(each) for each in names))
        return name, Arguments(given, {})

    return build


def _plain(name: str, *attributes: str) -> Build:
    def build(m: Module, x: Any, _: Weights) -> tuple[str, Arguments]:
        return name, Arguments((x,), {each: m.get(each) for each in attributes})

    return build


def _dropout(m: Module, x: Any, _: Weights) -> tuple[str, Arguments]:
    return "dropout", Arguments((x, m.get("p"), m.training), {})


def _identity(m: Module, x: Any, _: Weights) -> tuple[str, Arguments]:
    return "dropout", Arguments((x, 0.0, False), {})


# Classes by their whole names.
_CLASSES: dict[str, Build] = {
    f"torch.nn.modules.{path}": build
    for path, build in {
        "linear.Linear": _linear,
        "linear.NonDynamicallyQuantizableLinear": _linear,
        "linear.Identity": _identity,
        "sparse.Embedding": _embedding,
        "normalization.LayerNorm": _layer_norm,
        "normalization.RMSNorm": _rms_norm,
        "normalization.GroupNorm": _group_norm,
        "conv.Conv1d": _conv("conv1d"),
        "conv.Conv2d": _conv("conv2d"),
        "conv.Conv3d": _conv("conv3d"),
        "dropout.Dropout": _dropout,
        "activation.GELU": _plain("gelu", "approximate"),
        "activation.SiLU": _plain("silu"),
        "activation.ReLU": _plain("relu"),
        "activation.ReLU6": _plain("relu6"),
        "activation.Sigmoid": _plain("sigmoid"),
        "activation.Tanh": _plain("tanh"),
        "activation.ELU": _plain("elu", "alpha"),
        "activation.LeakyReLU": _plain("leaky_relu", "negative_slope"),
        "activation.Softmax": _plain("softmax", "dim"),
        "activation.LogSoftmax": _plain("log_softmax", "dim"),
        "activation.Mish": _plain("mish"),
        "activation.Hardswish": _plain("hardswish"),
        "activation.Hardsigmoid": _plain("hardsigmoid"),
        "flatten.Flatten": _plain("flatten", "start_dim", "end_dim"),
    }.items()
}
_HF_RMS = re.compile(
    r"transformers\.models\.[a-z0-9_]{1,40}\.modeling_[a-z0-9_]{1,40}\."
    r"(Llama|Mistral|Mixtral|Qwen2|Qwen2Moe|Qwen3|Qwen3Moe|T5Layer|Phi3|DeepseekV2|"
    r"DeepseekV3|Olmo2|Granite|Cohere)(RMS)?Norm\Z"
)
_HF = {
    "transformers.pytorch_utils.Conv1D": _hf_conv1d,
    "transformers.activations.SiLUActivation": _plain("silu"),
    "transformers.activations.GELUActivation": _plain("gelu"),
}
# Functions of torch itself, where torch.nn.functional has none.
_OF_TORCH = ("sigmoid", "tanh", "flatten")
# Classes that round between their steps.
_STEPWISE = frozenset(("rms_norm",))


def _build_of(kind: str) -> Build | None:
    if kind in _CLASSES:
        return _CLASSES[kind]
    if kind in _HF:
        return _HF[kind]
    is_rms = _HF_RMS.match(kind) is not None and "LayerNorm" not in kind.replace(
        "T5LayerNorm", ""
    )
    return _rms_norm if is_rms else None


class Modules:
    """The modules of a rank of a run.

    Args:
        tree: See `parse_tree`.
        weight_of: Returns a recorded weight of an op by name, or None.
    """

    def __init__(
        self,
        tree: Mapping[str, Module],
        weight_of: Callable[[str, str], torch.Tensor | None],
    ) -> None:
        self._tree = tree
        self._weight_of = weight_of

    def has(self, op: str) -> bool:
        """Returns whether an op is a module of the run."""
        return op in self._tree

    def can_check(self, op: str) -> bool:
        """Returns whether the class of a module is in the table."""
        return op in self._tree and _build_of(self._tree[op].kind) is not None

    def call_of(self, op: str, token: int, given: Arguments) -> tuple[Spec, Arguments]:
        """Returns the function that a call of a module is, with its arguments.

        Raises:
            Unchecked: The class is not in the table, or something is missing.
        """
        import torch

        module = self._tree[op]
        build = _build_of(module.kind)
        if build is None:
            raise Unchecked(MODULE_REASON)
        # The wrappers of Hugging Face name the only argument.
        tensors = (*given.args, *given.kwargs.values())
        if len(tensors) != 1 or not isinstance(tensors[0], torch.Tensor):
            raise Unchecked(_OTHER_CALL)

        def weight(name: str) -> torch.Tensor:
            if module.training and token > 0:
                raise Unchecked(_CHANGED)
            found = self._weight_of(op, name)
            if found is None:
                raise Unchecked(_NO_WEIGHT)
            return found

        name, arguments = build(module, tensors[0], weight)
        owner = "torch" if name in _OF_TORCH else "torch.nn.functional"
        kind = Kind.COMPOSITE if name in _STEPWISE else KIND_OF[name]
        return Spec(kind, owner, name), arguments

    def check_weights(
        self,
        spec: Spec,
        arguments: Arguments,
        outputs: Mapping[str, torch.Tensor],
        grads: Mapping[str, torch.Tensor],
        wanted: Mapping[str, torch.Tensor],
        call: Call,
        token: int,
    ) -> dict[str, Checked | Unchecked]:
        """Checks the gradients of the weights of a module, of which this must be the
        only call of the token.
        """
        positions = _POSITIONS.get(spec.name, {})
        known = {positions[n]: w for n, w in wanted.items() if n in positions}
        found: dict[str, Checked | Unchecked] = {}
        if known:
            found = replay.check_gradients(spec, arguments, outputs, grads, known)
        return {
            name: found.get(positions.get(name, ""), Unchecked(MODULE_REASON))
            for name in wanted
        }


# The arguments that are weights.
_POSITIONS = {
    "linear": {"weight": "1", "bias": "2"},
    "embedding": {"weight": "1"},
    "layer_norm": {"weight": "2", "bias": "3"},
    "rms_norm": {"weight": "2"},
    "group_norm": {"weight": "2", "bias": "3"},
    **{f"conv{n}d": {"weight": "1", "bias": "2"} for n in (1, 2, 3)},
}
