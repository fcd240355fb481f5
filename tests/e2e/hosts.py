"""Hosts of a network of one's own: namespaces on a bridge, whose links can be cut.

Works for root, and for others where the system lets them have namespaces of users.
"""

import os
import shutil
import subprocess
from functools import cache

PROGRAMS = ("unshare", "nsenter", "ip")
DELAY_MS = 2


class Namespace:
    """A network namespace, at first with a loopback device only."""

    def __init__(self, inside: "Namespace | None" = None) -> None:
        """Makes one; `inside` the users of another one, whose rights it needs."""
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
        """The words before a command that run it in here."""
        users = ["--user", "--preserve-credentials"] if self._is_of_users else []
        return ["nsenter", "--target", str(self.pid), *users, "--net"]

    def run(self, *words: str) -> None:
        """Runs a command that has to succeed."""
        done = subprocess.run(
            [*self.prefix, *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr)

    def drop(self) -> None:
        """Loses every packet of its loopback device from now on."""
        self.run("ip", "link", "set", "lo", "down")

    def end(self) -> None:
        """Ends the process that holds the namespace."""
        self._holder.kill()
        self._holder.communicate()


@cache
def why_no_namespace() -> str:
    """Returns why there can be no namespaces here; empty if there can."""
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
        for number in range(count):
            host = Namespace(switch)
            self._all.append(host)
            assert host.is_up
            link = f"port{number}"
            peer = ("peer", "name", "eth0", "netns", str(host.pid))
            switch.run("ip", "link", "add", link, "type", "veth", *peer)
            switch.run("ip", "link", "set", link, "master", "bridge", "up")
            address = f"{self.address(number)}/24"
            host.run("ip", "addr", "add", address, "dev", "eth0")
            host.run("ip", "link", "set", "eth0", "up")
            self._delay(link)

    def _delay(self, link: str) -> None:
        # Not every kernel has it.
        words = ("tc", "qdisc", "add", "dev", link, "root", "netem")
        delay = ("delay", f"{DELAY_MS}ms")
        try:
            self.switch.run(*words, *delay)
        except AssertionError:
            return
        self.delay_ms = DELAY_MS

    @property
    def hosts(self) -> list[Namespace]:
        return self._all[1:]

    def address(self, number: int) -> str:
        return f"10.77.0.{number + 1}"

    def cut(self, number: int) -> None:
        """Loses every packet to and from a host, without a word to anyone."""
        self.switch.run("ip", "link", "set", f"port{number}", "down")

    def heal(self, number: int) -> None:
        self.switch.run("ip", "link", "set", f"port{number}", "up")

    def received_bytes(self, number: int) -> int:
        """Returns how much a host has sent so far."""
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
        for namespace in self._all:
            namespace.end()
