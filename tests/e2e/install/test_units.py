"""The units of systemd: they are valid, match the daemon, and are hardened."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from installing import install, run

from daemon import Daemon

EXPOSURE_MAX = 2.0

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze"
)


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the installed units, with the current path of the program."""
    root = tmp_path_factory.mktemp("units")
    install(root, "daemon")
    folder = root / "usr/lib/systemd/system"
    service = folder / "msitd.service"
    program = f"ExecStart={root}/usr/bin/msitd"
    text = service.read_text()
    assert "ExecStart=/usr/bin/msitd" in text
    service.write_text(text.replace("ExecStart=/usr/bin/msitd", program))
    return folder


def verify(unit: Path) -> str:
    """Returns the errors that systemd reports for a unit."""
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # Other units of the machine may have faults of their own.
    lines = (done.stdout + done.stderr).splitlines()
    return "\n".join(line for line in lines if "msitd" in line)


def exposure(unit: Path) -> float:
    """Returns systemd's exposure score of the service, from 0 to 10."""
    said = run("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
    found = re.search(r"exposure level for \S+: ([0-9.]+)", said)
    assert found is not None, said
    return float(found[1])


@pytest.mark.parametrize("name", ["msitd.service", "msitd.socket"])
def test_systemd_has_nothing_against_a_unit(units: Path, name: str) -> None:
    assert not verify(units / name)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("ProtectSystem=strict", "ProtectSystm=strict"),
        ("/usr/bin/msitd ", "/usr/bin/no-such "),
    ],
)
def test_a_mistake_in_a_unit_is_found(
    units: Path, tmp_path: Path, wrong: str, said: str
) -> None:
    text = (units / "msitd.service").read_text()
    assert wrong in text
    unit = tmp_path / "msitd.service"
    unit.write_text(text.replace(wrong, said))
    assert verify(unit)


def test_service_is_hardened(units: Path, tmp_path: Path) -> None:
    service = units / "msitd.service"
    assert exposure(service) <= EXPOSURE_MAX
    # The score reflects removed hardening.
    bare = tmp_path / "msitd.service"
    text = service.read_text()
    bare.write_text(
        re.sub(r"^(Protect|SystemCall|Private).*$", "", text, flags=re.MULTILINE)
    )
    assert exposure(bare) > EXPOSURE_MAX


def test_units_and_configuration_name_the_same_paths(
    units: Path, daemon: Daemon
) -> None:
    config = (units.parents[3] / "etc/msitd/msitd.toml").read_text()
    (folder,) = re.findall(r'^socket_dir = "(.*)"', config, re.MULTILINE)
    socket = (units / "msitd.socket").read_text()
    listens = re.findall(r"^Listen(\w+)=(.*)$", socket, re.MULTILINE)
    # The sockets that a daemon creates by itself in its folder.
    made = {path.name for path in daemon.socket_dir.iterdir() if path.is_socket()}
    assert {path for _, path in listens} == {f"{folder}/{name}" for name in made}
    assert dict(listens) == {
        "Stream": f"{folder}/msitd.sock",
        "SequentialPacket": f"{folder}/ingest.sock",
    }
    (timeout,) = re.findall(r"^drain_timeout_ms = ([\d_]+)", config, re.MULTILINE)
    service = (units / "msitd.service").read_text()
    (stop,) = re.findall(r"^TimeoutStopSec=(\d+)$", service, re.MULTILINE)
    assert int(timeout) / 1000 < int(stop)
