"""Who is told of the clients that a program opens."""

from __future__ import annotations

from collections.abc import Callable

# Called with the run and the rank of a client before it opens its stream. Returns
# whether the listener has closed a client whose recording this one continues.
opening: list[Callable[[str, int], bool]] = []
# Called with run and endpoint that a client has asked for, and its run, once it is open.
opened: list[Callable[[str, str | None, str], None]] = []
