"""Checks which libraries and symbols the files of the wheel need and provide."""

import re
import sys
from pathlib import Path

from wheel_files import PROGRAMS, elf_files, printed_by

SIZE_MAX = 40 << 20
OLDEST_GLIBC = (2, 28)
# Parts of every Linux system with glibc.
SYSTEM_LIBRARIES = re.compile(r"(libc|libm|libpthread|libdl|librt|libgcc_s|ld-linux)\b")
# Symbols that a library of the wheel adds to a process.
EXPORTS = re.compile(r"PyInit_|msit_|acl|_ZZNSt8__detail")
# The number of each architecture in the header of a file (e_machine).
MACHINES = {"x86_64": 62, "aarch64": 183}


def test_wheel_is_small_and_says_for_whom_it_is(wheel: Path) -> None:
    assert wheel.stat().st_size <= SIZE_MAX
    tag = "_".join(map(str, OLDEST_GLIBC))
    assert re.fullmatch(
        rf"msitd-[0-9.]+-cp31[01]-abi3-manylinux_{tag}_({'|'.join(MACHINES)}).whl",
        wheel.name,
    )


def test_all_files_are_for_the_architecture_of_the_wheel(
    unpacked: Path, wheel: Path
) -> None:
    (expected,) = (MACHINES[arch] for arch in MACHINES if arch in wheel.name)
    for path in elf_files(unpacked):
        machine = int.from_bytes(path.read_bytes()[18:20], "little")
        assert machine == expected, path.name
        soabi = re.search(r"cpython-\d+-(\w+)-linux", path.name)
        assert soabi is None or soabi[1] in wheel.name, path.name


def test_no_file_needs_a_newer_glibc_or_another_library(unpacked: Path) -> None:
    files = elf_files(unpacked)
    assert {path.name for path in files} >= {*PROGRAMS, "libmsit.so.1", "_msit.abi3.so"}
    for path in files:
        needed = re.findall(r"NEEDED\s+(\S+)", printed_by("objdump", "-p", path))
        others = [name for name in needed if not SYSTEM_LIBRARIES.match(name)]
        assert others in ([], ["libmsit.so.1"]), path.name
        symbols = printed_by("objdump", "-T", path)
        versions = re.findall(r"\(?GLIBC_([\d.]+)\)?", symbols)
        newest = max(tuple(map(int, version.split("."))) for version in versions)
        assert newest <= OLDEST_GLIBC, path.name
        assert "GLIBCXX" not in symbols, path.name


def test_libraries_export_nothing_of_those_they_contain(unpacked: Path) -> None:
    libraries = [path for path in elf_files(unpacked) if ".so" in path.name]
    for path in libraries:
        listed = printed_by("nm", "--dynamic", "--defined-only", path)
        names = [line.split()[-1] for line in listed.splitlines()]
        assert all(EXPORTS.match(name) or name == "MSIT_1" for name in names), path.name


def test_stable_module_is_for_all_later_versions_of_python(unpacked: Path) -> None:
    modules = sorted(path.name for path in (unpacked / "msitd").glob("_msit.*.so"))
    assert "_msit.abi3.so" in modules
    assert f"_msit.cpython-3{sys.version_info.minor}-" in "".join(modules)
