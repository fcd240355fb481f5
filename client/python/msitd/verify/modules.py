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

from msitd.query import select
from msitd.query.errors import QueryError
from msitd.verify import recurrent, replay
from msitd.verify.arguments import Arguments, parse
from msitd.verify.table import KIND_OF, MODULE_REASON, RECURRENT, Kind, Spec
from msitd.verify.unchecked import Unchecked

if TYPE_CHECKING:
    import torch

    from msitd.query import Connection
    from msitd.verify.records import Call
    from msitd.verify.scores import Checked

# Maximum size of a document, and number of modules in it.
_DOCUMENT_MAX = 64 << 20
_MODULES_MAX = 1 << 20
# Module trees after the first one of a rank.
_TREES_MAX = 64

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
    # Type and shape of each parameter and buffer, as text.
    shapes: Mapping[str, str] = {}

    def get(self, name: str) -> Any:
        """Returns an attribute. Raises Unchecked without it."""
        if name not in self.attributes:
            raise Unchecked(_NO_ATTRIBUTE)
        return self.attributes[name]


Weights = Callable[[str], Any]
Build = Callable[[Module, "torch.Tensor", Weights], tuple[str, Arguments]]
# The same for classes whose modules may have a state as their second argument.
BuildWithState = Callable[[Module, tuple[Any, ...], Weights], tuple[str, Arguments]]


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
                _shapes_of(each),
            )
        except (KeyError, TypeError, AttributeError):
            continue
    return out


def modules_of(daemon: Connection, run: str, rank: int) -> dict[str, Module]:
    """Returns the modules of a rank. Later versions of the document win."""
    out: dict[str, Module] = {}
    chosen = select(ranks=rank, kinds="document", ops="module_tree.json")
    for record in daemon.tensors.list(run, chosen, limit=_TREES_MAX):
        try:
            text = daemon.tensors.read_bytes(record).decode()
        except (QueryError, UnicodeDecodeError):
            continue
        out.update(parse_tree(text))
    return out


def _shapes_of(found: Mapping[str, Any]) -> dict[str, str]:
    out = {}
    for kind in ("parameters", "buffers"):
        each = found.get(kind)
        for name, about in each.items() if isinstance(each, dict) else ():
            if isinstance(about, dict):
                out[str(name)] = f"{about.get('dtype')} {about.get('shape')}"
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


def _layer(m: Module, given: tuple[Any, ...], weight: Weights) -> tuple[str, Arguments]:
    """RNN, LSTM and GRU. Sequences of one batch get a dimension for it."""
    import torch

    name = {"RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}.get(
        m.get("mode"), str(m.get("mode")).lower()
    )
    if name not in RECURRENT or given[0].dim() != 3:
        raise Unchecked(_OTHER_CALL)
    weights = tuple(weight(each) for each in layer_weights(m))
    is_two_way, layers = bool(m.get("bidirectional")), int(m.get("num_layers"))
    state = given[1] if len(given) > 1 else None
    if state is None:
        batch = given[0].shape[0 if m.get("batch_first") else 1]
        counts = (layers * (2 if is_two_way else 1), batch)
        size = int(m.get("hidden_size"))
        first = torch.zeros(*counts, m.get("proj_size") or size, dtype=given[0].dtype)
        second = torch.zeros(*counts, size, dtype=given[0].dtype)
        state = (first, second) if name == "lstm" else first
    flags = (bool(m.get("bias")), layers, float(m.get("dropout")), m.training)
    args = (given[0], state, weights, *flags, is_two_way, bool(m.get("batch_first")))
    return name, Arguments(args, {})


def layer_weights(m: Module) -> list[str]:
    """Returns the names of the weights of a recurrent layer in the order of torch.

    Raises:
        Unchecked: The module does not have them.
    """
    parts = ["weight_ih", "weight_hh"]
    parts += ["bias_ih", "bias_hh"] if m.get("bias") else []
    parts += ["weight_hr"] if m.get("proj_size") else []
    ways = ("", "_reverse") if m.get("bidirectional") else ("",)
    layers = m.get("num_layers")
    if type(layers) is not int or not 0 < layers <= len(m.parameters):
        raise Unchecked(_NO_ATTRIBUTE)
    return [f"{p}_l{n}{way}" for n in range(layers) for way in ways for p in parts]


def _cell(name: str) -> BuildWithState:
    def build(
        m: Module, given: tuple[Any, ...], weight: Weights
    ) -> tuple[str, Arguments]:
        import torch

        kind = f"rnn_{m.get('nonlinearity')}_cell" if name == "rnn_cell" else name
        if kind not in RECURRENT or given[0].dim() != 2:
            raise Unchecked(_OTHER_CALL)
        state = given[1] if len(given) > 1 else None
        if state is None:
            rows, size = given[0].shape[0], int(m.get("hidden_size"))
            zeros = torch.zeros(rows, size, dtype=given[0].dtype)
            state = (zeros, zeros) if name == "lstm_cell" else zeros
        biases = [weight(n) if m.get("bias") else None for n in ("bias_ih", "bias_hh")]
        args = (given[0], state, weight("weight_ih"), weight("weight_hh"), *biases)
        return kind, Arguments(args, {})

    return build


_WITH_STATE: dict[str, BuildWithState] = {
    f"torch.nn.modules.rnn.{kind}": build
    for kind, build in {
        **dict.fromkeys(("RNN", "LSTM", "GRU"), _layer),
        "RNNCell": _cell("rnn_cell"),
        "LSTMCell": _cell("lstm_cell"),
        "GRUCell": _cell("gru_cell"),
    }.items()
}

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
        kind = self._tree[op].kind if op in self._tree else ""
        return kind in _WITH_STATE or _build_of(kind) is not None

    def call_of(self, op: str, token: int, given: Arguments) -> tuple[Spec, Arguments]:
        """Returns the function that a call of a module is, with its arguments.

        Raises:
            Unchecked: The class is not in the table, or something is missing.
        """
        import torch

        module = self._tree[op]
        if not self.can_check(op):
            raise Unchecked(MODULE_REASON)
        with_state = _WITH_STATE.get(module.kind)
        # The wrappers of Hugging Face name the only argument.
        tensors = (*given.args, *given.kwargs.values())
        most = 1 if with_state is None else 2
        if not 1 <= len(tensors) <= most or not isinstance(tensors[0], torch.Tensor):
            raise Unchecked(_OTHER_CALL)

        def weight(name: str) -> torch.Tensor:
            if module.training and token > 0:
                raise Unchecked(_CHANGED)
            found = self._weight_of(op, name)
            if found is None:
                raise Unchecked(_NO_WEIGHT)
            return found

        if with_state is not None:
            name, arguments = with_state(module, tensors, weight)
            return Spec(KIND_OF[name], recurrent.OF_MODULES, name, True), arguments
        build = _build_of(module.kind)
        if build is None:
            raise Unchecked(MODULE_REASON)
        name, arguments = build(module, tensors[0], weight)
        owner = "torch" if name in _OF_TORCH else "torch.nn.functional"
        kind = Kind.COMPOSITE if name in _STEPWISE else KIND_OF[name]
        return Spec(kind, owner, name, True), arguments

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
        if spec.owner == recurrent.OF_MODULES and not spec.name.endswith("_cell"):
            names = layer_weights(self._tree[call.key.op])
            positions = {name: f"2.{at}" for at, name in enumerate(names)}
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
    **{
        f"{name}_cell": {
            "weight_ih": "2",
            "weight_hh": "3",
            "bias_ih": "4",
            "bias_hh": "5",
        }
        for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
    },
    **{f"conv{n}d": {"weight": "1", "bias": "2"} for n in (1, 2, 3)},
}
