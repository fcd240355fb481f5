"""Starts the personal daemon of the user.

A translation of protos/endpoint/personal_daemon.h, which explains when a daemon may be
started.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess

from msitd._core.endpoints import QUERY_SOCKET, Choice, Surroundings, choose_endpoint
from msitd._core.errors import MsitError
from msitd._core.installed import find_program

# A daemon that exits is detected at once, so a slow start is waited for.
START_MAX_S = 60.0

_NO = ("0", "false", "no", "off")
# Variables of this process that are not for the daemon.
_NOT_FOR_DAEMON = (
    *("LD_PRELOAD", "NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_"),
    *("SYSTEMD_EXEC_PID", "JOURNAL_STREAM"),
)
_STDERR = 2


class StartRefusedError(MsitError):
    """No daemon runs, and the settings of the user do not let one be started."""


def find_daemon(given: str | None, timeout: float) -> str | None:
    """Returns the endpoint of the daemon for a client, and starts the personal daemon
    if that is the one.

    Returns None if the client has to encrypt and nothing names a daemon.

    Args:
        given: The argument of the caller.
        timeout: Maximum time in seconds to wait for a daemon that starts. One that
            is not ready then is used as well.

    Raises:
        StartRefusedError: No daemon runs, and none may be started.
        MsitError: This user has no daemon.
    """
    choice = choose_endpoint(given)
    if choice.origin == "none":
        raise MsitError(choice.problem)
    if choice.origin != "personal":
        return choice.endpoint
    if choice.is_default and wants_tls():
        return None
    ensure_personal_daemon(choice, timeout)
    return choice.endpoint


def ensure_personal_daemon(choice: Choice, timeout: float) -> None:
    """Returns once the personal daemon accepts connections, or after the timeout.

    Args:
        choice: The result of `choose_endpoint`, of origin `personal`.
        timeout: Maximum time in seconds to wait.

    Raises:
        StartRefusedError: No daemon runs, and it may not be started.
        MsitError: No daemon runs, and it cannot be started.
    """
    around = Surroundings()
    socket_dir = choice.endpoint
    problem = check_socket_dir(socket_dir, around.uid)
    if problem:
        raise MsitError(problem)
    if is_listening(socket_dir):
        return
    why = why_not_start(around, is_named=not choice.is_default)
    if why:
        raise StartRefusedError(
            "no msitd runs on this machine, neither a service nor a daemon of your "
            f"own, and none was started: {why}. To start one, run: msitd --personal. To "
            "use another one, set MSITD_ENDPOINT"
        )
    try:
        program = find_program("msitd")
    except FileNotFoundError as error:
        raise MsitError(f"no msitd runs on this machine, and {error}") from None
    _run(program, socket_dir, timeout)


def why_not_start(around: Surroundings, *, is_named: bool = False) -> str:
    """Returns why no daemon may be started, for the user; "" if one may be.

    Args:
        is_named: Whether the user has named the personal daemon.
    """
    wanted = around.variables.get("MSITD_START", "").lower()
    if wanted in _NO:
        return f"MSITD_START is {wanted}"
    if wanted or is_named:
        return ""
    if around.uid == 0:
        return "for root, MSITD_START=1 has to allow it"
    if _is_in_service(around):
        return "for a process of a service, MSITD_START=1 has to allow it"
    return ""


def check_socket_dir(socket_dir: str, uid: int) -> str:
    """Returns why the sockets in a folder are not those of the user; "" if they are,
    or the folder does not exist.
    """
    try:
        info = os.lstat(socket_dir)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{socket_dir}: {error.strerror}"
    if not stat.S_ISDIR(info.st_mode):
        return f"{socket_dir} is not a folder"
    if info.st_uid != uid:
        return (
            f"{socket_dir} belongs to user {info.st_uid}; set XDG_RUNTIME_DIR to a "
            "folder of your own"
        )
    if info.st_mode & 0o022:
        return f"others can write {socket_dir}; run: chmod 700 {socket_dir}"
    return ""


def is_listening(socket_dir: str) -> bool:
    """Returns whether a process accepts connections at the socket for queries."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.path.join(socket_dir, QUERY_SOCKET))
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True


def _run(program: str, socket_dir: str, timeout: float) -> None:
    process = subprocess.Popen(
        [program, "--personal"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_NOT_FOR_DAEMON)
        },
        # Ctrl-C ends this program, but not a daemon that others may wait for.
        start_new_session=True,
    )
    try:
        _, said = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        # It keeps starting.
        assert process.stderr is not None
        process.stderr.close()
        return
    if is_listening(socket_dir):
        return
    text = said.decode(errors="replace").strip().removeprefix("msitd: ")
    text = text or "it exited without an error message"
    raise MsitError(f"your own daemon does not start: {text}")


def _is_in_service(around: Surroundings) -> bool:
    if around.variables.get("SYSTEMD_EXEC_PID") == str(os.getpid()):
        return True
    journal = around.variables.get("JOURNAL_STREAM")
    if not journal:
        return False
    try:
        info = os.fstat(_STDERR)
    except OSError:
        return False
    return journal == f"{info.st_dev}:{info.st_ino}"


def wants_tls() -> bool:
    """Returns whether the variables for TLS are set."""
    names = ("MSITD_CA_FILE", "MSITD_CERT_FILE", "MSITD_KEY_FILE")
    return os.environ.get("MSITD_TLS") == "1" or any(map(os.environ.get, names))
