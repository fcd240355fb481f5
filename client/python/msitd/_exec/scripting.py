"""Makes torch.jit.script compile a model as if nothing were recorded.

It compiles all hooks and functions that it finds, and cannot compile those of
msitd.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from msitd._core.module.copies import UncopiedHook


def install(aside: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
    """Wraps torch.jit.script; while it runs, `aside` restores the functions of
    torch.
    """
    # The program has imported torch.
    import torch

    script = torch.jit.script

    @functools.wraps(script)
    def call(obj: Any, *args: Any, **kwargs: Any) -> Any:
        # torch.jit.script resolves names in the frame that calls it.
        if len(args) < 2:
            kwargs["_frames_up"] = kwargs.get("_frames_up", 0) + 1
        modules = list(obj.modules()) if isinstance(obj, torch.nn.Module) else []
        with aside(), _unhooked(modules):
            return script(obj, *args, **kwargs)

    torch.jit.script = call


@contextlib.contextmanager
def _unhooked(modules: list[Any]) -> Iterator[None]:
    before = []
    for module in modules:
        for hooks in (module._forward_pre_hooks, module._forward_hooks):
            before.append((hooks, dict(hooks)))
            for key in [k for k, hook in hooks.items() if _is_ours(hook)]:
                del hooks[key]
    try:
        yield
    finally:
        for hooks, whole in before:
            hooks.clear()
            hooks.update(whole)


def _is_ours(hook: Any) -> bool:
    return isinstance(hook, UncopiedHook)
