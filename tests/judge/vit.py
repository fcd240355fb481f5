"""ViT as in transformers, with the same names."""

import torch
from attention import Core, add
from torch import Tensor, nn

HIDDEN, HEADS, LAYERS, LABELS = 64, 4, 3, 16
IMAGE, PATCH = 16, 4


class ViTPatchEmbeddings(nn.Module):
    """A convolution whose stride is its size."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Conv2d(3, HIDDEN, PATCH, PATCH)

    def flatten(self, x: Tensor) -> Tensor:
        return x.flatten(2).transpose(1, 2)

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.flatten(self.projection(pixel_values))


class ViTEmbeddings(nn.Module):
    """Patches after a class token, with positions."""

    def __init__(self) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, HIDDEN))
        self.patch_embeddings = ViTPatchEmbeddings()
        count = (IMAGE // PATCH) ** 2 + 1
        self.position_embeddings = nn.Parameter(torch.zeros(1, count, HIDDEN))
        self.dropout = nn.Dropout(0.1)
        # Added to the embeddings: a mean that is far larger than the deviation.
        self.offset = 0.0

    def join(self, cls_token: Tensor, x: Tensor) -> Tensor:
        return torch.cat((cls_token, x), dim=1)

    def positions(self) -> Tensor:
        return self.position_embeddings

    def forward(self, pixel_values: Tensor) -> Tensor:
        x = self.patch_embeddings(pixel_values)
        x = self.join(self.cls_token.expand(x.shape[0], -1, -1), x) + self.positions()
        if self.offset:
            x = x + self.offset
        return self.dropout(x)


class ViTSelfAttention(Core):
    """Attention without the projection of its results."""

    def __init__(self) -> None:
        super().__init__()
        self.scaling = (HIDDEN // HEADS) ** -0.5
        self.is_causal, self.is_fused = False, True
        self.query = nn.Linear(HIDDEN, HIDDEN)
        self.key = nn.Linear(HIDDEN, HIDDEN)
        self.value = nn.Linear(HIDDEN, HIDDEN)

    def heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], HEADS, -1).transpose(1, 2)

    def forward(self, hidden_states: Tensor) -> tuple[Tensor, Tensor | None]:
        k = self.heads(self.key(hidden_states))
        v = self.heads(self.value(hidden_states))
        q = self.heads(self.query(hidden_states))
        return self.attend(q, k, v, None)


class ViTSelfOutput(nn.Module):
    """The projection of the results; the residual is in the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(HIDDEN, HIDDEN)
        self.dropout = nn.Dropout(0.1)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.dropout(self.dense(hidden_states))


class ViTAttention(nn.Module):
    """Attention with its projection."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = ViTSelfAttention()
        self.output = ViTSelfOutput()

    def forward(self, hidden_states: Tensor) -> Tensor:
        out, _ = self.attention(hidden_states)
        return self.output(out)


class ViTIntermediate(nn.Module):
    """The first half of the feed-forward part."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.intermediate_act_fn = nn.GELU()

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.intermediate_act_fn(self.dense(hidden_states))


class ViTOutput(nn.Module):
    """The second half of the feed-forward part, with its residual."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(4 * HIDDEN, HIDDEN)
        self.dropout = nn.Dropout(0.1)
        self.add_feed_forward = add

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        x = self.dropout(self.dense(hidden_states))
        return self.add_feed_forward(x, input_tensor)


class ViTLayer(nn.Module):
    """Attention and a feed-forward part, each with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = ViTAttention()
        self.intermediate = ViTIntermediate()
        self.output = ViTOutput()
        self.layernorm_before = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.layernorm_after = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.add_attention = add

    def residual_of(self, hidden_states: Tensor, normed: Tensor) -> Tensor:
        """Returns the tensor to which the result of the attention is added."""
        return hidden_states

    def forward(self, hidden_states: Tensor) -> Tensor:
        normed = self.layernorm_before(hidden_states)
        residual = self.residual_of(hidden_states, normed)
        x = self.add_attention(self.attention(normed), residual)
        return self.output(self.intermediate(self.layernorm_after(x)), x)


class ViTEncoder(nn.Module):
    """The layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.ModuleList(ViTLayer() for _ in range(LAYERS))

    def forward(self, hidden_states: Tensor) -> Tensor:
        for layer in self.layer:
            hidden_states = layer(hidden_states)
        return hidden_states


class ViTModel(nn.Module):
    """Pixels to one vector per patch."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = ViTEmbeddings()
        self.encoder = ViTEncoder()
        self.layernorm = nn.LayerNorm(HIDDEN, eps=1e-12)

    def finish(self, x: Tensor) -> Tensor:
        return self.layernorm(x)

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.finish(self.encoder(self.embeddings(pixel_values)))


class ViTForImageClassification(nn.Module):
    """Pixels to logits of labels."""

    def __init__(self) -> None:
        super().__init__()
        self.vit = ViTModel()
        self.classifier = nn.Linear(HIDDEN, LABELS)

    def pool(self, x: Tensor) -> Tensor:
        return x[:, 0, :]

    def end(self, logits: Tensor) -> Tensor:
        return logits

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.end(self.classifier(self.pool(self.vit(pixel_values))))
