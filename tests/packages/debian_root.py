"""A folder with a Debian whose programs run as on a separate machine."""

import os
import shutil
import subprocess
from pathlib import Path

MIRROR = "http://deb.debian.org/debian"
# Includes the mounts that `dpkg` and systemd's tools read; they end with the
# command.
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
        """Creates a root of a suite, and caches the downloads for the next one."""
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
        """Returns a command line that runs these words in the root as its main
        process.
        """
        as_user = [] if user == "root" else ["setpriv", f"--reuid={user}"]
        as_user += [f"--regid={user}", "--init-groups"] if as_user else []
        enter = ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER]
        return [*enter, str(self.folder), *as_user, *words]

    def run(self, *words: str, expect: int = 0) -> str:
        """Runs a program in the root and returns its output."""
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
        """Runs apt-get without questions."""
        options = ("--yes", "--quiet", "--no-install-recommends")
        return self.run("apt-get", *options, *words)

    def install(self, *debs: Path) -> str:
        """Installs packages of msitd, and their dependencies."""
        shutil.rmtree(self.folder / "debs", ignore_errors=True)
        (self.folder / "debs").mkdir()
        for deb in debs:
            shutil.copy(deb, self.folder / "debs")
        return self.apt("install", *(f"/debs/{deb.name}" for deb in debs))

    def path(self, inside: str) -> Path:
        """Returns the outside path of a path in the root."""
        return self.folder / inside.lstrip("/")
