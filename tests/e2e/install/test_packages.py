"""The Debian packages that deploy/package builds.

tests/nightly packages installs, upgrades and purges them in a separate root.
"""

import gzip
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from installing import ROOT, files_below, run

import daemon as programs
from daemon import Daemon

(VERSION,) = re.findall(
    r"^project\(msitd VERSION ([0-9.]+)",
    (ROOT / "CMakeLists.txt").read_text(),
    re.MULTILINE,
)
NAMES = {"msitd", "msitctl", "libmsit1", "libmsit-dev", "msit-compat"}


@pytest.fixture(scope="module")
def debs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Returns the packages by name."""
    out = tmp_path_factory.mktemp("debs")
    run(ROOT / "deploy/package", "--only", "debs", "--out", out)
    return {path.name.partition("_")[0]: path for path in out.glob("*.deb")}


@pytest.fixture(scope="module")
def unpacked(debs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of all packages."""
    root = tmp_path_factory.mktemp("root")
    for path in debs.values():
        run("dpkg", "-x", path, root)
    return root


def field(path: Path, name: str) -> str:
    return run("dpkg-deb", "-f", path, name).strip()


def test_there_are_five_packages_of_this_version(debs: dict[str, Path]) -> None:
    assert set(debs) == NAMES
    for name, path in debs.items():
        assert field(path, "Package") == name
        assert field(path, "Version") == VERSION
    changelog = (ROOT / "deploy/debian/changelog").read_text()
    assert changelog.startswith(f"msitd ({VERSION}) ")


def test_packages_carry_what_changed_for_users(unpacked: Path) -> None:
    changes = (ROOT / "CHANGELOG.md").read_bytes()
    assert f"## [{VERSION}] - ".encode() in changes
    for name in NAMES:
        news = unpacked / "usr/share/doc" / name / "NEWS.gz"
        assert gzip.decompress(news.read_bytes()) == changes, name


def test_packages_ask_for_what_they_need(debs: dict[str, Path]) -> None:
    for name in ("msitd", "msitctl", "libmsit1"):
        assert "libgrpc++1.51 (" in field(debs[name], "Depends"), name
        # Libraries find each other by path, so that packages do not depend on
        # libmsit.
        assert "libmsit" not in field(debs[name], "Depends"), name
    assert "sysusers" in field(debs["msitd"], "Depends")
    assert "librocksdb" in field(debs["msitd"], "Depends")
    assert field(debs["msit-compat"], "Depends") == f"msitctl (= {VERSION})"
    assert field(debs["libmsit-dev"], "Depends") == f"libmsit1 (= {VERSION})"


def test_configuration_is_asked_about_and_scripts_are_scripts(
    debs: dict[str, Path], tmp_path: Path
) -> None:
    run("dpkg-deb", "-e", debs["msitd"], tmp_path)
    assert (tmp_path / "conffiles").read_text() == "/etc/msitd/msitd.toml\n"
    for name in ("postinst", "prerm", "postrm"):
        run("dash", "-n", tmp_path / name)
        # No script of a package may remove runs.
        assert not re.search(
            r"rm .*var/lib|deluser|userdel", (tmp_path / name).read_text()
        )


def test_lintian_finds_no_error(debs: dict[str, Path]) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("there is no lintian")
    done = subprocess.run(
        ["lintian", "--fail-on", "error", "--tag-display-limit", "0", *debs.values()],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_files_are_where_debian_has_them(unpacked: Path) -> None:
    files = files_below(unpacked)
    assert {
        "/usr/bin/msitd",
        "/usr/bin/msitctl",
        "/usr/bin/msitd-inspect",
        "/usr/bin/msit",
        "/usr/bin/msprobe",
        "/etc/msitd/msitd.toml",
        "/usr/lib/systemd/system/msitd.service",
        "/usr/lib/sysusers.d/msitd.conf",
        "/usr/share/man/man1/msitctl.1.gz",
        "/usr/share/man/man1/msitctl-compare-run.1.gz",
        "/usr/share/man/man1/msitd-inspect-verify.1.gz",
        "/usr/share/bash-completion/completions/msitctl",
        "/usr/include/msit/msit.h",
    } <= files
    for name in ("msit", "msprobe"):
        assert "bin/msitctl" in str((unpacked / "usr/bin" / name).resolve())


def test_user_of_the_package_owns_the_store(unpacked: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-sysusers") is None:
        pytest.skip("there is no systemd-sysusers")
    shutil.copytree(unpacked / "usr/lib/sysusers.d", tmp_path / "usr/lib/sysusers.d")
    (tmp_path / "etc").mkdir()
    run("systemd-sysusers", f"--root={tmp_path}", "msitd.conf")
    entry = (tmp_path / "etc/passwd").read_text().strip().split(":")
    assert entry[0] == "msitd" and entry[2] == "7741" and entry[5] == "/var/lib/msitd"
    assert entry[6].endswith("nologin")
    unit = (unpacked / "usr/lib/systemd/system/msitd.service").read_text()
    assert "User=msitd\n" in unit and "StateDirectory=msitd\n" in unit


def test_unpacked_daemon_serves_the_unpacked_command(
    unpacked: Path,
    new_daemon: Callable[[], Daemon],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(programs, "BIN_DIR", unpacked / "usr/bin")
    daemon = new_daemon()
    # With the file only, because flags override it, including those of the
    # test.
    daemon.start("--config", str(unpacked / "etc/msitd/msitd.toml"))
    record = (
        "import msitd, numpy as np\n"
        f"with msitd.Client(run='r', rank=0, world_size=1, endpoint={str(daemon.socket_dir)!r}) as c:\n"
        "    c.record(np.ones(3, np.float32), op='op')\n"
    )
    subprocess.run([sys.executable, "-c", record], timeout=60, check=True)
    listed = daemon.ctl_json("tensor", "list", "--run", "r")
    assert [tensor["op"] for tensor in listed["tensors"]] == ["op"]
    assert daemon.stop() == 0
    checked = run(
        unpacked / "usr/bin/msitd-inspect", "verify", "--data-dir", daemon.data_dir
    )
    assert "problems=0" in checked
