"""Faults with a known cause, for two models each, and how they are recorded."""

import dataclasses
import threading
from collections.abc import Callable, Sequence

import msitd
import torch
from crafted_models import (
    DIM,
    LAYERS,
    VOCABULARY,
    Linear,
    Stage,
    Twice,
    decoder,
    encoder,
    sharded,
)
from torch import Tensor, nn

Call = tuple[Tensor, Tensor]
# Threads slow small models down.
torch.set_num_threads(1)

MODELS = {"encoder": encoder, "decoder": decoder}


@dataclasses.dataclass(kw_only=True)
class Case:
    """One fault of the target run, and its cause.

    `encoder` and `decoder` are the beginnings that the line `cause` must have
    for each model; `place` must also be in the line. `wrong` changes the model
    and `wrong_calls` its inputs, in the target run only.
    """

    name: str
    encoder: str
    decoder: str
    place: str = ""
    wrong: Callable[[nn.Module], object] | None = None
    wrong_calls: Callable[[list[Call]], object] | None = None
    # A difference from the plain model that both runs share.
    variant: str = ""
    make: Callable[[nn.Module], nn.Module] = lambda model: model
    hook: dict[str, bool] = dataclasses.field(default_factory=dict)
    flags: tuple[str, ...] = ()


@dataclasses.dataclass(kw_only=True)
class RankCase:
    """One fault in a run of two ranks, also for two models."""

    name: str
    kinds: tuple[str, str]
    culprits: tuple[str, str]
    place: str
    wrong: Callable[[Sequence[nn.Module]], object]


def at(path: str, fault: str) -> Callable[[nn.Module], None]:
    """Returns a function that sets the fault of the module at `path`."""

    def change(model: nn.Module) -> None:
        model.get_submodule(path).fault = fault  # type: ignore[assignment]

    return change


def add(path: str, value: float, rows: int = 4) -> Callable[[nn.Module], None]:
    """Returns a function that adds to the first rows of a parameter."""

    def change(model: nn.Module) -> None:
        data = model.get_parameter(path).data[:rows]
        # Not constant, because the result of a norm has a mean of 0.
        data += value * torch.cos(torch.arange(float(data.numel()))).view(data.shape)

    return change


def all_linears(fault: str) -> Callable[[nn.Module], None]:
    def change(model: nn.Module) -> None:
        for module in model.modules():
            if isinstance(module, Linear):
                module.fault = fault  # type: ignore[assignment]

    return change


def both(*changes: Callable[[nn.Module], object]) -> Callable[[nn.Module], None]:
    def change(model: nn.Module) -> None:
        for one in changes:
            one(model)

    return change


def scale_attention(layer: int, factor: float) -> Callable[[nn.Module], None]:
    def change(model: nn.Module) -> None:
        model.layers[layer].attn.scale *= factor

    return change


def own(op: str, after: str, before: str) -> str:
    """Returns the words for code between two parts of an op."""
    after, before = (f"{op}.{part}" if part else "" for part in (after, before))
    if not before:
        return f"own code of {op}, after {after};"
    if not after:
        return f"own code of {op}, before {before};"
    return f"own code of {op}, between {after} and {before};"


def same(culprit: str) -> dict[str, str]:
    return {"encoder": culprit, "decoder": culprit}


def wrong_context(calls: list[Call]) -> None:
    calls[1] = (calls[1][0], calls[1][1] + 0.5)


def wrong_tokens(calls: list[Call]) -> None:
    calls[2] = ((calls[2][0] + 7) % VOCABULARY, calls[2][1])


L0, L1, L2 = (f"root.layers.{i}" for i in range(LAYERS))
ATTENTION = own(f"{L1}.attn", "v", "o")

CASES = [
    Case(
        name="weight of a projection",
        wrong=add("layers.1.attn.q.weight", 0.1),
        **same(f"{L1}.attn.q output/0"),
    ),
    Case(
        name="weight behind an activation",
        wrong=add("layers.0.mlp.down.weight", 0.1),
        **same(f"{L0}.mlp.down output/0"),
    ),
    Case(
        name="one element of a weight",
        wrong=add("layers.2.attn.v.weight", 0.02, rows=1),
        **same(f"{L2}.attn.v output/0"),
    ),
    Case(
        name="bias in an MLP",
        wrong=add("layers.2.mlp.up.bias", 0.1),
        **same(f"{L2}.mlp.up output/0"),
    ),
    Case(
        name="bias of the head",
        wrong=add("head.bias", 0.1),
        **same("root.head output/0"),
    ),
    Case(
        name="embeddings",
        wrong=add("embed.weight", 0.1, rows=VOCABULARY),
        **same("root.embed output/0"),
    ),
    Case(
        name="weight of a norm",
        wrong=add("layers.1.norm2.weight", 0.1),
        **same(f"{L1}.norm2 output/0"),
    ),
    Case(
        name="op that no tensor is given to",
        wrong=add("positions.weight", 0.1),
        **same("root.positions output/0"),
    ),
    Case(
        name="weight on record",
        variant="weights",
        hook={"weights": True},
        wrong=add("layers.1.attn.v.weight", 0.1),
        **same(f"{L1}.attn.v weight/weight"),
    ),
    Case(
        name="bias on record",
        variant="weights",
        hook={"weights": True},
        wrong=add("head.bias", 0.1),
        **same("root.head weight/bias"),
    ),
    Case(
        name="weight on record that passes",
        variant="weights",
        hook={"weights": True},
        flags=("--rule", "*.mlp.down: nl2 <= 0.05"),
        wrong=add("layers.1.mlp.down.weight", 0.004, rows=DIM),
        **same(f"{L1}.mlp.down weight/weight"),
    ),
    Case(
        name="op that computes in bfloat16, weights on record",
        variant="weights",
        hook={"weights": True},
        wrong=at("layers.1.attn.o", "computes in bfloat16"),
        **same(f"{L1}.attn.o output/0"),
    ),
    Case(
        name="op that computes in bfloat16",
        wrong=at("layers.1.mlp.up", "computes in bfloat16"),
        **same(f"{L1}.mlp.up output/0"),
    ),
    Case(
        name="op that returns bfloat16",
        wrong=at("layers.1.attn.o", "returns bfloat16"),
        **same(f"{L1}.attn.o output/0"),
    ),
    Case(
        name="last op that returns bfloat16 before others",
        wrong=at("layers.2.mlp.down", "returns bfloat16"),
        **same(f"{L2}.mlp.down output/0"),
    ),
    Case(
        name="parts that are given bfloat16",
        wrong=at("layers.1.mlp", "gives bfloat16 to its parts"),
        **same(own(f"{L1}.mlp", "", "up")),
    ),
    Case(
        name="NaN from code of its own",
        wrong=at("layers.1.attn", "masks all"),
        **same(ATTENTION),
    ),
    Case(
        name="NaN in a weight",
        wrong=add("layers.1.mlp.down.weight", float("nan"), rows=1),
        **same(f"{L1}.mlp.down output/0"),
    ),
    Case(
        name="infinity from an op",
        wrong=at("layers.0.mlp.up", "overflows"),
        **same(f"{L0}.mlp.up output/0"),
    ),
    Case(
        name="swapped inputs",
        wrong=at("layers.1", "swaps"),
        encoder=own(L1, "attn", "mix"),
        decoder=own(L1, "mlp", "mix"),
        place="changed places",
    ),
    Case(
        name="keys for values",
        wrong=at("layers.1.attn", "values are keys"),
        **same(ATTENTION),
    ),
    Case(
        name="result that is not used",
        wrong=at("", "forgets norm"),
        **same(own("root", "norm", "head")),
    ),
    Case(
        name="residual scale",
        wrong=at("layers.1", "scales residual"),
        encoder=own(L1, "mlp", "norm2"),
        decoder=own(L1, "attn", "norm2"),
    ),
    Case(
        name="residual scale in the last layer",
        wrong=at("layers.2", "scales residual"),
        encoder=own(L2, "mlp", "norm2"),
        decoder=own(L2, "attn", "norm2"),
    ),
    Case(
        name="scale at the end of a layer",
        wrong=at("layers.1", "scales its end"),
        encoder=own(L1, "norm2", ""),
        decoder=own(L1, "mix", ""),
    ),
    Case(
        name="scale of embeddings",
        wrong=at("", "scales embeddings"),
        **same(own("root", "positions", "layers.0")),
    ),
    Case(
        name="attention scale",
        wrong=scale_attention(1, 1.1),
        **same(ATTENTION),
    ),
    Case(
        name="attention scale in the first layer",
        wrong=scale_attention(0, 0.5),
        **same(own(f"{L0}.attn", "v", "o")),
    ),
    Case(
        name="attention mask",
        wrong=at("layers.1.attn", "mask is off by one"),
        **same(ATTENTION),
    ),
    Case(
        name="other branch",
        wrong=at("layers.1.mlp", "takes the other act"),
        encoder=own(f"{L1}.mlp", "up", "down"),
        decoder=own(f"{L1}.mlp", "gate", "down"),
        place="other_act",
    ),
    Case(
        name="part that is not called",
        wrong=at("layers.1", "skips norm"),
        encoder=own(L1, "mix", "mlp"),
        decoder=own(L1, "attn", "mlp"),
        place="only golden calls",
    ),
    Case(
        name="part that golden does not call",
        wrong=at("layers.1", "calls extra"),
        encoder=own(L1, "norm1", "mlp"),
        decoder=own(L1, "norm2", "mlp"),
        place="only target calls",
    ),
    Case(
        name="state that an op forgets",
        wrong=at("memory", "forgets"),
        **same("root.memory output/0"),
        place="token 2",
    ),
    Case(
        name="state between calls of a layer",
        # The encoder has no cache; its memory starts with another state.
        wrong=lambda model: (
            at("layers.1.attn", "stale cache")(model)
            if model.layers[0].attn.causal
            else setattr(model.memory, "state", torch.ones(DIM))
        ),
        encoder="root.memory output/0",
        decoder=ATTENTION,
    ),
    Case(
        name="state that the caller keeps",
        wrong_calls=wrong_context,
        **same("inputs of the model: root input/1"),
        place="token 1",
    ),
    Case(
        name="tokens",
        wrong_calls=wrong_tokens,
        # Nothing in the model caused it, so the line is missing.
        **same(""),
        place="inputs of the model differ from token 2: ",
    ),
    Case(
        name="two projections of one layer",
        wrong=both(
            add("layers.1.attn.v.weight", 0.1), add("layers.1.attn.q.weight", 1.0)
        ),
        **same(f"{L1}.attn.q output/0"),
    ),
    Case(
        name="weights on record of two layers",
        variant="weights",
        hook={"weights": True},
        wrong=both(
            add("layers.1.attn.v.weight", 0.1), add("layers.2.mlp.up.weight", 1.0)
        ),
        **same(f"{L1}.attn.v weight/weight"),
    ),
    Case(
        name="one call of two",
        variant="twice",
        make=Twice,
        wrong=at("shared", "second call"),
        **same(own("root.shared", "", "part")),
        place="call 1",
    ),
    Case(
        name="inputs that are not on record",
        variant="outputs",
        hook={"inputs": False},
        wrong=add("layers.1.mlp.down.weight", 0.1),
        **same(f"{L1}.mlp.down output/0"),
    ),
    Case(
        name="weight above the noise of other kernels",
        wrong=both(
            all_linears("rounds elsewhere"), add("layers.1.attn.v.weight", 0.01)
        ),
        **same(f"{L1}.attn.v output/0"),
    ),
    Case(
        name="attention scale in bfloat16",
        wrong=both(lambda model: model.bfloat16(), scale_attention(1, 6.0)),
        flags=("--tol", "nl2 <= 0.05"),
        **same(ATTENTION),
    ),
    Case(
        name="drift of other kernels",
        wrong=all_linears("rounds elsewhere"),
        flags=("--tol", "nl2 <= 4.3e-7"),
        **same("accumulated drift"),
    ),
    Case(
        name="drift of bfloat16",
        wrong=lambda model: model.bfloat16(),
        flags=("--tol", "nl2 <= 0.006"),
        **same("accumulated drift"),
    ),
    Case(
        name="drift against float64",
        variant="double",
        make=lambda model: model.double(),
        wrong=lambda model: model.float(),
        flags=("--tol", "nl2 <= 1.8e-7"),
        **same("accumulated drift"),
    ),
]

RANK_CASES = [
    RankCase(
        name="shard of the rank with more ops",
        kinds=("tensor", "expert"),
        culprits=("root.layers.0.up output/0", "root.layers.0.deep.2 output/0"),
        place="rank 1",
        wrong=lambda ranks: (
            add("layers.0.up.weight", 0.1)(ranks[1])
            if hasattr(ranks[1].layers[0], "up")
            else add("layers.0.deep.2.weight", 0.1)(ranks[1])
        ),
    ),
    RankCase(
        name="shard of the rank with more ops in the last layer",
        kinds=("tensor", "expert"),
        culprits=("root.layers.1.up output/0", "root.layers.1.experts.1 output/0"),
        place="rank 1",
        wrong=lambda ranks: (
            add("layers.1.up.weight", 0.1)(ranks[1])
            if hasattr(ranks[1].layers[0], "up")
            else add("layers.1.experts.1.bias", 0.1)(ranks[1])
        ),
    ),
    RankCase(
        name="shard of the rank with fewer ops",
        kinds=("tensor", "expert"),
        culprits=("root.layers.1.up output/0", "root.layers.1.experts.0 output/0"),
        place="rank 0",
        wrong=lambda ranks: (
            add("layers.1.up.weight", 0.1)(ranks[0])
            if hasattr(ranks[0].layers[0], "up")
            else add("layers.1.experts.0.bias", 0.1)(ranks[0])
        ),
    ),
    RankCase(
        name="first stage of a pipeline",
        kinds=("encoder stages", "decoder stages"),
        culprits=(own("root.layers.1.attn", "v", "o"),) * 2,
        place="rank 0",
        wrong=lambda ranks: scale_attention(1, 2.0)(ranks[0]),
    ),
    RankCase(
        name="first op of the first stage",
        kinds=("encoder stages", "decoder stages"),
        culprits=("root.embed output/0",) * 2,
        place="rank 0",
        wrong=lambda ranks: add("embed.weight", 0.1, rows=VOCABULARY)(ranks[0]),
    ),
    RankCase(
        name="last stage of a pipeline",
        kinds=("encoder stages", "decoder stages"),
        culprits=("root.layers.0.mlp.up output/0",) * 2,
        place="rank 1",
        wrong=lambda ranks: add("layers.0.mlp.up.bias", 0.1)(ranks[1]),
    ),
]


def calls_of(kind: str) -> list[Call]:
    """Returns the inputs of the model for three tokens."""
    torch.manual_seed(4)
    lengths = (6, 6, 6) if kind == "encoder" else (5, 1, 1)
    return [
        (torch.randint(VOCABULARY, (2, length)), torch.randn(1, 1, DIM))
        for length in lengths
    ]


def record(endpoint: str, run: str, kind: str, case: Case, is_target: bool) -> None:
    """Records a run of one rank."""
    model = case.make(MODELS[kind]())
    calls = calls_of(kind)
    if is_target and case.wrong is not None:
        case.wrong(model)
    if is_target and case.wrong_calls is not None:
        case.wrong_calls(calls)
    dtype = next(model.parameters()).dtype
    with (
        torch.no_grad(),
        msitd.Client(run, endpoint=endpoint) as client,
        msitd.register_hook(model, client, **case.hook),
    ):
        for ids, context in calls:
            model(ids, context.to(dtype))


def record_ranks(
    endpoint: str, run: str, kind: str, case: RankCase, is_target: bool
) -> None:
    """Records a run of two ranks."""
    ids = calls_of("encoder")[0][0]
    stages = kind.endswith("stages")
    if stages:
        model = MODELS[kind.split()[0]]()
        ranks: Sequence[nn.Module] = [Stage(model, 0, 2), Stage(model, 2, LAYERS)]
    else:
        ranks = sharded(kind)
    if is_target:
        case.wrong(ranks)

    def run_rank(rank: int, x: Tensor) -> Tensor:
        with (
            torch.no_grad(),
            msitd.Client(run, rank=rank, world_size=2, endpoint=endpoint) as client,
            msitd.register_hook(ranks[rank], client),
        ):
            return ranks[rank](x)

    if stages:
        run_rank(1, run_rank(0, ids))
        return
    threads = [threading.Thread(target=run_rank, args=(rank, ids)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
