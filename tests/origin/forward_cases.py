"""Models whose modules are recorded in one forward."""

import torch
from case import INF, NONE, Fn, Origin, Recording, case, linear, noise, ones
from torch import nn


@case(Origin("root.1"))
def zero_by_zero(recording: Recording) -> None:
    ratio = Fn(lambda x: x / x.abs().sum(-1, keepdim=True))
    x = noise()
    x[1] = 0
    recording.modules(nn.Sequential(nn.Identity(), ratio, linear()), x)


@case(Origin("root.1"))
def log_of_a_negative(recording: Recording) -> None:
    recording.modules(nn.Sequential(linear(), Fn(torch.log), linear()), noise())


@case(Origin("root.1"))
def square_root_of_a_negative(recording: Recording) -> None:
    model = nn.Sequential(linear(), Fn(torch.sqrt), nn.ReLU(), linear())
    recording.modules(model, noise())


@case(Origin("root.1"))
def linear_overflows_float16(recording: Recording) -> None:
    model = nn.Sequential(nn.Identity(), linear(), nn.GELU())
    with torch.no_grad():
        model[1].weight.fill_(3000.0)
    recording.modules(model.half(), ones().half() * 10)


@case(Origin("root.1"))
def exponential_overflows_bfloat16(recording: Recording) -> None:
    model = nn.Sequential(linear(), Fn(lambda x: torch.exp(100 + x)), nn.Tanh())
    recording.modules(model.bfloat16(), noise().bfloat16())


class Masked(nn.Module):
    """Softmax of masked scores."""

    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__()
        self.query = linear()
        self.softmax = nn.Softmax(-1)
        self.out = linear(4, 8)
        self.mask = mask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ x.T
        scores = scores.masked_fill(self.mask, -INF)
        return self.out(self.softmax(scores))


@case(Origin("root.softmax"))
def softmax_of_a_row_that_is_fully_masked(recording: Recording) -> None:
    mask = torch.ones(4, 4, dtype=torch.bool).triu(1)
    mask[2] = True
    recording.modules(Masked(mask), noise())


@case(NONE)
def causal_mask_that_is_healthy(recording: Recording) -> None:
    recording.modules(Masked(torch.ones(4, 4, dtype=torch.bool).triu(1)), noise())


@case(Origin("root.norm"))
def norm_without_epsilon(recording: Recording) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = linear()
            self.norm = Fn(lambda x: x * x.pow(2).mean(-1, keepdim=True).rsqrt())
            self.last = linear()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(self.norm(self.first(x) * 0))

    recording.modules(Model(), noise())


def _with_bad_weight() -> nn.Sequential:
    model = nn.Sequential(linear(), linear(), nn.Tanh())
    with torch.no_grad():
        model[1].weight[2, 3] = torch.nan
    return model


@case(Origin("root.1", "weight"))
def weight_that_was_recorded(recording: Recording) -> None:
    recording.modules(_with_bad_weight(), noise(), weights=True)


@case(Origin("root.1"))
def weight_that_was_not_recorded(recording: Recording) -> None:
    recording.modules(_with_bad_weight(), noise())


@case(Origin("root.1"))
def batch_norm_with_a_bad_buffer(recording: Recording) -> None:
    model = nn.Sequential(linear(), nn.BatchNorm1d(8), linear()).eval()
    model[1].running_var[0] = -1
    recording.modules(model, noise())


@case(Origin("root", "input"))
def input_of_the_model(recording: Recording) -> None:
    x = noise()
    x[0, 0] = torch.nan
    recording.modules(nn.Sequential(linear(), nn.Tanh()), x)


class CodeBetween(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = linear(), linear()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.log(self.first(x)))


@case(Origin("root", "code"))
def code_between_modules(recording: Recording) -> None:
    recording.modules(CodeBetween(), noise())


@case(Origin("root.1", "code"))
def code_of_an_inner_module(recording: Recording) -> None:
    recording.modules(nn.Sequential(linear(), CodeBetween(), linear()), noise())


@case(Origin("root.1.1.0"))
def leaf_in_nested_containers(recording: Recording) -> None:
    inner = nn.Sequential(nn.Tanh(), nn.Sequential(Fn(torch.acos), nn.Tanh()))
    inner[0] = Fn(lambda x: x * 10 + 5)
    recording.modules(nn.Sequential(linear(), inner, linear()), noise())


class Residual(nn.Module):
    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch, self.last = branch, linear()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(x + self.branch(x))


@case(Origin("root.branch.1"))
def residual_branch(recording: Recording) -> None:
    branch = nn.Sequential(linear(), Fn(torch.log), nn.Tanh())
    recording.modules(Residual(branch), noise())


@case(Origin("root.left.0"))
def second_of_two_branches(recording: Recording) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.right = nn.Sequential(linear(), nn.Tanh())
            self.left = nn.Sequential(Fn(torch.sqrt), nn.Tanh())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.right(x) * self.left(x)

    recording.modules(Model(), noise())


@case(Origin("root.experts.2"))
def expert_of_a_mixture(recording: Recording) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = linear(8, 4)
            self.experts = nn.ModuleList(linear() for _ in range(4))
            with torch.no_grad():
                self.experts[2].weight.fill_(60000.0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.router(x)
            out = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                out[i : i + 1] += expert(x[i : i + 1])
            return out

    recording.modules(Model().half(), ones().half() * 2)


@case(Origin("root.1"))
def module_that_works_in_place(recording: Recording) -> None:
    model = nn.Sequential(linear(), Fn(lambda x: x.log_()), linear())
    recording.modules(model, noise())


@case(Origin("root", "code"))
def code_that_works_in_place(recording: Recording) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = linear(), linear()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.first(x)
            hidden.sqrt_()
            return self.last(hidden)

    recording.modules(Model(), noise())


@case(Origin("root.0"))
def convolution_that_overflows(recording: Recording) -> None:
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.ReLU())
    with torch.no_grad():
        model[0].weight.fill_(50000.0)
    recording.modules(model.half(), ones(1, 2, 8).half())


@case(Origin("root.0"))
def embedding_with_a_bad_row(recording: Recording) -> None:
    model = nn.Sequential(nn.Embedding(10, 8), linear())
    with torch.no_grad():
        model[0].weight[7] = torch.nan
    recording.modules(model, torch.tensor([[1, 7, 3]]))


@case(Origin("root.1"), where="abs_max > 1e4")
def any_predicate(recording: Recording) -> None:
    model = nn.Sequential(linear(), Fn(lambda x: x * 1e6), linear())
    recording.modules(model, noise())
