"""Registry of the hooked models, so that two models never share their ops.

Two models that record into one client would both be named `root`, and their
calls would be numbered as calls of one model. The second model therefore gets
another name. A model that still has hooks of an earlier registration would
record into the earlier run, so a warning is logged.
"""

from __future__ import annotations

import functools
import logging
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from msitd._core.module.op_names import op_under

if TYPE_CHECKING:
    import torch

    from msitd._core.client import Client
    from msitd._core.removable import Removable

_logger = logging.getLogger("msitd")

_ROOT = "root"
# Maximum length in bytes of the model's name within an op.
_NAME_BYTES_MAX = 128


class Hooked:
    """A model that has hooks.

    Args:
        name: First part of the model's ops.
    """

    def __init__(
        self, name: str, model: torch.nn.Module, client: Client, handle: Removable
    ) -> None:
        self.name = name
        self.model = weakref.ref(model)
        self.client = weakref.ref(client)
        # A weak reference, because hooks keep their handle alive as long as
        # they are registered.
        self.handle = weakref.ref(handle)


_lock = threading.Lock()
_hooked: list[Hooked] = []


def enter(
    model: torch.nn.Module,
    client: Client,
    name: str | None,
    op_of: Callable[[str], str] | None,
    handle: Removable,
) -> tuple[Hooked | None, Callable[[str], str]]:
    """Reserves a name for the model in the run of the client.

    Args:
        op_of: Function that names the modules. If given, no name is reserved.
        handle: The handle of the hooks that will be registered.
        name: First part of the model's ops. None: `root`, or `root2` and so on
            if the client records other models.

    Returns:
        The reservation, and a function that maps the dotted name of a module to
        its op.

    Raises:
        ValueError: The client records another model under the name.
    """
    if op_of is not None:
        return None, op_of
    with _lock:
        _hooked[:] = [one for one in _hooked if _is_on(one)]
        others = [one for one in _hooked if _records_into(one.client(), client)]
        taken = {one.name for one in others if one.model() is not model}
        chosen = name or _ROOT
        if name is None:
            own = [one.name for one in others if one.model() is model]
            number = 1
            while not own and chosen in taken:
                number += 1
                chosen = f"{_ROOT}{number}"
            chosen = own[0] if own else chosen
        elif name in taken:
            raise ValueError(
                f"run {client.run!r} already records another model under the name "
                f"{name!r}: use another name, or remove the hooks of that model"
            )
        leftover = [one for one in _hooked if one.model() is model]
        claim = Hooked(chosen, model, client, handle)
        _hooked.append(claim)
    if chosen != _ROOT and name is None and not own:
        _logger.warning(
            "run %r already records a model as %r, so this %s is recorded as %r; "
            "register_hook(model, client, name=...) sets the name",
            client.run,
            _ROOT,
            type(model).__name__,
            chosen,
        )
    _warn_of_others(leftover, client, model)
    return claim, functools.partial(op_under, chosen)


def name_of(model: torch.nn.Module, client: Client | None) -> str:
    """Returns the first part of a model's ops.

    Args:
        client: Only hooks of this client count. None: hooks of any client.

    Returns:
        `root` if the model has no hooks.

    Raises:
        ValueError: Hooks use several names for the model, or it has none and
            the client records another model as `root`.
    """
    with _lock:
        known = [
            one
            for one in _hooked
            if _is_on(one) and (client is None or one.client() is client)
        ]
    own = sorted({one.name for one in known if one.model() is model})
    if len(own) > 1:
        raise ValueError(
            f"this {type(model).__name__} is recorded under several names: choose one "
            f"of {', '.join(own)} with name=..."
        )
    if own:
        return own[0]
    if client is not None and any(one.name == _ROOT for one in known):
        raise ValueError(
            f"run {client.run!r} records another model as {_ROOT!r}: call register_hook "
            f"for this {type(model).__name__} first, or set its name with name=..."
        )
    return _ROOT


def leave(claim: Hooked | None) -> None:
    """Releases a reserved name, if there is one."""
    with _lock:
        if claim in _hooked:
            _hooked.remove(claim)


def _records_into(one: Client | None, client: Client) -> bool:
    """Returns whether both clients record into one stream."""
    return one is not None and one.stream is client.stream


def _is_on(one: Hooked) -> bool:
    return one.model() is not None and one.handle() is not None


def _warn_of_others(
    others: list[Hooked], client: Client, model: torch.nn.Module
) -> None:
    for one in others:
        handle, owner = one.handle(), one.client()
        if handle is None:
            continue
        if owner is None or owner.closed:
            # These hooks would record nothing and slow the model down.
            handle.remove()
            continue
        _logger.warning(
            "this %s has hooks already, which record its calls %s run %r, too; call "
            "remove() of their handle if they are not to",
            type(model).__name__,
            "once more into" if _records_into(owner, client) else "into",
            owner.run,
        )


def check_name(name: str) -> None:
    """Checks the first part of a model's ops.

    Raises:
        ValueError: It is empty or too long.
    """
    if not name or len(name.encode()) > _NAME_BYTES_MAX:
        raise ValueError(f"name {name!r} does not have 1 to {_NAME_BYTES_MAX} bytes")
