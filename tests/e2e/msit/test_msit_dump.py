"""msit debug dump, with stand-ins for CANN and MindIE."""

import json
from pathlib import Path

import pytest
import standin
from msit_command import log_of, msit
from standin import Standin, write_tree
from test_acl import imported, records

from daemon import Daemon

MAPPINGS = ["mindie_rt_op_mapping.json", "mindie_torch_op_mapping.json"]


@pytest.fixture(scope="module", params=["plain", "mindiedump"])
def toolkit(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Standin:
    """A toolkit without and with its own library for dumps of MindIE."""
    return standin.build(
        tmp_path_factory.mktemp("standin"),
        has_mindie_dump=request.param == "mindiedump",
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return standin.build(tmp_path_factory.mktemp("plain"))


class Place:
    """A folder to run in, one for temporary files, and a tree to replay."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.temporary = folder / "tmp"
        self.log = folder / "log"
        for made in (self.work, self.temporary):
            made.mkdir()
        self.tree = write_tree(folder / "tree")

    def environment(self, cann: Standin, **more: object) -> dict[str, str]:
        return cann.environment(
            TMPDIR=self.temporary,
            STANDIN_TREE=self.tree,
            STANDIN_LOG=self.log,
            **more,
        )

    def called(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def configuration(place: Place) -> dict[str, object]:
    (text,) = [line for line in place.called() if line.startswith("{")]
    dump = json.loads(text)["dump"]
    assert isinstance(dump, dict)
    return dump


def test_files_lie_where_compare_looks_for_them(toolkit: Standin, place: Place) -> None:
    done = msit(
        place.work,
        "debug",
        "dump",
        "--exec",
        str(toolkit.mindie),
        "-o",
        "dumps/new",
        environment=place.environment(toolkit, MSITD_RUN="other"),
    )
    found = files_of(place.work)
    assert {name: found.pop(name) for name in MAPPINGS}
    dumped = {f"dumps/new/{k}": v for k, v in files_of(place.tree).items()}
    assert found == dumped
    assert all("/20251001120000/0/Graph/1/" in name for name in found)
    assert configuration(place) == {
        "dump_path": str(place.work / "dumps/new"),
        "dump_mode": "all",
        "dump_op_switch": "off",
        "dump_list": [{"model_name": "Graph"}],
    }
    assert "acldumpRegCallback" not in place.called()
    has_library = (toolkit.home / "tools").exists()
    assert any("libmindiedump" in line for line in place.called()) == has_library
    assert list(place.temporary.iterdir()) == []
    messages = [message for _, _, message in log_of(done.stderr)]
    assert messages[-1] == f"The dumps are in {place.work / 'dumps/new'}"


def test_run_has_the_tensors_and_the_mappings(
    daemon: Daemon, toolkit: Standin, place: Place
) -> None:
    done = msit(
        place.work,
        "debug",
        "dump",
        "--exec",
        str(toolkit.mindie),
        "--run",
        "streamed",
        "--endpoint",
        f"unix:{daemon.socket_dir}",
        environment=place.environment(toolkit),
    )
    assert files_of(place.work) == {}
    assert list(place.temporary.iterdir()) == []
    assert "run streamed: 36 tensors from 12 files" in done.stderr
    assert records(daemon, "streamed") == imported(daemon, place.tree)
    listed = daemon.ctl_json("run", "attachments", "streamed")["attachments"]
    assert sorted(one["name"].rpartition("/")[2] for one in listed) == MAPPINGS
    assert place.called().count("aclmdlInitDump") == 1


@pytest.mark.parametrize("flags", [(), ("--run", "streamed")])
def test_only_named_ops_are_dumped(
    daemon: Daemon, toolkit: Standin, place: Place, flags: tuple[str, ...]
) -> None:
    msit(
        place.work,
        "debug",
        "dump",
        "--exec",
        str(toolkit.mindie),
        "-opname",
        "layer_op1,layer_op3",
        *flags,
        environment=place.environment(
            toolkit, MSITD_ENDPOINT=f"unix:{daemon.socket_dir}"
        ),
    )
    layers = configuration(place)["dump_list"]
    assert layers == [{"model_name": "Graph", "layer": ["layer_op1", "layer_op3"]}]
    if flags:
        ops = {json.loads(text)["op"] for text in records(daemon, "streamed")}
    else:
        names = [path.name for path in place.work.rglob("MatMul.*")]
        ops = {name.split(".")[1].replace("_", "/") for name in names}
    assert ops == {"layer/op1", "layer/op3"}


def test_exit_code_is_that_of_the_command(plain: Standin, place: Place) -> None:
    done = msit(
        place.work,
        "debug",
        "dump",
        "--exec",
        f"{plain.mindie} 7",
        environment=place.environment(plain),
        expect=7,
    )
    assert "The command exited with 7" in done.stderr
    killed = place.environment(plain, STANDIN_KILL_AFTER=0)
    killed["MSITD_ENDPOINT"] = "127.0.0.1:1"
    done = msit(
        place.work,
        "debug",
        "dump",
        "--exec",
        str(plain.mindie),
        "--run",
        "r",
        environment=killed,
        expect=128 + 9,
    )
    # The mappings of the first command stay: they do not belong to this one.
    assert sorted(p.name for p in place.work.iterdir() if p.is_file()) == MAPPINGS
    assert done.stderr.count("it must call mindietorch.finalize") == 2


def test_files_that_cann_writes_nevertheless_are_an_error(
    daemon: Daemon, toolkit: Standin, place: Place
) -> None:
    done = msit(
        place.work,
        "debug",
        "dump",
        "--exec",
        str(toolkit.mindie),
        "--run",
        "r",
        environment=place.environment(
            toolkit,
            MSITD_ENDPOINT=daemon_path(daemon),
            STANDIN_HAS_NO_CALLBACK=1,
        ),
        expect=1,
    )
    assert "libmsit_acl: nothing is dumped: " in done.stderr
    assert list(place.temporary.iterdir()) == []


def test_library_that_cannot_be_preloaded_is_refused(
    plain: Standin, place: Place
) -> None:
    shim = place.work / "a b.so"
    shim.touch()
    done = msit(
        place.work,
        "debug",
        "dump",
        "--exec",
        "true",
        environment=place.environment(plain, MSIT_ACL_LIBRARY=shim),
        expect=1,
    )
    assert "cannot be preloaded: its path contains a space" in done.stderr


def test_mappings_stay_if_the_daemon_is_not_there(
    daemon: Daemon, plain: Standin, place: Place
) -> None:
    daemon.stop()
    done = msit(
        place.work,
        "debug",
        "dump",
        "--exec",
        str(plain.mindie),
        "--run",
        "r",
        environment=place.environment(plain, MSITD_ENDPOINT=daemon_path(daemon)),
        expect=1,
    )
    assert "msit: attach mindie_rt_op_mapping.json to run r: " in done.stderr
    assert sorted(files_of(place.work)) == MAPPINGS


def daemon_path(daemon: Daemon) -> str:
    return f"unix:{daemon.socket_dir}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "without --exec"),
        (("-m", "a.onnx", "-dp", "cpu"), "--model, --device-pattern"),
        (("-opname", "a"), "--operation-name requires --exec"),
        (("--exec", "echo $(ls)"), "a character other than"),
        (("--exec", "true;ls"), "a character other than"),
        (("--exec", ""), "the command is empty"),
        (("--exec", "true", "--run", ""), "--run: the name is empty"),
        (("--exec", "true", "--endpoint", "h:1"), "--endpoint requires --run"),
        (("--exec", "true", "--run", "r", "--endpoint", "?"), "?"),
        (("--exec", "no-such-program"), "start no-such-program: "),
        (("--exec", "true", "-o", "/proc/no"), "/proc"),
    ],
)
def test_wrong_command_lines_are_refused(
    plain: Standin, place: Place, words: tuple[str, ...], said: str
) -> None:
    done = msit(
        place.work,
        "debug",
        "dump",
        *words,
        environment=place.environment(plain),
        expect=1,
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("msit: ") and said in last
    assert list(place.temporary.iterdir()) == []


def test_toolkit_has_to_be_set(plain: Standin, place: Place) -> None:
    done = msit(
        place.work,
        "debug",
        "dump",
        "--exec",
        "true",
        environment={**place.environment(plain), "ASCEND_TOOLKIT_HOME": ""},
        expect=1,
    )
    assert "ASCEND_TOOLKIT_HOME is not set" in done.stderr


def test_flags_for_other_models_mean_nothing_with_a_command(
    plain: Standin, place: Place
) -> None:
    done = msit(
        place.work,
        "debug",
        "dump",
        "--exec",
        "true",
        *("-m", "m", "-w", "w", "-is", "a:1,2", "--tf-json", "t", "-dp", "npu"),
        environment=place.environment(plain),
    )
    ignored = "--model, --weight, --input-shape, --device-pattern, --tf-json"
    assert f"WARNING - not used with --exec: {ignored}" in done.stderr
