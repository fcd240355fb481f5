"""Files that containers and schedulers refer to are installed, and their
scripts work.
"""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import tomllib
import yaml
from chunk_bytes import Chunk, Record
from installing import install
from wire import write

from daemon import BIN_DIR, ROOT, Daemon

DEPLOY = ROOT / "deploy"
# Programs that Debian itself provides.
OF_DEBIAN = {"/usr/bin/install", "/usr/sbin/nologin"}
# Files that an administrator creates.
OF_ADMINISTRATORS = {
    "/etc/msitd/metrics.key",
    "/etc/msitd/metrics.pem",
    "/etc/msitd/metrics.token",
    "/etc/msitd/scrapers.pem",
}


def test_programs_and_files_that_are_named_are_installed(tmp_path: Path) -> None:
    install(tmp_path, "daemon", "ctl")
    named = set()
    files = ("container/Dockerfile", "kubernetes/daemonset.yaml", "slurm/prolog")
    pages = [DEPLOY / file for file in (*files, "slurm/epilog")]
    for page in (*pages, ROOT / "docs/monitoring.md"):
        text = page.read_text()
        named |= set(re.findall(r"/(?:usr|etc)/[\w./-]*\w", text))
    assert "/usr/bin/msitd" in named and "/etc/msitd/msitd.toml" in named
    for path in named - OF_DEBIAN - OF_ADMINISTRATORS:
        assert (tmp_path / path[1:]).exists(), path


def test_the_daemon_takes_the_configuration_of_the_pod(tmp_path: Path) -> None:
    text = (DEPLOY / "kubernetes/daemonset.yaml").read_text()
    (config,) = [
        document["data"]["msitd.toml"]
        for document in yaml.safe_load_all(text)
        if document["kind"] == "ConfigMap"
    ]
    file = tmp_path / "msitd.toml"
    file.write_text(config)
    done = subprocess.run(
        [BIN_DIR / "msitd", "--config", file, "--print-config"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert tomllib.loads(done.stdout).items() >= tomllib.loads(config).items()


def test_probes_and_flags_of_the_image_work(daemon: Daemon) -> None:
    text = (DEPLOY / "kubernetes/daemonset.yaml").read_text()
    pod = next(d for d in yaml.safe_load_all(text) if d["kind"] == "DaemonSet")
    (container,) = pod["spec"]["template"]["spec"]["containers"]
    command = container["livenessProbe"]["exec"]["command"]
    words = [str(BIN_DIR / "msitctl"), *command[1:]]
    words[words.index("/run/msitd")] = str(daemon.socket_dir)
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0
    daemon.kill()
    assert subprocess.run(words, capture_output=True, check=False).returncode != 0


def run(
    script: str, daemon: Daemon, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Runs a Slurm script with the programs of the build."""
    return subprocess.run(
        [DEPLOY / "slurm" / script],
        env={
            "PATH": f"{BIN_DIR}:{os.environ['PATH']}",
            "MSITD_SOCKET_DIR": str(daemon.socket_dir),
            "SLURM_JOB_ID": "1234",
            "MSITD_PROLOG_TIMEOUT": "1",
            **environment,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def fill(daemon: Daemon, run_name: str) -> None:
    record = Record("op", b"1234", [1])
    write(daemon.channel(), run_name, [Chunk(run_name, [record]).pack()])


def test_the_prolog_waits_for_the_daemon_and_fails_no_job(daemon: Daemon) -> None:
    done = run("prolog", daemon)
    assert (done.returncode, done.stderr) == (0, "")
    daemon.kill()
    done = run("prolog", daemon)
    assert done.returncode == 0
    assert "does not answer" in done.stderr
    assert run("prolog", daemon, MSITD_PROLOG_STRICT="1").returncode == 1


def test_the_epilog_seals_the_runs_of_its_job_alone(daemon: Daemon) -> None:
    for name in ("canary-1234", "canary-11234", "other-99"):
        fill(daemon, name)
    done = run("epilog", daemon)
    assert done.returncode == 0
    assert "sealed run canary-1234" in done.stderr
    states = {r["name"]: r["state"] for r in daemon.ctl_json("run", "list")["runs"]}
    assert states == {
        "canary-1234": "SEALED",
        "canary-11234": "ACTIVE",
        "other-99": "ACTIVE",
    }


def test_the_epilog_never_fails(new_daemon: Callable[[], Daemon]) -> None:
    daemon = new_daemon()
    assert run("epilog", daemon).returncode == 0
    assert run("epilog", daemon, SLURM_JOB_ID="1; touch /tmp/x").returncode == 0
    assert run("epilog", daemon, SLURM_JOB_ID="").returncode == 0
