"""Tells prefill and decode apart where text is generated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msitd._core.recorder import Client


def record_phase(client: Client, op: str, token: int, kwargs: dict[str, Any]) -> None:
    """Records `prefill` or `decode`, as the text `phase`, if the model gets a cache."""
    phase = _phase_of(kwargs.get("past_key_values"))
    if phase is not None and client.selects(op, "state", token):
        client.record_value(phase, op=op, io="state", index="phase", token=token)


def _phase_of(cache: Any) -> str | None:
    # A cache of an encoder and a decoder has one for each.
    cache = getattr(cache, "self_attention_cache", cache)
    is_filled = getattr(cache, "is_initialized", None)
    if is_filled is None:
        # Before transformers had classes for it. To ask older ones how much they hold
        # may wait for the accelerator.
        if not isinstance(cache, tuple):
            return None
        is_filled = bool(cache)
    return "decode" if is_filled else "prefill"
