"""Configurations for dumps of TorchAir, tested with a stand-in for TorchAir."""

import doctest
import os
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import pytest
from msitd.llm import torchair_dump


class Options:
    """Accepts only the attributes that it was created with, as TorchAir does."""

    def __init__(self, **options: Any) -> None:
        self.__dict__.update(options)

    def __setattr__(self, name: str, value: Any) -> None:
        assert name in self.__dict__, f"TorchAir has no option {name}"
        self.__dict__[name] = value


def make_config_class(path_name: str, *, takes_fx_path: bool) -> type:
    class CompilerConfig:
        def __init__(self) -> None:
            data_dump: dict[str, Any] = {"type": None}
            if takes_fx_path:
                data_dump["path"] = None
            self.debug = types.SimpleNamespace(
                graph_dump=Options(type=None, **{path_name: None}),
                data_dump=Options(**data_dump),
            )
            self.dump_config = Options(
                enable_dump=False,
                dump_mode="all",
                dump_path="./",
                dump_step=None,
                dump_layer=None,
            )
            self.fusion_config = Options(fusion_switch_file=None)

        def options(self) -> dict[str, str]:
            """Returns the options of GE that TorchAir derives."""
            dump = self.dump_config
            named = {
                "ge.exec.enableDump": "1" if dump.enable_dump else None,
                "ge.exec.dumpPath": dump.dump_path,
                "ge.exec.dumpMode": dump.dump_mode,
                "ge.exec.dumpStep": dump.dump_step,
                "ge.exec.dumpLayer": dump.dump_layer,
                "ge.fusionSwitchFile": self.fusion_config.fusion_switch_file,
            }
            return {name: value for name, value in named.items() if value is not None}

    return CompilerConfig


@pytest.fixture(params=["_path", "path"])
def path_name(request: pytest.FixtureRequest) -> str:
    """TorchAir's name for the folder of graphs, in newer and older versions."""
    return str(request.param)


@pytest.fixture
def torchair(monkeypatch: pytest.MonkeyPatch, path_name: str) -> types.ModuleType:
    module = types.ModuleType("torchair")
    module.CompilerConfig = make_config_class(path_name, takes_fx_path=True)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchair", module)
    return module


@pytest.fixture(autouse=True)
def warnings_are_errors() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_ge_dumps_all_into_the_folder(
    torchair: types.ModuleType, path_name: str, tmp_path: Path
) -> None:
    config = torchair_dump.get_ge_dump_config(tmp_path / "deep" / "dump")
    folder = str((tmp_path / "deep/dump/msit_ge_dump").resolve())
    assert os.path.isdir(folder)
    assert vars(config.debug.graph_dump) == {"type": "txt", path_name: folder}
    assert config.options() == {
        "ge.exec.enableDump": "1",
        "ge.exec.dumpPath": folder,
        "ge.exec.dumpMode": "all",
    }


def test_ge_dumps_what_is_asked_for(torchair: types.ModuleType, tmp_path: Path) -> None:
    switches = tmp_path / "fusion.json"
    switches.write_text('{"Switch": {"GraphFusion": {"ALL": "off"}}}')
    given = torchair.CompilerConfig()
    config = torchair_dump.get_ge_dump_config(
        dump_path=str(tmp_path),
        dump_mode="output",
        fusion_switch_file=str(switches),
        dump_token=[1, 2, "5-7"],
        dump_layer=["Add", "Conv_1"],
        compiler_config=given,
    )
    assert config is given
    assert config.options() == {
        "ge.exec.enableDump": "1",
        "ge.exec.dumpPath": str(tmp_path / "msit_ge_dump"),
        "ge.exec.dumpMode": "output",
        "ge.exec.dumpStep": "1|2|5-7",
        "ge.exec.dumpLayer": "Add Conv_1",
        "ge.fusionSwitchFile": str(switches),
    }


def test_the_default_is_the_current_folder(
    torchair: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torchair_dump.get_ge_dump_config()
    torchair_dump.get_fx_dump_config()
    assert sorted(os.listdir(tmp_path)) == ["msit_fx_dump", "msit_ge_dump"]


def test_fx_dumps_into_the_folder(torchair: types.ModuleType, tmp_path: Path) -> None:
    config = torchair_dump.get_fx_dump_config(dump_path=tmp_path)
    folder = str(tmp_path / "msit_fx_dump")
    assert vars(config.debug.data_dump) == {"type": "npy", "path": folder}
    assert os.path.isdir(folder)
    # GE is unchanged.
    assert not config.dump_config.enable_dump


def test_a_torchair_that_takes_no_path_for_fx_says_where_files_lie(
    torchair: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torchair.CompilerConfig = make_config_class("path", takes_fx_path=False)  # type: ignore[attr-defined]
    with pytest.warns(UserWarning, match=str(tmp_path / "data_dump")):
        config = torchair_dump.get_fx_dump_config("dump")
    assert vars(config.debug.data_dump) == {"type": "npy"}
    assert os.listdir(tmp_path) == []
    # No other folder was requested.
    torchair_dump.get_fx_dump_config()


def test_a_folder_with_dumps_is_warned_of(
    torchair: types.ModuleType, tmp_path: Path
) -> None:
    torchair_dump.get_ge_dump_config(tmp_path)
    (tmp_path / "msit_ge_dump/worldsize1_global_rank0").mkdir()
    with pytest.warns(UserWarning, match="is not empty"):
        torchair_dump.get_ge_dump_config(tmp_path)


@pytest.mark.parametrize(
    ("argument", "value", "error", "reason"),
    [
        ("dump_mode", "inputs", ValueError, "not one of input, output, all"),
        ("dump_token", [1, "a"], ValueError, "dump_token has 'a'"),
        ("dump_token", [-1], ValueError, "dump_token has '-1'"),
        ("dump_token", "12", TypeError, "dump_token is a text"),
        ("dump_token", [True], TypeError, "True is neither"),
        ("dump_layer", ["Add", "a b"], ValueError, "dump_layer has 'a b'"),
        ("dump_layer", "Add", TypeError, "dump_layer is a text"),
        ("dump_layer", [""], ValueError, "dump_layer has ''"),
        ("fusion_switch_file", "/no/such/file", FileNotFoundError, "no/such"),
        ("compiler_config", {}, TypeError, "of class dict"),
    ],
)
def test_what_ge_does_not_take_is_refused_before_anything_changes(
    torchair: types.ModuleType,
    tmp_path: Path,
    argument: str,
    value: object,
    error: type[Exception],
    reason: str,
) -> None:
    given = torchair.CompilerConfig()
    before = given.options()
    arguments: dict[str, Any] = {"compiler_config": given, argument: value}
    with pytest.raises(error, match=reason):
        torchair_dump.get_ge_dump_config(tmp_path, **arguments)
    assert given.options() == before
    assert os.listdir(tmp_path) == []


def test_a_path_that_is_a_file_is_refused(
    torchair: types.ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "msit_fx_dump").write_text("")
    with pytest.raises(FileExistsError):
        torchair_dump.get_fx_dump_config(tmp_path)


def test_without_torchair_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchair", None)
    with pytest.raises(ImportError, match="TorchAir cannot be imported"):
        torchair_dump.get_ge_dump_config()


@pytest.mark.usefixtures("torchair")
def test_every_line_of_the_page_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path(__file__).parents[2] / "docs" / "torchair.md"
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted == 6
    assert result.failed == 0
