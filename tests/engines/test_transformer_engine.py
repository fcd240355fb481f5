"""The feature MsitdRecord, as nvdlfw_inspect finds, configures and calls it.

TransformerEngine requires an accelerator, but its namespace and its features do
not.
"""

import importlib
import itertools
import json
import os
import sys
import types
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

import nvdlfw_inspect.api as debug_api
import pytest
import released
import torch
from engine_places import places
from msitd.engines import transformer_engine
from msitd.engines.transformer_engine.feature import is_recorded, next_recorded

from daemon import ROOT, Daemon

# Its installation folder, without the code that would import it.
FOLDER = Path(os.environ.get("MSITD_TRANSFORMER_ENGINE", ""))
FEATURES = FOLDER / "transformer_engine/debug/features"
# Modules that need the compiled part, and packages that import these modules.
AROUND: dict[str, dict[str, Any]] = {
    "transformer_engine": {},
    "transformer_engine.debug": {},
    "transformer_engine.debug.pytorch": {},
    "transformer_engine.debug.features": {},
    "transformer_engine.debug.features.utils.stats_buffer": {
        "STATS_BUFFERS": mock.MagicMock()
    },
    "transformer_engine.pytorch": {},
    "transformer_engine.pytorch.tensor": {
        "get_all_tensor_types": lambda: [torch.Tensor],
        "Quantizer": object,
        "QuantizedTensor": torch.Tensor,
    },
}

CONFIG = """
record:
  enabled: True
  layers:
    layer_name_regex_pattern: .*fc1
  transformer_engine:
    MsitdRecord:
      enabled: True
      tensors: [activation, weight]
      freq: 2
"""


pytestmark = pytest.mark.skipif(
    not FEATURES.is_dir(), reason="MSITD_TRANSFORMER_ENGINE names no folder that has it"
)


@pytest.fixture(autouse=True)
def place(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A daemon at the default endpoint of clients, and the importable part of
    TransformerEngine.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{daemon.socket_dir}")
    monkeypatch.setenv("MSITD_RUN", "r")
    for name in list(sys.modules):
        if name.partition(".")[0] == "transformer_engine":
            monkeypatch.delitem(sys.modules, name)
    for name, content in AROUND.items():
        module = types.ModuleType(name)
        vars(module).update(content)
        module.__path__ = [str(FOLDER.joinpath(*name.split(".")))]
        monkeypatch.setitem(sys.modules, name, module)
    yield
    debug_api.end_debug()
    transformer_engine.close()


@pytest.mark.parametrize("round", [1, 2])
def test_it_is_found_configured_and_called(round: int, daemon: Daemon) -> None:
    Path("inspect.yaml").write_text(CONFIG)
    importlib.import_module("transformer_engine.debug.features.api")
    debug_api.initialize(
        "inspect.yaml", feature_dirs=[transformer_engine.FEATURES], log_dir="logs"
    )
    namespace = debug_api.transformer_engine
    for iteration in range(4):
        for layer in ("decoder.fc1", "decoder.fc2"):
            for name in ("activation", "weight", "output"):
                place = {"layer_name": layer, "tensor_name": name}
                is_on, _ = namespace.inspect_tensor_enabled(
                    **place, iteration=iteration
                )
                if is_on:
                    namespace.inspect_tensor(
                        **place,
                        iteration=iteration,
                        tp_group=None,
                        tensor=torch.ones(2) * iteration,
                        rowwise_quantized_tensor=None,
                        columnwise_quantized_tensor=None,
                        quantizer=None,
                        tp_size=1,
                    )
        debug_api.step()
    debug_api.end_debug()
    transformer_engine.close()
    assert places(daemon) == [
        (iteration, 0, "decoder.fc1", what)
        for iteration in (0, 2)
        for what in ("input 0", "weight weight")
    ]


def test_iterations_are_those_of_its_own_features() -> None:
    utils = importlib.import_module("transformer_engine.debug.features.utils")
    starts: tuple[int | None, ...] = (None, 0, 3)
    for start, end, every in itertools.product(starts, (None, 4, 9), (1, 2, 3)):
        for pairs in (None, [[1, 2], [6, 8]]):
            config = {
                "start_step": start,
                "end_step": end,
                "start_end_list": pairs,
                "freq": every,
            }
            for iteration in range(12):
                theirs = utils.next_enabled_iter(start, end, pairs, every, iteration)
                ours = is_recorded(config, iteration), next_recorded(config, iteration)
                # TransformerEngine returns None if no later iteration is
                # recorded.
                assert ours == (theirs or (ours[0], None)), (config, iteration)


def test_the_golden_file_is_that_of_this_version() -> None:
    [installed] = metadata.distributions(name="transformer_engine", path=[str(FOLDER)])
    path = ROOT / "tests/golden/engines/transformer_engine.json"
    golden = json.loads(path.read_text())
    assert golden["version"] == installed.version
    found = released.signatures(FEATURES / "dump_tensors.py", "DumpTensors")
    for name, parameters in golden["feature"].items():
        assert found[name] == parameters
