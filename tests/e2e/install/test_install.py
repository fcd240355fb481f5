"""`cmake --install`, and other programs that use the installed files."""

import shutil
import subprocess
from pathlib import Path

import pytest
from installing import (
    BUILD_DIR,
    COMPONENTS,
    ROOT,
    files_below,
    install,
    library_dir,
    run,
)

from daemon import Daemon

CONSUMER = ROOT / "tests/e2e/install/consumer"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("install")
    install(out, *COMPONENTS)
    return out


def recorded(
    program: Path, daemon: Daemon, endpoint: str, root: Path, run_name: str
) -> set[str]:
    """Runs a program that records, and returns the ops of its run."""
    path = {"LD_LIBRARY_PATH": str(library_dir(root)), "MSIT_GRPC_LIBRARY": ""}
    run(program, endpoint, run_name, **path)
    listed = daemon.ctl_json("tensor", "list", "--run", run_name)
    return {tensor["op"] for tensor in listed["tensors"]}


def test_cmake_project_finds_and_uses_it(
    root: Path, daemon: Daemon, tmp_path: Path
) -> None:
    # The package must work after it was moved.
    moved = tmp_path / "moved"
    shutil.copytree(root, moved, symlinks=True)
    run(
        "cmake",
        "-S",
        CONSUMER,
        "-B",
        tmp_path / "build",
        f"-DCMAKE_PREFIX_PATH={moved}/usr",
        f"-DRECORD_SOURCE={ROOT}/tests/e2e/record.c",
    )
    run("cmake", "--build", tmp_path / "build")
    sockets = str(daemon.socket_dir)
    record = tmp_path / "build/record"
    assert "matrix" in recorded(record, daemon, sockets, moved, "local")
    # Over gRPC, whose library the installed libmsit finds by itself.
    assert "matrix" in recorded(record, daemon, daemon.endpoint, moved, "remote")
    face = tmp_path / "build/face"
    assert recorded(face, daemon, sockets, moved, "face") == {"face"}


def test_cmake_refuses_another_major_version(root: Path, tmp_path: Path) -> None:
    text = (CONSUMER / "CMakeLists.txt").read_text().replace("msit 0.1", "msit 1.0")
    (tmp_path / "CMakeLists.txt").write_text(text)
    done = subprocess.run(
        ["/usr/bin/cmake", "-S", tmp_path, "-B", tmp_path / "build"]
        + [f"-DCMAKE_PREFIX_PATH={root}/usr"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "msit-config.cmake, version: 0.1" in done.stderr


def test_pkg_config_finds_it(root: Path, daemon: Daemon, tmp_path: Path) -> None:
    path = {"PKG_CONFIG_PATH": str(library_dir(root) / "pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", "msit", **path).split()
    source = ROOT / "tests/e2e/record.c"
    program = tmp_path / "record"
    run("cc", "-std=c11", source, *flags, "-o", program)
    sockets = str(daemon.socket_dir)
    assert "matrix" in recorded(program, daemon, sockets, root, "by-pkg-config")
    needed = run("readelf", "-d", program)
    assert "[libmsit.so.1]" in needed
    version = run("pkg-config", "--modversion", "msit", **path).strip()
    assert version in run(BUILD_DIR / "bin/msitd", "--version")


def test_programs_run_where_they_were_installed(root: Path, tmp_path: Path) -> None:
    bin_dir = root / "usr/bin"
    assert "msitd-inspect" in run(bin_dir / "msitd-inspect", "--version")
    # The configuration file has all of the defaults.
    config = root / "etc/msitd/msitd.toml"
    by_file = run(bin_dir / "msitd", "--config", config, "--print-config")
    assert by_file == run(bin_dir / "msitd", "--print-config")
    assert "llm" in run(bin_dir / "msit", "--help")
    assert "compare" in run(bin_dir / "msprobe", "--help")
    # No folder of the build remains in the installed files.
    for program in ("msitd", "msitctl", "msitd-inspect"):
        assert "RUNPATH" not in run("readelf", "-d", bin_dir / program)


def test_another_prefix_and_a_second_install(tmp_path: Path) -> None:
    install(tmp_path, "daemon", prefix="/opt/msitd")
    unit = tmp_path / "opt/msitd/lib/systemd/system/msitd.service"
    assert "ExecStart=/opt/msitd/bin/msitd --config" in unit.read_text()
    config = tmp_path / "etc/msitd/msitd.toml"
    config.write_text("nice = 3\n")
    install(tmp_path, "daemon", prefix="/opt/msitd")
    assert config.read_text() == "nice = 3\n"


def test_components_share_no_file(tmp_path: Path) -> None:
    owners: dict[str, str] = {}
    for component in COMPONENTS:
        install(tmp_path / component, component)
        for file in files_below(tmp_path / component):
            assert file not in owners, (file, component, owners[file])
            owners[file] = component
    assert owners["/usr/bin/msitd"] == "daemon"
    assert owners["/usr/bin/msitctl"] == "ctl"
    assert owners["/usr/bin/msit"] == "compat"
    assert owners["/usr/bin/msprobe"] == "compat"
    assert owners["/usr/include/msit/msit.hpp"] == "dev"
    (library,) = (file for file in owners if file.endswith("/libmsit.so.1"))
    assert owners[library] == "lib"
    assert owners[library.removesuffix(".1")] == "dev"
