"""Cases that were run once, after all changes of the search."""

import msitd
import torch
import torch.distributed as dist
import torch.nn.functional as F
from case import INF, NONE, Fn, Origin, Recording, case, linear, noise, ones
from torch import nn
from training_cases import mean_square, sgd, train


@case(Origin("root.0"))
def recurrent_network(recording: Recording) -> None:
    model = nn.Sequential(nn.LSTM(8, 8), Fn(lambda x: x[0]))
    with torch.no_grad():
        model[0].weight_hh_l0[0, 0] = torch.nan
    recording.modules(model, noise())


@case(Origin("root.2"))
def transposed_convolution(recording: Recording) -> None:
    model = nn.Sequential(nn.Conv1d(1, 2, 3), nn.ReLU(), nn.ConvTranspose1d(2, 1, 3))
    with torch.no_grad():
        model[2].weight.fill_(INF)
    recording.modules(model, noise(1, 1, 8).abs())


@case(Origin("Torch.rsqrt"))
def norm_as_functions(recording: Recording) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        scale = torch.rsqrt(torch.mean(torch.square(x * 0), -1, keepdim=True))
        return torch.mul(x * 0, scale)

    recording.functions(program, noise())


@case(Origin("root.1", token=1))
def second_micro_batch_of_the_second_step(recording: Recording) -> None:
    calls = iter(range(10))
    bad = Fn(lambda x: torch.sqrt(x * 0) if next(calls) == 3 else x * 1)
    model = nn.Sequential(linear(), bad, linear())
    optimizer = sgd(model)
    with (
        recording.client() as client,
        msitd.register_hook(model, client, gradients=True),
    ):
        for _ in range(3):
            for _ in range(2):
                mean_square(model(noise())).backward()
            optimizer.step()
            optimizer.zero_grad()


# Each forward of a model is a token.
@case(Origin("critic", "input", token=1))
def second_model_of_a_program(recording: Recording) -> None:
    generator = nn.Sequential(linear(), nn.Tanh())
    critic = nn.Sequential(linear(), nn.Tanh())
    with (
        recording.client() as client,
        torch.no_grad(),
        msitd.register_hook(generator, client, name="generator"),
        msitd.register_hook(critic, client, name="critic"),
    ):
        critic(torch.log(generator(noise())))


@case(Origin("root.1"))
def compiled_model(recording: Recording) -> None:
    model = nn.Sequential(linear(), Fn(torch.log), nn.Tanh())
    with (
        recording.client() as client,
        torch.no_grad(),
        msitd.register_hook(model, client),
    ):
        torch.compile(model, backend="eager")(noise())


@case(Origin("root.down"))
def second_argument_overflows(recording: Recording) -> None:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up = linear(), linear()
            self.down = Fn(lambda gate, up: gate * up)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.down(self.gate(x) * 300, self.up(x) * 300)

    model = Gated().half()
    with torch.no_grad():
        for layer in (model.gate, model.up):
            layer.weight.fill_(0.5)
            layer.bias.fill_(0.0)
    recording.modules(model, ones().half())


@case(Origin("root.split"))
def second_result_is_bad(recording: Recording) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.split = Fn(lambda x: (x * 1, torch.log(x)))
            self.left, self.right = linear(), linear()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            left, right = self.split(x)
            return self.left(left) + self.right(right)

    recording.modules(Model(), noise())


@case(NONE)
def dropout_and_norms(recording: Recording) -> None:
    model = nn.Sequential(
        linear(), nn.LayerNorm(8), nn.Dropout(0.5), nn.GroupNorm(2, 8), nn.Softmax(-1)
    )
    recording.modules(model, noise() * 1e18)


@case(Origin("Tensor.__truediv__"))
def both_kinds_in_nested_modules(recording: Recording) -> None:
    class Inner(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x / x.sum(-1, keepdim=True))

    model = nn.Sequential(linear(), nn.Sequential(nn.ReLU(), Inner()), linear())
    x = noise()
    with torch.no_grad():
        model[0].weight[:] = -model[0].weight.abs()
        model[0].bias.fill_(0)
    recording.both(model, x.abs())


@case(Origin("Functional.embedding"), Origin("root.0", "weight"))
def table_with_functions(recording: Recording) -> None:
    model = nn.Sequential(nn.Embedding(10, 8), linear())
    with torch.no_grad():
        model[0].weight[7] = torch.nan
    recording.both(model, torch.tensor([[1, 7, 3]]))


@case(Origin("root.2"))
def gradient_overflows_float16(recording: Recording) -> None:
    model = nn.Sequential(linear(), Fn(lambda x: x * 100), linear()).half()
    train(
        recording,
        model,
        sgd(model, 0.0),
        lambda out: out.float().sum() * 3000,
        gradients=True,
    )


def _reduce(x: torch.Tensor, work: str) -> torch.Tensor:
    if work == "async":
        handle = dist.all_reduce(x, async_op=True)
        handle.wait()
        return x
    if work == "broadcast":
        dist.broadcast(x, 1)
        return x
    out = torch.empty(x.shape[0] // 2, x.shape[1])
    dist.reduce_scatter(out, list(x.chunk(2)))
    return out


def _ranks(recording: Recording, work: str, bad_rank: int, functions: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = linear()
            self.act = Fn(
                lambda x: torch.log(x) if dist.get_rank() == bad_rank else x.relu()
            )
            self.down, self.last = linear(), linear()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(_reduce(self.down(self.act(self.up(x))), work))

    model = Model()
    with (
        recording.client() as client,
        torch.no_grad(),
        msitd.register_hook(model, client),
    ):
        if functions:
            with msitd.register_api(client):
                model(noise())
        else:
            model(noise())


@case(Origin("Torch.log", rank=0), ranks=2)
def asynchronous_sum(recording: Recording) -> None:
    _ranks(recording, "async", 0, True)


@case(Origin("root.act", rank=1), ranks=2)
def tensor_parallel_layer_without_functions(recording: Recording) -> None:
    _ranks(recording, "async", 1, False)


@case(Origin("Torch.log", rank=1), ranks=2)
def broadcast_of_a_rank(recording: Recording) -> None:
    _ranks(recording, "broadcast", 1, True)


@case(Origin("root.act", rank=1), ranks=2)
def broadcast_without_functions(recording: Recording) -> None:
    _ranks(recording, "broadcast", 1, False)


@case(Origin("root", "input", rank=1), ranks=2)
def data_of_one_rank(recording: Recording) -> None:
    model = nn.Sequential(linear(), nn.Tanh())

    def average() -> None:
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)

    x = noise()
    if dist.get_rank() == 1:
        x[0, 0] = torch.nan
    with (
        recording.client() as client,
        msitd.register_hook(model, client, gradients=True),
    ):
        optimizer = sgd(model)
        for _ in range(2):
            mean_square(model(x)).backward()
            average()
            optimizer.step()
            optimizer.zero_grad()


# This kernel returns zeros for such a row.
@case(NONE)
def attention_kernel_with_a_masked_row(recording: Recording) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(0).bool(), -INF)
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask) * 2

    recording.functions(program, noise(1, 1, 4, 8))


@case(Origin("root.head", token=2))
def last_op_of_a_later_token(recording: Recording) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.count = linear(), 0
            self.head = Fn(self.divide)

        def divide(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x / (3 - self.count) * (3 - self.count)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(x))

    model = Model()
    with (
        recording.client() as client,
        torch.no_grad(),
        msitd.register_hook(model, client),
    ):
        for _ in range(5):
            model(noise())


@case(Origin("root.1", token=2))
def inference_with_gradients_enabled(recording: Recording) -> None:
    model = nn.Sequential(nn.Identity(), linear(), nn.Tanh()).eval()
    with torch.no_grad():
        model[1].weight.fill_(1.0)
    with recording.client() as client, msitd.register_hook(model, client):
        for scale in (1.0, 1.0, 3e38, 1.0):
            model(ones() * scale)
