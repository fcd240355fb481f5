"""The unit of the package, started by the systemd of a booted Debian 12."""

from pathlib import Path

import msitd
import numpy as np
import pytest
from booted import BootedRoot, booted, cgroups
from debian_root import DebianRoot

UNIT = "msitd.service"


def record(machine: BootedRoot, run: str) -> None:
    endpoint = str(machine.path("/run/msitd"))
    with msitd.Client(run=run, rank=0, world_size=1, endpoint=endpoint) as client:
        client.record(np.arange(1000, dtype=np.float32), op="op")


def test_the_unit_runs_under_systemd(
    bookworm: DebianRoot, debs: dict[str, Path]
) -> None:
    groups = cgroups()
    if groups is None:
        pytest.skip("control groups of version 2 are not here")
    bookworm.apt("update")
    bookworm.apt("install", "systemd-sysv")
    bookworm.install(debs["msitd"], debs["msitctl"])
    with booted(bookworm, groups) as machine:
        # The package enables it; it is active once it has read its store.
        machine.wait_for(UNIT, "ActiveState", "active")
        record(machine, "before")

        # After a kill it is restarted, and has its earlier data.
        first = machine.property_of(UNIT, "MainPID")
        machine.run("systemctl", "kill", "--signal=KILL", UNIT)
        machine.wait_for(UNIT, "NRestarts", "1")
        machine.wait_for(UNIT, "ActiveState", "active")
        assert machine.property_of(UNIT, "MainPID") != first
        record(machine, "after")
        said = machine.run("msitctl", "run", "list", "-o", "name")
        assert set(said.split()) == {"before", "after"}

        # The user of the package owns the runs, and has no other rights.
        pid = machine.property_of(UNIT, "MainPID")
        status = machine.run("cat", f"/proc/{pid}/status")
        uid = machine.run("id", "-u", "msitd").strip()
        assert f"Uid:\t{uid}\t{uid}" in status
        assert "CapEff:\t0000000000000000" in status
        assert "Seccomp:\t2" in status

        machine.run("systemctl", "stop", UNIT)
        assert machine.property_of(UNIT, "Result") == "success"
