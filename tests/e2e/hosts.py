"""Hosts of a private network: namespaces on a bridge, whose links can be cut.

Works for root, and for other users if the system allows them user namespaces.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

PROGRAMS = ("unshare", "nsenter", "ip", "tc")
# Delay of a packet between a host and the switch: a round trip between two
# hosts takes four of these.
DELAY_MS = 5
MTU = "9000"


class Namespace:
    """A network namespace, which initially has only a loopback device."""

    def __init__(self, inside: "Namespace | None" = None) -> None:
        """Creates a namespace; `inside` is one whose user namespace has the
        required rights.
        """
        own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        unshare = [*inside.prefix, "unshare"] if inside else ["unshare", *own]
        self._is_of_users = bool(own)
        self._holder = subprocess.Popen(
            [
                *(*unshare, "--net"),
                *("sh", "-c", "ip link set lo up && echo $$ && exec cat"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._holder.stdout is not None
        line = self._holder.stdout.readline().strip()
        self.is_up = line.isdigit()
        self.pid = int(line) if self.is_up else 0

    @property
    def prefix(self) -> list[str]:
        """The words before a command that run it in this namespace."""
        return [*(self.users_prefix or self._enter()), "--net"]

    @property
    def users_prefix(self) -> list[str]:
        """The words before a command that run it with the rights of this namespace."""
        if not self._is_of_users:
            return []
        return [*self._enter(), "--user", "--preserve-credentials"]

    def _enter(self) -> list[str]:
        return ["nsenter", "--target", str(self.pid)]

    def run(self, *words: str) -> None:
        """Runs a command that must succeed."""
        done = self._run(words)
        assert done.returncode == 0, (words, done.stderr)

    def can(self, *words: str) -> bool:
        """Runs a command; returns whether it succeeded."""
        return self._run(words).returncode == 0

    def _run(self, words: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self.prefix, *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )

    def drop(self) -> None:
        """From now on, drops every packet of its loopback device."""
        self.run("ip", "link", "set", "lo", "down")

    def end(self) -> None:
        """Ends the process that keeps the namespace alive."""
        self._holder.kill()
        self._holder.communicate()


@cache
def why_no_namespace() -> str:
    """Returns why namespaces are not available; empty if they are."""
    lacking = [program for program in PROGRAMS if not shutil.which(program)]
    if lacking:
        return f"no {', '.join(lacking)}"
    namespace = Namespace()
    namespace.end()
    return "" if namespace.is_up else "no rights for namespaces of networks"


class Network:
    """Hosts on a switch, which is a namespace that reaches all of them."""

    def __init__(self, count: int) -> None:
        self.delay_ms = 0
        self.switch = Namespace()
        self._all = [self.switch]
        self._wires: subprocess.Popen[str] | None = None
        try:
            self._make(count)
        except BaseException:
            self.end()
            raise

    def _make(self, count: int) -> None:
        switch = self.switch
        switch.run("ip", "link", "add", "bridge", "type", "bridge")
        switch.run("ip", "addr", "add", "10.77.0.254/24", "dev", "bridge")
        switch.run("ip", "link", "set", "bridge", "up")
        for _ in range(count):
            self._all.append(Namespace(switch))
            assert self._all[-1].is_up
        self._connect()
        for number, host in enumerate(self.hosts):
            port = f"port{number}"
            switch.run("ip", "link", "set", port, "mtu", MTU, "master", "bridge", "up")
            address = f"{self.address(number)}/24"
            host.run("ip", "addr", "add", address, "dev", "eth0")
            host.run("ip", "link", "set", "eth0", "mtu", MTU, "up")

    def _connect(self) -> None:
        """Creates a device `port<number>` of the switch for the eth0 of each host."""
        netem = ("root", "netem", "delay", f"{2 * DELAY_MS}ms")
        has_netem = self.switch.can("tc", "qdisc", "add", "dev", "bridge", *netem)
        if has_netem:
            self.switch.run("tc", "qdisc", "del", "dev", "bridge", "root")
        elif self._lay_wires():
            self.delay_ms = DELAY_MS
            return
        for number, host in enumerate(self.hosts):
            port = f"port{number}"
            peer = ("peer", "name", "eth0", "netns", str(host.pid))
            self.switch.run("ip", "link", "add", port, "type", "veth", *peer)
            if has_netem:
                self.switch.run("tc", "qdisc", "add", "dev", port, *netem)
                self.delay_ms = DELAY_MS

    def _lay_wires(self) -> bool:
        """Creates links with a delay; returns false if that is not permitted."""
        ports = [f"port{i}={host.pid}" for i, host in enumerate(self.hosts)]
        self._wires = subprocess.Popen(
            [
                *self.switch.users_prefix,
                *(sys.executable, str(Path(__file__).with_name("wires.py"))),
                *(str(DELAY_MS), str(self.switch.pid), *ports),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._wires.stdout is not None
        return self._wires.stdout.readline() == "ready\n"

    @property
    def hosts(self) -> list[Namespace]:
        return self._all[1:]

    def address(self, number: int) -> str:
        return f"10.77.0.{number + 1}"

    def cut(self, number: int) -> None:
        """Drops every packet to and from a host, without any notification."""
        self.switch.run("ip", "link", "set", f"port{number}", "down")

    def heal(self, number: int) -> None:
        self.switch.run("ip", "link", "set", f"port{number}", "up")

    def received_bytes(self, number: int) -> int:
        """Returns the number of bytes that a host has sent so far."""
        done = subprocess.run(
            [*self.switch.prefix, "cat", "/proc/net/dev"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        line = next(
            line for line in done.stdout.splitlines() if f"port{number}:" in line
        )
        return int(line.split(":")[1].split()[0])

    def end(self) -> None:
        if self._wires is not None:
            self._wires.kill()
            self._wires.communicate()
        for namespace in self._all:
            namespace.end()
