"""The feature MsitdRecord, as nvdlfw_inspect itself finds, configures and calls it.

TransformerEngine needs an accelerator: a stand-in has its namespace.
"""

import copy
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nvdlfw_inspect.api as debug_api
import pytest
import torch
from engine_places import places
from msitd.engines import transformer_engine
from nvdlfw_inspect.base import BaseConfigAPIMapper, BaseNamespaceAPI
from nvdlfw_inspect.registry import Registry

from daemon import Daemon

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


class TEConfigAPIMapper(BaseConfigAPIMapper):
    """Finds what a configuration says of a tensor."""

    def parse_config_and_api(self, config: Any, **kwargs: Any) -> Any:
        found = self._process_tensor_config(
            copy.deepcopy(config), kwargs["tensor_name"]
        )
        if not found:
            return False, None
        found.pop("enabled", None)
        return True, found


class Defaults:
    """What happens without a feature."""

    def inspect_tensor_enabled(self, config: Any, layer_name: str, **_: Any) -> Any:
        return False, None

    def inspect_tensor(self, config: Any, layer_name: str, **_: Any) -> None:
        return None


class TransformerEngineAPI(BaseNamespaceAPI):
    """The namespace."""

    def __init__(self) -> None:
        super().__init__()
        self._default_api_impl = Defaults()
        self._cacheable_api_kwargs_map = {
            "inspect_tensor": ["tensor_name"],
            "inspect_tensor_enabled": ["tensor_name"],
        }

    def is_multiple_feature_invocation_allowed(self, api_name: str) -> bool:
        return True

    def input_assertions_hook(self, api_name: str, **kwargs: Any) -> None:
        assert "tensor_name" in kwargs

    def routing_condition(
        self, api_name: str, config: Any, layer_name: str, feature_obj: Any, **kw: Any
    ) -> Any:
        return feature_obj.parse_config_and_api(config, tensor_parsing=True, **kw)

    def output_assertions_hook(self, api_name: str, ret: Any, **_: Any) -> None:
        assert isinstance(ret, tuple) if "enabled" in api_name else ret is None


@pytest.fixture(autouse=True)
def place(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A daemon where a client looks for it, and the stand-in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{daemon.socket_dir}")
    monkeypatch.setenv("MSITD_RUN", "r")
    name = "transformer_engine.debug.features.api"
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        module = types.ModuleType(".".join(parts[:end]))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    sys.modules[name].TEConfigAPIMapper = TEConfigAPIMapper  # type: ignore[attr-defined]
    yield
    debug_api.end_debug()
    transformer_engine.close()


@pytest.mark.parametrize("round", [1, 2])
def test_it_is_found_configured_and_called(round: int, daemon: Daemon) -> None:
    Path("inspect.yaml").write_text(CONFIG)
    Registry.register_namespace_api("transformer_engine")(TransformerEngineAPI)
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
                    )
        debug_api.step()
    debug_api.end_debug()
    transformer_engine.close()
    assert places(daemon) == [
        (iteration, 0, "decoder.fc1", what)
        for iteration in (0, 2)
        for what in ("input 0", "weight weight")
    ]
