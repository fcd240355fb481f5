"""The public function that dumps a model in the format of msit."""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msitd._core.api.handle import ApiHandle
from msitd._core.api.options import ApiOptions
from msitd._core.client import Client
from msitd._core.daemon.face_client import FaceClient
from msitd._core.daemon.msitctl import Msitctl
from msitd._core.installed import find_program
from msitd._core.module.registration import register_hook as record_modules
from msitd._core.module.wrappers import PLAIN
from msitd._core.patterns import compile_patterns
from msitd._core.removable import Removable
from msitd.llm.chosen_functions import API_GROUPS, chosen_functions
from msitd.llm.dump_config import DumpConfig
from msitd.llm.folders import new_root
from msitd.llm.running_module import RunningModule
from msitd.llm.tree_writer import TreeWriter, Wanted

if TYPE_CHECKING:
    import torch

_logger = logging.getLogger("msitd")

# Number of handles that this process has created.
_made_count = 0
_lock = threading.Lock()


def register_hook(
    model: torch.nn.Module, config: DumpConfig, hook_type: str = "dump_data"
) -> DumpHandle:
    """Dumps `model` as `config` describes, and records it in a run.

    The run has the name of the folder msit_dump_<time>, or that of MSITD_RUN.
    It is recorded by the daemon that `msitd.Client` finds. If none is running
    and MSITD_ENDPOINT is not set, a daemon is started for this process, which
    the logger `msitd` reports.

    The folder of a token appears soon after its end. The dump is complete when
    the handle is removed, or the process ends.

    Raises:
        ValueError: `model` is not a module, `config` is not a DumpConfig,
            another `hook_type` is requested, or no function of `api_list` can
            be dumped. The logger names the functions that cannot be dumped.
        FileNotFoundError: msitctl, which writes the folders, is not installed.
        MsitError: The daemon does not answer.
        RuntimeError: Another handle is already dumping functions.
    """
    # torch is installed, since there is a model.
    import torch

    if not isinstance(model, torch.nn.Module):
        raise ValueError(f"model is {type(model).__name__}, and no torch.nn.Module")  # noqa: TRY004 - as msit
    if not isinstance(config, DumpConfig):
        raise ValueError(f"config is {type(config).__name__}, and no DumpConfig")  # noqa: TRY004 - as msit
    if hook_type != "dump_data":
        raise ValueError(f"hook_type is {hook_type!r}, and not 'dump_data'")
    return DumpHandle(PLAIN.unwrap(model), config)


class DumpHandle(Removable):
    """One dump of one model.

    It ends with `remove()`, when it is left as a context manager, or when the
    process ends.
    """

    def __init__(self, model: torch.nn.Module, config: DumpConfig) -> None:
        global _made_count
        self.folder: str | None = None
        self.run: str | None = None
        self._endpoint: str | None = None
        self._rank = int(os.environ.get("RANK", "0"))
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._writer: TreeWriter | None = None
        # Cleanup steps, run in reverse order.
        self._ends = contextlib.ExitStack()
        self._hooks = contextlib.ExitStack()
        if not _is_on_device(model, config.device_id):
            _logger.warning(
                "nothing is dumped: the model is not on device %s", config.device_id
            )
            return
        names = {m: _op_of(name) for name, m in PLAIN.named_modules(model)}
        choose = _chooser(model, names, config)
        # Without msitctl, nothing is created.
        find_program("msitctl")
        world_size = int(os.environ.get("WORLD_SIZE", "1"))
        with _lock:
            _made_count += 1
            number = _made_count
        self.folder = new_root(config.dump_path, world_size)
        try:
            os.makedirs(self.folder, 0o755, exist_ok=True)
            client = self._connect(number)
            self._record(model, names, config, client, choose)
            msitctl = Msitctl(self._endpoint)
            self._ends.callback(msitctl.close)
            self._writer = writer = TreeWriter(
                client, _wanted(self.folder, self._rank, names, config), msitctl
            )
            self._ends.callback(writer.finish)
            self._ends.callback(self._hooks.close)
        except BaseException:
            self._hooks.close()
            self._ends.close()
            # Removes only empty folders.
            with contextlib.suppress(OSError):
                os.rmdir(self.folder)
            raise
        # Registered after the exit function of the client, so it runs first.
        atexit.register(self.remove)

    def remove(self) -> None:
        """Ends the dump: `folder` is then complete. Further calls have no effect."""
        atexit.unregister(self.remove)
        with self._lock:
            # A forked child has neither the threads nor the records.
            if self._pid == os.getpid():
                self._ends.close()

    def _connect(self, number: int) -> Client:
        assert self.folder is not None
        run = os.environ.get("MSITD_RUN") or os.path.basename(self.folder)
        if os.environ.get("MSITD_RUN") and number > 1:
            run = f"{run}.{number}"
        face = FaceClient(os.path.dirname(self.folder), run)
        self._ends.callback(self._stop, face)
        self._endpoint = face.endpoint
        self.run = face.client.run
        return face.client

    def _stop(self, face: FaceClient) -> None:
        is_whole = self._writer is None or self._writer.is_whole
        face.close(lacking="" if is_whole else self.folder or "")

    def _record(
        self,
        model: torch.nn.Module,
        names: dict[torch.nn.Module, str],
        config: DumpConfig,
        client: Client,
        choose: dict[str, Any],
    ) -> None:
        sides = {
            "inputs": config.tensor_part != 1,
            "outputs": config.tensor_part != 0,
        }
        if config.dump_last_logits:
            module_sides = {"inputs": False, "outputs": True}
        else:
            module_sides = sides
        if config.dump_weight:
            _record_weights(model, client, choose["wants"])
        if "api" in config.mode:
            running = RunningModule(names)
            self._hooks.enter_context(
                ApiHandle(
                    client,
                    ApiOptions(
                        groups=API_GROUPS,
                        op_pattern=choose["apis"].ops,
                        name_of=functools.partial(_api_name, running, choose["wants"]),
                        tokens=config.token_range,
                        values=False,
                        inputs=sides["inputs"],
                        outputs=sides["outputs"],
                    ),
                    functions=choose["apis"].functions,
                )
            )
        # Needed even if no module is dumped, because it counts the forwards.
        self._hooks.enter_context(
            record_modules(
                model,
                client,
                values=False,
                op_pattern=choose["modules"],
                tokens=config.token_range,
                time="forward",
                **module_sides,
            )
        )


def _op_of(name: str) -> str:
    return f"root.{name}" if name else "root"


def _record_weights(
    model: torch.nn.Module, client: Client, wants: Callable[[str], Any]
) -> None:
    for module, index, parameter in PLAIN.named_parameters(model):
        name = f"{module}.{index}" if module else index
        if not wants(f"root.{name}"):
            continue
        try:
            client.record(
                parameter.detach(), op=_op_of(module), io="weight", index=index, call=0
            )
        except (TypeError, ValueError, RuntimeError) as error:
            _logger.warning("the weight root.%s is not dumped: %s", name, error)


def _is_on_device(model: torch.nn.Module, device_id: int | None) -> bool:
    if device_id is None:
        return True
    device = None
    for parameter in model.parameters():
        device = parameter.device
    if device is None or device.type == "cpu":
        return True
    return (device.index or 0) == device_id


def _chooser(
    model: torch.nn.Module, names: dict[torch.nn.Module, str], config: DumpConfig
) -> dict[str, Any]:
    """Returns patterns of the modules, functions and weights that are dumped."""
    wants: Callable[[str], Any] = compile_patterns(config.layer_name)
    modules = []
    if "module" in config.mode:
        classes = tuple(config.module_list) or object
        modules = [
            op
            for module, op in names.items()
            if isinstance(module, classes) and wants(op)
        ]
    return {
        "wants": wants,
        "modules": modules,
        "apis": chosen_functions(config.api_list),
    }


def _api_name(
    running: RunningModule, wants: Callable[[str], Any], op: str
) -> str | None:
    """Returns the op of a function inside the running module; None outside of
    modules.
    """
    module = running.name()
    if module is None:
        return None
    name = f"{module}.{op.rpartition('.')[2]}"
    return name if wants(name) else None


def _wanted(
    root: str, rank: int, names: dict[torch.nn.Module, str], config: DumpConfig
) -> Wanted:
    types = {op: type(module).__name__ for module, op in names.items()}

    def type_of(folder: str) -> str:
        # The number of a later call is at the end of the op.
        op, _, call = folder.rpartition(".")
        return types.get(folder) or (call.isdigit() and types.get(op)) or types["root"]

    return Wanted(
        root=root,
        rank=rank,
        tokens=config.token_range,
        weights=config.dump_weight,
        tensors=config.dump_statistics_mode != 1,
        statistics=config.dump_statistics_mode != 0,
        analysis=config.analyze,
        last_logits=config.dump_last_logits,
        type_of=type_of,
        is_module=types.__contains__,
    )
