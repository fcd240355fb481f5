"""Stand-ins for models of transformers, and their requests."""

from __future__ import annotations

import sys
import types
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

VOCABULARY = 64


class Cache:
    """Like the cache of transformers."""

    def __init__(self) -> None:
        self.length: Any = 0

    def get_seq_length(self) -> Any:
        return self.length


class PreTrainedModel(nn.Module):
    """Stands in for the class of transformers.modeling_utils."""

    main_input_name = "input_ids"

    def __init__(self, is_encoder_decoder: bool = False) -> None:
        super().__init__()
        self.config = SimpleNamespace(is_encoder_decoder=is_encoder_decoder)


class Decoder(PreTrainedModel):
    """Returns a cache, as models of transformers do."""

    def __init__(self, is_encoder_decoder: bool = False) -> None:
        super().__init__(is_encoder_decoder)
        self.embed = nn.Embedding(VOCABULARY, 4)

    def forward(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        past_key_values: Any = None,
        inputs_embeds: Any = None,
        **_: Any,
    ) -> Any:
        hidden = inputs_embeds
        if isinstance(input_ids, torch.Tensor):
            hidden = self.embed(input_ids)
        cache = Cache() if past_key_values is None else past_key_values
        if hidden is not None and isinstance(cache, Cache):
            cache.length = cache.length + hidden.shape[1]
        return SimpleNamespace(hidden=hidden, past_key_values=cache)


class Plain(nn.Module):
    """A model of the user, with the arguments of one of transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 4)

    def forward(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        inputs_embeds: Any = None,
    ) -> Any:
        return self.embed(input_ids) if inputs_embeds is None else inputs_embeds * 2


class Cached(Plain):
    """Such a model with a cache."""

    def forward(  # type: ignore[override]
        self, input_ids: Any, attention_mask: Any = None, past_key_values: Any = None
    ) -> Any:
        return self.embed(input_ids)


# Parts of these models that hooks do not record.
_KNOWN_SKIPS = (
    "tensors in an object",
    "what is in an object",
    "modules with parameters without a call",
    "a tensor on the device `meta`",
)


def check_skips(handle: Any) -> None:
    """Checks that nothing else was skipped."""
    assert all(reason.startswith(_KNOWN_SKIPS) for reason in handle.skipped), (
        handle.skipped
    )


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the stand-in the class of transformers."""
    module = types.ModuleType("transformers.modeling_utils")
    module.PreTrainedModel = PreTrainedModel  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)


def requests_in(daemon: Any) -> dict[int, dict[str, str]]:
    """Returns what arrived: token -> id -> part of the batch."""
    out: dict[int, dict[str, str]] = {}
    for record in daemon.all_records:
        name, _, request = record.op.partition("request/")
        if request and not name:
            assert (record.kind, record.io, record.call) == ("document", "state", 0)
            assert record.device == "cpu:0"
            rows = out.setdefault(record.token, {})
            assert request not in rows
            rows[request] = record.data.decode()
    return out
