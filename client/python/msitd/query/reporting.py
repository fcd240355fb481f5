"""Writes reports of comparisons with msitctl, which has their code."""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Sequence

from msitd._core.errors import MsitError
from msitd._core.installed import find_program
from msitd.query.connection import Settings
from msitd.query.errors import QueryError, code_name

# Exit codes of msitctl; see client/ask/query/exit_code.h.
_EXIT_USAGE = 2
_EXIT_FILE = 3
_EXIT_PARTIAL = 4
_EXIT_OF_CODES = 64

_PREFIX = "msitctl: "


def write_report(settings: Settings, words: Sequence[str], timeout: float) -> None:
    """Runs `msitctl compare report`, which writes a file completely or not at all.

    Issues the notes of msitctl as warnings, such as that the report is partial.

    Args:
        settings: The daemon with the comparison.
        words: The arguments of the command.
        timeout: Time limit, in seconds.

    Raises:
        FileNotFoundError: msitctl is not installed.
        ValueError: An argument has a value that msitctl does not accept.
        OSError: The file cannot be written.
        QueryError: The daemon refused a call, or the time limit was exceeded.
    """
    program = find_program("msitctl")
    try:
        done = subprocess.run(
            [program, "compare", "report", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment_of(settings),
            timeout=timeout,
            text=True,
            errors="replace",
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise QueryError(
            "DEADLINE_EXCEEDED", "", "the report was not finished in time"
        ) from None
    message = done.stderr.strip().removeprefix(_PREFIX)
    code = done.returncode
    if code in (0, _EXIT_PARTIAL):
        if message or code == _EXIT_PARTIAL:
            warnings.warn(message or "the report is partial", stacklevel=3)
    elif code == _EXIT_USAGE:
        raise ValueError(message)
    elif code == _EXIT_FILE:
        raise OSError(message)
    elif code > _EXIT_OF_CODES:
        raise QueryError(code_name(code - _EXIT_OF_CODES), "", message)
    elif code != 0:
        raise MsitError(message or f"{program} ended with {code}")


def environment_of(settings: Settings) -> dict[str, str]:
    """Returns the environment in which msitctl calls the same daemon.

    Raises:
        ValueError: msitctl cannot call it: its certificate has another name than
            its address.
    """
    if settings.tls and settings.tls_host:
        raise ValueError(
            f"{settings.endpoint}: a report needs a connection by the name in the "
            f"certificate: query.connect('{settings.tls_host}:PORT')"
        )
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MSITCTL_") and name != "MSITD_ENDPOINT"
    }
    environment["MSITCTL_ENDPOINT"] = settings.endpoint
    if settings.tls:
        environment["MSITCTL_TLS"] = "1"
    for name, file in (
        ("CA_FILE", settings.ca_file),
        ("CERT_FILE", settings.cert_file),
        ("KEY_FILE", settings.key_file),
    ):
        if settings.tls and file:
            environment[f"MSITCTL_{name}"] = file
    return environment
