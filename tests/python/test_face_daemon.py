"""Which daemon records for the interfaces of other tools."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msitd._core import personal
from msitd._core.daemon import programs
from msitd._core.endpoints import Choice, Surroundings
from msitd._core.errors import MsitError

Choose = Callable[[bool], None]


@pytest.fixture
def choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Choose:
    """Makes a personal daemon that does not run the choice of all clients."""
    for name in ("MSITD_START", "MSITD_TLS", "MSITD_CA_FILE", "MSITD_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)

    def apply(is_default: bool) -> None:
        choice = Choice("personal", is_default, str(tmp_path / "sockets"))
        for module in (programs, personal):
            monkeypatch.setattr(module, "choose_endpoint", lambda _given: choice)

    return apply


def be(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    def surroundings() -> Surroundings:
        return Surroundings(os.environ, uid=uid)

    monkeypatch.setattr(personal, "Surroundings", surroundings)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Installs a program in place of msitd."""
    program = folder / "msitd"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(personal, "find_program", lambda _name: str(program))


@pytest.mark.parametrize(("uid", "start"), [(0, ""), (1000, "0")])
def test_a_user_who_may_not_start_one_has_none(
    choose: Choose, monkeypatch: pytest.MonkeyPatch, uid: int, start: str
) -> None:
    choose(True)
    be(monkeypatch, uid)
    monkeypatch.setenv("MSITD_START", start)
    assert "none was started" in programs.why_no_daemon()


@pytest.mark.parametrize("is_default", [True, False])
def test_a_daemon_that_fails_to_start_is_an_error(
    choose: Choose, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_default: bool
) -> None:
    choose(is_default)
    be(monkeypatch, 1000)
    install(tmp_path, monkeypatch, "echo 'msitd: no space left' >&2; exit 1")
    with pytest.raises(MsitError, match="does not start: no space left"):
        programs.why_no_daemon()


def test_a_folder_of_another_user_is_an_error(
    choose: Choose, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    choose(True)
    be(monkeypatch, os.geteuid() + 1)
    (tmp_path / "sockets").mkdir()
    with pytest.raises(MsitError, match="belongs to user"):
        programs.why_no_daemon()


def test_a_chosen_daemon_is_not_replaced(
    choose: Choose, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(False)
    be(monkeypatch, 1000)
    monkeypatch.setenv("MSITD_START", "0")
    with pytest.raises(MsitError, match="MSITD_START is 0"):
        programs.why_no_daemon()
