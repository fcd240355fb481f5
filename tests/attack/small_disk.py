"""File systems for tests that are small enough to be filled to the last byte."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

MIB = 1 << 20


class SmallDisk:
    """An ext4 on a file, or a tmpfs, mounted at a path."""

    def __init__(self, folder: Path, kind: str, size: int) -> None:
        self.kind = kind
        self.path = folder / f"disk-{kind}"
        self.path.mkdir()
        self.image = folder / f"{kind}.img"
        self._filler = self.path / "filler"
        if os.geteuid() != 0:
            pytest.skip("mounting a small disk needs root")
        if kind == "tmpfs":
            self._run("mount", "-t", "tmpfs", "-o", f"size={size}", "none", self.path)
            return
        with open(self.image, "wb") as image:
            image.truncate(size)
        self._run("mkfs.ext4", "-q", "-m", "0", self.image)
        self._run("mount", "-o", "loop", self.image, self.path)

    @staticmethod
    def _run(*command: str | Path) -> None:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            pytest.skip(f"no small disk: {error}")
        if done.returncode != 0:
            pytest.skip(f"no small disk: {done.stderr.strip()}")

    def fill(self, leave: int = 0) -> None:
        """Takes all free space except about `leave` bytes; with 0, to the last byte."""
        with open(self._filler, "ab", buffering=0) as filler:
            step = MIB
            while step >= 1:
                if leave and self.free() <= leave + step:
                    return
                try:
                    filler.write(b"\xff" * step)
                    os.fsync(filler.fileno())
                except OSError:
                    step //= 16

    def empty(self) -> None:
        """Releases the space that `fill` took."""
        self._filler.unlink()

    def free(self) -> int:
        """Returns the number of free bytes for any user."""
        info = os.statvfs(self.path)
        return info.f_bavail * info.f_frsize

    def after_power_loss(self, folder: Path) -> "SmallDisk":
        """Returns a copy of this ext4 in the state after a power loss at this
        moment.
        """
        copy = SmallDisk.__new__(SmallDisk)
        copy.path = folder / "after-power-loss"
        copy.path.mkdir()
        copy.image = folder / "after-power-loss.img"
        copy._filler = copy.path / "filler"
        # The image lacks the data that the kernel has not written to the device
        # yet.
        shutil.copyfile(self.image, copy.image)
        self._run("mount", "-o", "loop", copy.image, copy.path)
        return copy

    def unmount(self) -> None:
        """Unmounts the disk. Files in use disappear when they are closed."""
        subprocess.run(["umount", "-l", self.path], check=False, capture_output=True)
