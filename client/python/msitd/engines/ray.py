"""Makes workers of Ray record into one run.

import ray
from msitd.engines.ray import runtime_env

ray.init(runtime_env=runtime_env(run="golden"))
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import Any

# Environment variables that a client reads, and that a worker on another node
# lacks.
_NAMES = (
    "MSITD_RUN",
    "MSITD_ENDPOINT",
    "MSITD_JOB",
    "MSITD_TLS",
    "MSITD_CA_FILE",
    "MSITD_CERT_FILE",
    "MSITD_KEY_FILE",
)


def runtime_env(
    run: str | None = None,
    endpoint: str | None = None,
    *,
    base: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns a `runtime_env` that makes workers record where this process would.

    All workers share an MSITD_JOB, so that `if_exists="new"` and `"replace"`
    treat them as one launch. A worker passes its rank and world size to
    `msitd.Client`, unless its environment has RANK and WORLD_SIZE, as that of
    Ray Train does.

    Args:
        run: Default: MSITD_RUN.
        endpoint: See `msitd.Client`; resolved on the node of the worker.
            Default: MSITD_ENDPOINT, or the daemon of that node.
        base: A `runtime_env` to extend. Its variables take precedence.
    """
    variables = {name: os.environ[name] for name in _NAMES if os.environ.get(name)}
    if run is not None:
        variables["MSITD_RUN"] = run
    if endpoint is not None:
        variables["MSITD_ENDPOINT"] = endpoint
    variables.setdefault("MSITD_JOB", uuid.uuid4().hex)
    env = dict(base or {})
    env["env_vars"] = {**variables, **env.get("env_vars", {})}
    return env
