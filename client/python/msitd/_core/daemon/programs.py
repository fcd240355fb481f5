"""Finds the endpoint for queries of a daemon."""

from __future__ import annotations

import os

from msitd._core.endpoints import choose_endpoint
from msitd._core.personal import wants_tls


def is_daemon_there() -> bool:
    """Returns whether a client without an endpoint uses another daemon than that of
    the user.
    """
    choice = choose_endpoint(None)
    return choice.origin != "personal" or not choice.is_default or wants_tls()


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
