"""Chooses the daemon of a client.

A translation of protos/endpoint/endpoint_rule.h, which explains the rule. Both are
tested with the cases of tests/golden/endpoint_rule.txt.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

QUERY_SOCKET = "msitd.sock"
INGEST_SOCKET = "ingest.sock"

# The endpoint that stands for the personal daemon.
_PERSONAL = "personal"
# In the order of their precedence.
_VARIABLES = ("MSITD_ENDPOINT", "MSITCTL_ENDPOINT")
# The path of a socket has at most 107 bytes.
_FOLDER_BYTES_MAX = 107 - 24


@dataclass(frozen=True)
class Surroundings:
    """The parts of the system that the rule reads. Tests replace them."""

    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)
    uid: int = field(default_factory=os.geteuid)
    system_dir: str = "/run/msitd"
    runtime_root: str = "/run/user"
    temporary_root: str = "/tmp"


@dataclass(frozen=True)
class Choice:
    """The result of the rule."""

    # `given`, `variable`, `system`, `personal`, or `none` if the user may not use
    # the service.
    origin: str
    # Whether neither an argument nor a variable decided.
    is_default: bool
    # As given; otherwise the path of the socket folder.
    endpoint: str
    # The reason for `none`, as a message for the user.
    problem: str = ""

    @property
    def for_queries(self) -> str:
        """The endpoint for queries, as `unix:PATH` of its socket or as `HOST:PORT`."""
        if self.origin in ("none", "system", "personal"):
            # The folder may not exist yet.
            return f"unix:{self.endpoint}/{QUERY_SOCKET}"
        return query_endpoint(self.endpoint)


def choose_endpoint(given: str | None, around: Surroundings | None = None) -> Choice:
    """Applies the rule. Connects to nothing and starts nothing.

    Args:
        given: The argument of the caller.
        around: Default: the system.
    """
    around = around or Surroundings()
    if given:
        return _named("given", given, around)
    for name in _VARIABLES:
        value = around.variables.get(name)
        if value:
            return _named("variable", value, around)
    for socket in (QUERY_SOCKET, INGEST_SOCKET):
        try:
            os.stat(os.path.join(around.system_dir, socket))
        except PermissionError:
            return Choice(
                "none", True, around.system_dir, not_allowed(around.system_dir)
            )
        except OSError:
            continue
        return Choice("system", True, around.system_dir)
    return Choice("personal", True, personal_socket_dir(around))


def personal_socket_dir(around: Surroundings) -> str:
    """Returns the socket folder of the personal daemon, which may not exist."""
    runtime = around.variables.get("XDG_RUNTIME_DIR", "")
    for folder in (runtime, os.path.join(around.runtime_root, str(around.uid))):
        path = f"{folder}/msitd"
        if (
            folder.startswith("/")
            and len(os.fsencode(path)) <= _FOLDER_BYTES_MAX
            and _is_folder_of(around.uid, folder)
        ):
            return path
    return os.path.join(around.temporary_root, f"msitd-{around.uid}")


def not_allowed(folder: str) -> str:
    """Returns the message for a user who may not enter a socket folder."""
    return (
        f"not allowed to enter {folder}; ask an administrator to add you to the group "
        "msitd, or use a daemon of your own: MSITD_ENDPOINT=personal"
    )


def query_endpoint(endpoint: str) -> str:
    """Returns the endpoint for queries of a daemon, as `unix:PATH` of its socket or
    as `HOST:PORT`.

    Args:
        endpoint: In any spelling: `unix:` is optional before a path, which may be
            that of the socket folder or of a socket in it, and so is `dns:///`
            before `HOST:PORT`.
    """
    path = endpoint.removeprefix("unix:")
    if not path.startswith("/"):
        return endpoint.removeprefix("dns:///")
    if os.path.basename(path) == INGEST_SOCKET:
        path = os.path.dirname(path)
    if os.path.isdir(path):
        path = os.path.join(path, QUERY_SOCKET)
    return f"unix:{path}"


def _named(origin: str, endpoint: str, around: Surroundings) -> Choice:
    if endpoint == _PERSONAL:
        return Choice("personal", False, personal_socket_dir(around))
    return Choice(origin, False, endpoint)


def _is_folder_of(uid: int, path: str) -> bool:
    try:
        info = os.stat(path)
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == uid
