"""The plugin that vLLM calls in each of its processes."""

from __future__ import annotations

import functools
import os
from typing import Any

from msitd.engines.vllm import recorder

_MARK = "_msitd_has_hooks"


def register() -> None:
    """Makes workers record from their first step on, if MSITD_RUN names a run.

    vLLM may call it several times.
    """
    if not os.environ.get("MSITD_RUN"):
        return
    from vllm.v1.worker.worker_base import WorkerWrapperBase

    install(WorkerWrapperBase)


def install(wrapper_class: type) -> None:
    """Makes a class of vLLM put hooks on the model of its worker.

    vLLM calls `initialize_from_config` when the model is loaded, before it is
    warmed up.
    """
    old = wrapper_class.initialize_from_config  # type: ignore[attr-defined]
    if hasattr(old, _MARK):
        return

    @functools.wraps(old)
    def initialize_from_config(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = old(self, *args, **kwargs)
        # vLLM may call this again after a user has stopped recording.
        if not hasattr(self.worker, _MARK):
            setattr(self.worker, _MARK, True)
            if recorder.of(self.worker) is None:
                recorder.start(self.worker)
        return result

    setattr(initialize_from_config, _MARK, True)
    wrapper_class.initialize_from_config = initialize_from_config  # type: ignore[attr-defined]
