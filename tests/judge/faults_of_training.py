"""Faults in a training: its loss, its backward and its optimizer."""

from typing import Any

import torch
from anatomy import Body, Place, Truth, own
from kinds import fault
from torch import Tensor
from torch.nn import functional

TRAIN = ("train",)
WEIGHTED = ("model.embed_tokens", "*_proj", "*norm", "lm_head")


def _update(token: int) -> Truth:
    """A wrong update appears in the ops of the next step, all of whose weights
    differ.
    """
    return [
        *(Place(name, io="output", token=token) for name in WEIGHTED),
        *_optimizer(token - 1),
    ]


def _optimizer(token: int) -> Truth:
    """The records of the optimizer."""
    return [
        Place("*", io="state", token=token),
        Place("", io="state", token=token),
        Place("", token=token, is_outside=True),
    ]


@fault(TRAIN)
def learning_rate_wrong(body: Body) -> Truth:
    body.setup.loop.lr *= 1.5
    return _update(1)


@fault(TRAIN)
def weight_decay_missing(body: Body) -> Truth:
    body.setup.loop.weight_decay = 0.0
    return _update(1)


@fault(TRAIN)
def beta_wrong(body: Body) -> Truth:
    body.setup.loop.betas = (0.8, 0.95)
    return _update(2)


@fault(TRAIN)
def gradients_not_zeroed(body: Body) -> Truth:
    body.setup.loop.forgets_gradients_at = 0
    return _optimizer(1)


@fault(TRAIN)
def gradients_not_clipped(body: Body) -> Truth:
    body.setup.loop.clip = None
    return _optimizer(0)


def _loss(body: Body, **options: Any) -> Truth:
    shift = options.pop("shift", 1)
    scale = options.pop("scale", 1.0)

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        end = logits.shape[1] - shift
        flat = logits[:, :end].reshape(-1, logits.shape[-1])
        wanted = labels[:, shift:].reshape(-1)
        return scale * functional.cross_entropy(flat, wanted, **options)

    body.setup.model.loss = loss
    return [own("", "lm_head", "")]


@fault(TRAIN)
def loss_is_a_sum(body: Body) -> Truth:
    return _loss(body, reduction="sum")


@fault(TRAIN)
def labels_not_shifted(body: Body) -> Truth:
    return _loss(body, shift=0)


@fault(TRAIN)
def labels_shifted_twice(body: Body) -> Truth:
    return _loss(body, shift=2)


@fault(TRAIN)
def labels_smoothed(body: Body) -> Truth:
    return _loss(body, label_smoothing=0.1)


@fault(TRAIN)
def loss_not_divided_by_the_steps(body: Body) -> Truth:
    return _loss(body, scale=2.0)


class _Scaled(torch.autograd.Function):
    """Is the identity in the forward and computes a wrong gradient in the backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 1.5


@fault(TRAIN)
def backward_of_attention_wrong(body: Body) -> Truth:
    attention = body.part("attention")
    plain = attention.merge
    attention.merge = lambda out: _Scaled.apply(plain(out))
    parts = ("", "q_proj", "k_proj", "v_proj", "o_proj")
    return [own(body.path("attention"), parts, parts)]


@fault(TRAIN)
def backward_of_the_activation_wrong(body: Body) -> Truth:
    module = body.part("act")
    module.forward = lambda x: _Scaled.apply(functional.silu(x))
    return [Place(body.path("act"), io="grad_input")]


@fault(TRAIN)
def gradient_of_a_weight_halved(body: Body) -> Truth:
    role = body.draw.choice(("q", "v", "o", "up", "down"))
    body.part(role).weight.register_hook(lambda gradient: gradient / 2)
    return [Place(body.path(role), io="grad_weight")]


@fault(TRAIN)
def residual_detached(body: Body) -> Truth:
    """No gradient flows back through the attention."""
    body.part("layer").add_attention = lambda x, change: x + change.detach()
    parts = ("", "self_attn", "input_layernorm", "post_attention_layernorm", "mlp")
    return [own(body.path("layer"), parts, parts)]
