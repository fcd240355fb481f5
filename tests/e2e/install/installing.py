"""Installs the build into a folder, as `cmake --install` and packages do."""

import os
import subprocess
from pathlib import Path

from daemon import BIN_DIR, ROOT

BUILD_DIR = BIN_DIR.parent
COMPONENTS = ("daemon", "ctl", "lib", "dev", "compat")
# The tools of the distribution precede others in the user's PATH.
ENVIRONMENT = {**os.environ, "PATH": f"/usr/bin:/bin:{os.environ['PATH']}"}


def run(*words: str | Path, **environment: str) -> str:
    """Runs a program that must succeed and returns its output."""
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=300,
        env={**ENVIRONMENT, **environment},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def install(root: Path, *components: str, prefix: str = "/usr") -> None:
    """Installs components below `root`."""
    for component in components:
        run(
            "cmake",
            "--install",
            BUILD_DIR,
            "--prefix",
            prefix,
            "--component",
            component,
            DESTDIR=str(root),
        )


def files_below(root: Path) -> set[str]:
    """Returns the paths of all files and links in a folder."""
    return {
        f"/{path.relative_to(root)}"
        for path in root.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def library_dir(root: Path) -> Path:
    """Returns the folder of the installed libmsit."""
    (library,) = root.rglob("libmsit.so.1")
    return library.parent


__all__ = [
    "BUILD_DIR",
    "COMPONENTS",
    "ROOT",
    "files_below",
    "install",
    "library_dir",
    "run",
]
