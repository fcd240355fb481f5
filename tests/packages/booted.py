"""A booted Debian in a folder: its systemd runs as on a separate machine."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from debian_root import DebianRoot

# Mount points of control groups version 2: by itself, or next to version 1.
CGROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
# Uses pivot_root and not chroot, because only then a unit can have its own
# users. The devices are those that any program may use.
BOOT = """
set -e
echo $$ >"$1/cgroup.procs"
exec unshare --mount --propagation private --pid --fork --cgroup --uts --ipc --net \\
  --kill-child=KILL sh -ec '
mount --bind "$0" "$0"
cd "$0"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
  touch "dev/$name"
  mount --bind "/dev/$name" "dev/$name"
done
mkdir dev/shm dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=755 tmpfs run
mkdir -p before
pivot_root . before
cd /
umount -l /before
export container=test
exec /lib/systemd/systemd --log-target=console' "$0"
"""
START_S = 60


def cgroups() -> Path | None:
    """Returns control groups of which a booted root can have a part."""
    for folder in CGROUPS:
        if (folder / "cgroup.procs").exists() and shutil.which("pivot_root"):
            return folder
    return None


class BootedRoot:
    """A root whose systemd is running."""

    def __init__(self, init: int) -> None:
        self._enter = ["nsenter", "-t", str(init), "-m", "-p", "-C", "-i", "-r", "-n"]
        self._init = init

    def run(self, *words: str, expect: int | None = 0) -> str:
        """Runs a program in the root and returns its output."""
        done = subprocess.run(
            [*self._enter, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=120,
            check=False,
        )
        assert expect in (None, done.returncode), (words, done.returncode, done.stdout)
        return done.stdout

    def property_of(self, unit: str, name: str) -> str:
        """Returns a property of a unit, as systemd reports it."""
        return self.run("systemctl", "show", unit, "-P", name).strip()

    def wait_for(self, unit: str, name: str, value: str) -> None:
        """Waits until a property has a value."""
        deadline = time.monotonic() + START_S
        while self.property_of(unit, name) != value:
            assert time.monotonic() < deadline, self.run(
                "systemctl", "status", unit, expect=None
            )
            time.sleep(0.2)

    def path(self, inside: str) -> Path:
        """Returns the outside path of a path in the root."""
        return Path(f"/proc/{self._init}/root") / inside.lstrip("/")


def _init_of(process: subprocess.Popen[bytes], said: Path) -> int:
    """Returns the first process of the root, once its systemd answers."""
    deadline = time.monotonic() + START_S
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while time.monotonic() < deadline:
        assert process.poll() is None, said.read_text(errors="replace")
        for init in children.read_text().split():
            bus = Path(f"/proc/{init}/root/run/systemd/private")
            if bus.exists():
                return int(init)
        time.sleep(0.1)
    raise AssertionError(said.read_text(errors="replace"))


@contextmanager
def booted(root: DebianRoot, groups: Path) -> Iterator[BootedRoot]:
    """Boots a root, and ends all processes in it."""
    group = groups / f"msitd-test-{root.folder.parent.name}"
    group.mkdir()
    said = root.folder.parent / "boot.log"
    with said.open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", BOOT, root.folder, group],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield BootedRoot(_init_of(process, said))
    finally:
        process.kill()
        process.wait()
        time.sleep(0.5)
        for folder in sorted(group.rglob("*/"), reverse=True):
            if folder.is_dir():
                folder.rmdir()
        group.rmdir()
