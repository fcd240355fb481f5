"""Listeners that are called when a program opens a client."""

from __future__ import annotations

from collections.abc import Callable

# Called with the run and the rank of a client before it opens its stream.
# Returns whether the listener has closed a client whose recording this one
# continues.
opening: list[Callable[[str, int], bool]] = []
# Called once a client is open, with the requested run and endpoint and the
# actual run.
opened: list[Callable[[str, str | None, str], None]] = []
