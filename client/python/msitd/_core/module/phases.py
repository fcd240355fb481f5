"""Distinguishes prefill from decode in text generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msitd._core.client import Client


# The argument of a model that is its cache, in different versions of transformers.
_CACHES = ("past_key_values", "cache")


def record_phase(client: Client, op: str, token: int, kwargs: dict[str, Any]) -> None:
    """Records the text `phase`, `prefill` or `decode`, if the model receives a
    cache.
    """
    caches = (kwargs.get(name) for name in _CACHES)
    phase = _phase_of(next((each for each in caches if each is not None), None))
    if phase is not None and client.selects(op, "state", token):
        client.record_value(phase, op=op, io="state", index="phase", token=token)


def _phase_of(cache: Any) -> str | None:
    # The cache of an encoder-decoder model consists of two caches.
    cache = getattr(cache, "self_attention_cache", cache)
    is_filled = getattr(cache, "is_initialized", None)
    if is_filled is None:
        # Older versions of transformers use tuples. Querying the length of
        # other old caches may wait for the accelerator.
        if not isinstance(cache, tuple):
            return None
        is_filled = bool(cache)
    return "decode" if is_filled else "prefill"
