"""A folder with a Debian in it, whose programs run as in a machine of their own."""

import os
import shutil
import subprocess
from pathlib import Path

MIRROR = "http://deb.debian.org/debian"
# With what `dpkg` and systemd's tools look at; gone with the command.
ENTER = (
    'mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && '
    'exec chroot "$0" "$@"'
)


class DebianRoot:
    """An unpacked Debian. Nothing in it runs by itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def unpack(cls, suite: str, cache: Path, folder: Path) -> "DebianRoot":
        """Makes one of a suite, and keeps what was fetched for the next one."""
        archive = cache / f"{suite}.tar"
        if not archive.exists():
            cache.mkdir(parents=True, exist_ok=True)
            fetched = cache / f"{suite}.next"
            shutil.rmtree(fetched, ignore_errors=True)
            options = ["--variant=minbase"]
            subprocess.run(
                ["debootstrap", *options, suite, fetched, MIRROR],
                check=True,
                timeout=900,
                stdout=subprocess.DEVNULL,
            )
            partial = archive.with_suffix(".part")
            subprocess.run(["tar", "-C", fetched, "-cf", partial, "."], check=True)
            partial.rename(archive)
            shutil.rmtree(fetched)
        folder.mkdir(parents=True)
        subprocess.run(["tar", "-C", folder, "-xf", archive], check=True)
        shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
        return cls(folder)

    def command(self, *words: str, user: str = "root") -> list[str]:
        """A command line that runs these words in the root, and is their process."""
        as_user = [] if user == "root" else ["setpriv", f"--reuid={user}"]
        as_user += [f"--regid={user}", "--init-groups"] if as_user else []
        enter = ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER]
        return [*enter, str(self.folder), *as_user, *words]

    def run(self, *words: str, expect: int = 0) -> str:
        """Runs a program in the root and returns what it printed."""
        done = subprocess.run(
            self.command(*words),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=900,
            env={
                **os.environ,
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "DEBIAN_FRONTEND": "noninteractive",
                "LC_ALL": "C",
            },
            check=False,
        )
        assert done.returncode == expect, (words, done.returncode, done.stdout)
        return done.stdout

    def apt(self, *words: str) -> str:
        """Runs apt-get, which asks nothing."""
        options = ("--yes", "--quiet", "--no-install-recommends")
        return self.run("apt-get", *options, *words)

    def install(self, *debs: Path) -> str:
        """Installs packages of ours, and what they depend on."""
        shutil.rmtree(self.folder / "debs", ignore_errors=True)
        (self.folder / "debs").mkdir()
        for deb in debs:
            shutil.copy(deb, self.folder / "debs")
        return self.apt("install", *(f"/debs/{deb.name}" for deb in debs))

    def path(self, inside: str) -> Path:
        """Where a path of the root is from outside."""
        return self.folder / inside.lstrip("/")
