"""Packs a wheel with programs, libraries and extension modules.

usage: assemble_wheel.py ARCH PYTHON_WHEEL LINKED OUT

PYTHON_WHEEL contains the files of the package and its metadata, LINKED what was linked
for the architecture ARCH.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAMS = ("msitd", "msitctl", "msitd-inspect")
# msit is msitctl, called by another name.
SCRIPTS = (*PROGRAMS, "msit")
# A module for the stable ABI works from this Python on.
STABLE_MINOR = 12
MODULE = re.compile(r"_(msit|formats)\.(cpython-3(?P<minor>\d+)-.*|abi3)\.so")


def wheel_tags(minors: set[int]) -> list[str]:
    """Returns the tags for Pythons with these modules, without the platform.

    To pip, a wheel for the stable ABI of 3.10 is for 3.10 and all later versions. Those
    that have a module of their own prefer it to the one for the stable ABI.
    """
    oldest = min(minors)
    if STABLE_MINOR not in minors:
        return [f"cp3{minor}-cp3{minor}" for minor in sorted(minors)]
    if minors != set(range(oldest, STABLE_MINOR + 1)):
        sys.exit(f"package: a wheel for Python 3.{oldest} and 3.12 needs those between")
    return [f"cp3{oldest}-abi3"]


def add_files(package: Path, linked: Path) -> set[int]:
    """Copies what was linked, and returns the Pythons with an extension module."""
    minors = set()
    (package / "bin").mkdir()
    for path in sorted(linked.iterdir()):
        module = MODULE.fullmatch(path.name)
        if module is not None:
            minors.add(int(module["minor"] or STABLE_MINOR))
        folder = package
        if path.name in PROGRAMS:
            folder = package / "bin"
        elif path.suffix == ".binpb":
            folder = package / "query"
        shutil.copy(path, folder)
    return minors


def main() -> None:
    """Packs the wheel."""
    arch = sys.argv[1]
    plain, linked, out = (Path(argument) for argument in sys.argv[2:])
    wheel = [sys.executable, "-m", "wheel"]
    unpacked = out / "unpacked"
    subprocess.run([*wheel, "unpack", "--dest", unpacked, plain], check=True)
    (root,) = unpacked.iterdir()
    minors = add_files(root / "msitd", linked)

    (metadata,) = root.glob("*.dist-info")
    scripts = root / f"{metadata.stem}.data/scripts"
    scripts.mkdir(parents=True)
    for name in SCRIPTS:
        shutil.copy(Path(__file__).with_name("program.py"), scripts / name)
        (scripts / name).chmod(0o755)

    text = (metadata / "WHEEL").read_text()
    text = text.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
    tags = "\n".join(f"Tag: {tag}-linux_{arch}" for tag in wheel_tags(minors))
    text = re.sub("^Tag: .*$", tags, text, flags=re.MULTILINE)
    (metadata / "WHEEL").write_text(text)
    subprocess.run([*wheel, "pack", "--dest-dir", out, root], check=True)
    shutil.rmtree(unpacked)


if __name__ == "__main__":
    main()
