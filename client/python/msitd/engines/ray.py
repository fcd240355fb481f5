"""Has workers of Ray record into one run.

import ray
from msitd.engines.ray import runtime_env

ray.init(runtime_env=runtime_env(run="golden"))
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import Any

# What a client reads of the environment, and a worker on another node has not.
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
    """Returns a `runtime_env` that has workers record where this process would.

    All workers share a MSITD_JOB, so that `if_exists="new"` and `"replace"` take them
    for one launch. A worker gives `msitd.Client` its rank and world size, unless its
    environment has RANK and WORLD_SIZE, as that of Ray Train has.

    Args:
        run: Default: MSITD_RUN.
        endpoint: As of `msitd.Client`, on the node of a worker. Default:
            MSITD_ENDPOINT, or else the daemon of that node.
        base: A `runtime_env` to add to. Its variables stay.
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
