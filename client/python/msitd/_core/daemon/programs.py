"""Finds the programs of msitd, and the endpoint for queries of a daemon."""

from __future__ import annotations

import os
import shutil
import socket
import sys

# The default location of a daemon.
_NODE_SOCKETS = "/run/msitd"
_SOCKET = "msitd.sock"
_DEFAULT_ADDRESS = ("127.0.0.1", 7741)
_PROBE_TIMEOUT_S = 1.0

# Folders of programs that are searched before PATH.
_folders: list[str] = []


def add_folder(folder: str) -> None:
    """Lets `find_program` search a folder, after the one of Python."""
    if folder not in _folders:
        _folders.append(folder)


def find_program(name: str) -> str:
    """Returns the path of `msitctl` or `msitd`: next to Python, otherwise in PATH.

    Raises:
        FileNotFoundError: The program is in neither place.
    """
    beside = os.path.dirname(sys.executable)
    path = os.pathsep.join([beside, *_folders])
    found = shutil.which(name, path=path) or shutil.which(name)
    if found is None:
        raise FileNotFoundError(
            f"there is no {name}, neither in {beside} nor in PATH: install msitd, or "
            "add the folder of its programs to PATH"
        )
    return found


def is_daemon_there() -> bool:
    """Returns whether a daemon is where a client without an endpoint connects."""
    if os.path.exists(os.path.join(_NODE_SOCKETS, _SOCKET)):
        return True
    try:
        socket.create_connection(_DEFAULT_ADDRESS, _PROBE_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def query_endpoint(endpoint: str | None) -> str | None:
    """Returns the endpoint at which msitctl reaches the daemon that a client
    records to.

    Returns None if that is msitctl's default.

    Args:
        endpoint: The value for `msitd.Client`.
    """
    endpoint = endpoint or os.environ.get("MSITD_ENDPOINT")
    if not endpoint:
        return None
    path = endpoint.removeprefix("unix:")
    if not path.startswith("/"):
        return endpoint.removeprefix("dns:///")
    if os.path.isdir(path):
        path = os.path.join(path, _SOCKET)
    return f"unix:{path}"


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
