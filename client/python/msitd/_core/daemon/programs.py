"""Finds the daemon of an interface, and its endpoint for queries."""

from __future__ import annotations

import os

from msitd._core.endpoints import choose_endpoint
from msitd._core.personal import START_MAX_S, StartRefusedError, find_daemon


def why_no_daemon() -> str:
    """Returns why a client without an endpoint has no daemon; "" if it has one.

    The personal daemon of the user is started if no other one is chosen. Unless the
    user has chosen it, it may not be started for root, in a service, or if
    MSITD_START=0.

    Raises:
        MsitError: The user may not use the daemon of this machine, or the chosen
            daemon cannot be started. A daemon of the process would hide this, and
            each rank would have its own.
    """
    try:
        find_daemon(None, START_MAX_S)
    except StartRefusedError as refused:
        if not choose_endpoint(None).is_default:
            raise
        return str(refused)
    return ""


def query_endpoint(endpoint: str | None) -> str | None:
    """Returns the endpoint at which msitctl reaches the daemon that a client
    records to.

    Returns None if that is msitctl's default.

    Args:
        endpoint: The value for `msitd.Client`.
    """
    choice = choose_endpoint(endpoint)
    return None if choice.is_default else choice.for_queries


def query_environment() -> dict[str, str]:
    """Returns environment variables that make msitctl encrypt as the client does."""
    environment = dict(os.environ)
    for name in ("TLS", "CA_FILE", "CERT_FILE", "KEY_FILE"):
        value = os.environ.get(f"MSITD_{name}")
        if value is not None:
            environment[f"MSITCTL_{name}"] = value
    # These variables would change its output, or limit its time.
    for name in ("OUTPUT", "TIMEOUT", "PROGRESS"):
        environment.pop(f"MSITCTL_{name}", None)
    return environment
