"""Files that run msitd elsewhere are well-formed, and consistent with the daemon."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import tomllib
import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
UID = 7741
SHELL_SCRIPTS = ("slurm/prolog", "slurm/epilog")


def instructions(text: str) -> list[tuple[str, str]]:
    """Returns the instructions of a Dockerfile, each with its arguments on one line."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    out = []
    for line in joined.splitlines():
        if line.strip():
            word, _, rest = line.partition(" ")
            out.append((word, rest.strip()))
    return out


def dockerfile() -> list[tuple[str, str]]:
    return instructions((DEPLOY / "container/Dockerfile").read_text())


def documents() -> dict[str, dict]:
    text = (DEPLOY / "kubernetes/daemonset.yaml").read_text()
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def test_the_image_runs_as_a_user_of_its_own() -> None:
    steps = dockerfile()
    words = [word for word, _ in steps]
    known = {"FROM", "RUN", "COPY", "USER", "VOLUME", "STOPSIGNAL", "HEALTHCHECK"}
    assert set(words) == known | {"ENTRYPOINT", "CMD"}
    assert words[0] == "FROM"
    assert ("FROM", "debian:12-slim") in steps
    assert ("USER", "msitd") in steps
    # Everything that requires root comes before.
    assert "RUN" not in words[words.index("USER") :]
    made = next(rest for word, rest in steps if "useradd" in rest)
    assert f"--uid {UID}" in made and f"--gid {UID}" in made


def test_the_image_takes_packages_that_are_made() -> None:
    copied = next(rest for word, rest in dockerfile() if word == "COPY").split()[:-1]
    packages = (DEPLOY / "cmake/MsitdPackages.cmake").read_text()
    for pattern in copied:
        name = re.fullmatch(r"dist/([a-z0-9-]+)_\*\.deb", pattern)
        assert name, pattern
        assert re.search(rf"\b{name[1]}\b", packages)


def version() -> str:
    text = (DEPLOY.parent / "CMakeLists.txt").read_text()
    return re.search(r"project\(\s*\w+\s+VERSION ([\d.]+)", text)[1]


def test_images_have_the_tag_of_this_version() -> None:
    spec = pod()
    for container in spec["containers"] + spec["initContainers"]:
        assert container["image"] == f"msitd:{version()}"
    text = (DEPLOY / "kubernetes/kustomization.yaml").read_text()
    (image,) = yaml.safe_load(text)["images"]
    assert image["name"] == "msitd" and image["newTag"] == version()
    for file in ("kubernetes/daemonset.yaml", "container/Dockerfile"):
        assert "latest" not in (DEPLOY / file).read_text()


def test_the_package_and_the_image_have_the_same_user() -> None:
    line = (DEPLOY / "systemd/msitd.sysusers").read_text().splitlines()[-1]
    assert line.split()[:3] == ["u", "msitd", str(UID)]


def test_the_base_of_kustomize_can_be_built() -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("there is no kubectl")
    done = subprocess.run(
        [kubectl, "kustomize", DEPLOY / "kubernetes"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kinds = [document["kind"] for document in yaml.safe_load_all(done.stdout)]
    assert sorted(kinds) == sorted(documents())


def test_the_pod_has_a_priority_and_its_namespace_a_level() -> None:
    priority = documents()["PriorityClass"]
    assert pod()["priorityClassName"] == priority["metadata"]["name"]
    assert 0 < priority["value"] < 1_000_000_000
    labels = documents()["Namespace"]["metadata"]["labels"]
    # The volumes need it.
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"
    (daemon,) = pod()["containers"]
    assert daemon["securityContext"]["runAsNonRoot"] is True


def pod() -> dict:
    return documents()["DaemonSet"]["spec"]["template"]["spec"]


def test_the_pod_has_no_rights_that_it_does_not_need() -> None:
    spec = pod()
    assert spec["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert spec["securityContext"]["runAsUser"] == UID
    assert spec["securityContext"]["runAsGroup"] == UID
    for container in spec["containers"] + spec["initContainers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"]["drop"] == ["ALL"]
        assert "privileged" not in context
        for kind in ("requests", "limits"):
            assert set(container["resources"][kind]) == {"cpu", "memory"}
    assert "add" not in spec["containers"][0]["securityContext"]["capabilities"]


def test_the_socket_is_a_directory_of_the_node() -> None:
    spec = pod()
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["sockets"]["hostPath"] == {
        "path": "/run/msitd",
        "type": "DirectoryOrCreate",
    }
    (daemon,) = spec["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in daemon["volumeMounts"]}
    assert set(mounts.values()) <= set(volumes)
    config = tomllib.loads(documents()["ConfigMap"]["data"]["msitd.toml"])
    assert mounts[config["socket_dir"]] == "sockets"
    assert mounts[config["data_dir"]] == "data"
    assert config["listen"] == []
    for container in spec["initContainers"]:
        for mount in container["volumeMounts"]:
            assert mount["name"] in volumes


def test_the_probes_ask_the_daemon_and_a_stop_has_time() -> None:
    (daemon,) = pod()["containers"]
    config = tomllib.loads(documents()["ConfigMap"]["data"]["msitd.toml"])
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        command = daemon[probe]["exec"]["command"]
        assert command[0] == "/usr/bin/msitctl"
        assert command[command.index("--endpoint") + 1] == config["socket_dir"]
        limit = int(command[command.index("--timeout") + 1].removesuffix("s"))
        assert limit < daemon[probe]["timeoutSeconds"]
    startup = daemon["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 300
    grace_ms = 1000 * pod()["terminationGracePeriodSeconds"]
    assert grace_ms > config["drain_timeout_ms"] + 10_000


def test_labels_select_the_pod() -> None:
    daemonset = documents()["DaemonSet"]
    labels = daemonset["spec"]["template"]["metadata"]["labels"]
    assert daemonset["spec"]["selector"]["matchLabels"].items() <= labels.items()
    namespace = documents()["Namespace"]["metadata"]["name"]
    for kind in ("ConfigMap", "DaemonSet"):
        assert documents()[kind]["metadata"]["namespace"] == namespace


def test_shell_scripts_have_no_mistakes_that_shellcheck_knows() -> None:
    for script in SHELL_SCRIPTS:
        done = subprocess.run(
            ["shellcheck", "--severity=style", DEPLOY / script],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
