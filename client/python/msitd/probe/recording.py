"""The recording of one debugger, and its hooks."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msitd._core.api.handle import ApiHandle
from msitd._core.api.options import ApiOptions
from msitd._core.api.targets import targets
from msitd._core.daemon.face_client import FaceClient
from msitd._core.daemon.msitctl import Msitctl
from msitd._core.daemon.patience import LONG_S, Patience
from msitd._core.module.hooks import HookHandle
from msitd._core.module.options import HookOptions
from msitd._core.module.wrappers import AS_HELD
from msitd.probe.capture import capture_rules
from msitd.probe.forms import MsprobeForm
from msitd.probe.listener import StepListener

if TYPE_CHECKING:
    import torch

    from msitd.probe.settings import Settings

# Maximum time in seconds until a client has received its capture policy.
_POLICY_MAX_S = 10.0
_POLL_S = 0.002
_RUN_BYTES_MAX = 120

_API_GROUPS = ("torch", "functional", "tensor", "vf", "distributed", "npu")
_ROOT = "root"


class Recording:
    """A client, its daemon if none is running, and hooks that are off until `resume`.

    Args:
        open_timeout: Maximum time in seconds to wait for the daemon.
    """

    def __init__(
        self, settings: Settings, rank: int, world_size: int, open_timeout: float
    ) -> None:
        self._settings = settings
        self._hooks: list[HookHandle | ApiHandle] = []
        self._hooked: list[torch.nn.Module] = []
        self._is_on = False
        self._api: ApiHandle | None = None
        self._form = MsprobeForm()
        self.folder = os.path.abspath(settings.dump_path)
        os.makedirs(self.folder, 0o750, exist_ok=True)
        self._face = FaceClient(
            self.folder,
            os.environ.get("MSITD_RUN") or _run_name(self.folder),
            rank,
            world_size,
            open_timeout=open_timeout,
        )
        self.client = self._face.client
        self._patience = Patience(self.client, LONG_S)
        try:
            self.msitctl = Msitctl(self._face.endpoint)
            self.msitctl.begin()
            self.listener = StepListener(settings, self.client)
            self._set_policy()
        except BaseException:
            self._face.close(lacking="")
            raise

    @property
    def is_daemon_away(self) -> bool:
        """Whether records would fill the buffer, and then wait for memory in vain."""
        return self._patience.is_away

    def watch_models(self, models: Sequence[torch.nn.Module], is_list: bool) -> None:
        """Puts hooks on the modules of models that have none.

        Args:
            is_list: Whether names start with the number of the model.
        """
        for number, model in enumerate(models):
            if any(model is known for known in self._hooked):
                continue
            self._hooked.append(model)
            plain = AS_HELD.unwrap(model)
            prefix = f"Module.{number}." if is_list else "Module."
            self.watch(model, *self._namer(plain, prefix))

    def _namer(
        self, model: torch.nn.Module, prefix: str
    ) -> tuple[Callable[[str], str], Callable[[], None]]:
        """Returns a function that names the modules of a model, and one that
        updates the names.

        Updating passes the modules to the listener. A replaced module may have
        another class, and therefore another op.
        """
        ops: dict[str, str] = {}

        def look() -> None:
            modules = dict(AS_HELD.named_modules(model))
            for name, module in modules.items():
                kind = type(module).__name__
                ops[name] = f"{prefix}{name}.{kind}" if name else _ROOT
            self.listener.add_modules({ops[name]: modules[name] for name in modules})

        def op_of(name: str) -> str:
            if name not in ops:
                look()
            return ops[name]

        look()
        return op_of, look

    def watch(
        self,
        model: torch.nn.Module,
        op_of: Callable[[str], str],
        on_change: Callable[[], None] = lambda: None,
    ) -> HookHandle:
        """Puts hooks on the modules of a model whose ops start with `Module.`.

        Args:
            op_of: See `HookHandle`, as for `on_change`.
        """
        handle = HookHandle(
            model,
            self.client,
            HookOptions(
                stack=self._stack(),
                gradients=self._has_gradients(),
                op_pattern="Module.*",
                time="step",
            ),
            op_of=op_of,
            on_change=on_change,
            # The names that msprobe uses.
            names=AS_HELD,
            listener=self.listener,
            has_ties=True,
            form=self._form,
        )
        self._add(handle)
        return handle

    def watch_functions(self) -> ApiHandle:
        """Starts recording torch functions."""
        if self._api is not None:
            return self._api
        functions = None
        if self._settings.functions is not None:
            functions, added = self._settings.functions.change(targets(_API_GROUPS))
            self.listener.selection.add_functions(added)
        self._api = handle = ApiHandle(
            self.client,
            ApiOptions(
                groups=_API_GROUPS,
                gradients=self._has_gradients(),
                stack=self._stack(),
            ),
            functions=functions,
            listener=self.listener,
            form=self._form,
        )
        self._add(handle)
        return handle

    def remove(self, handle: HookHandle) -> None:
        """Removes the hooks of `watch`."""
        handle.remove()
        self._hooks.remove(handle)

    @property
    def is_on(self) -> bool:
        """Whether calls that begin now are recorded."""
        return self._is_on

    def resume(self) -> None:
        """Starts recording."""
        self._is_on = True
        for handle in self._hooks:
            handle.resume()

    def pause(self) -> None:
        """Records only gradients of calls that were already recorded."""
        self._is_on = False
        for handle in self._hooks:
            handle.pause()

    def change(self, settings: Settings) -> None:
        """Records with other settings, which have the same folder."""
        self._remove_hooks()
        self._settings = settings
        self.listener = StepListener(settings, self.client)
        self._set_policy()

    def begin_step(self, step: int) -> None:
        """Records at a step from now on."""
        self.listener.begin_step()
        self.client._set_token(step)

    def close(self, is_whole: bool) -> None:
        """Removes the hooks, and closes the client.

        Args:
            is_whole: Whether nothing more is needed of a private daemon.
        """
        self._remove_hooks()
        self.msitctl.close()
        self._face.close(lacking="" if is_whole else self.folder)

    def _remove_hooks(self) -> None:
        self._is_on = False
        for handle in self._hooks:
            handle.remove()
        self._hooks.clear()
        self._hooked.clear()
        self._api = None

    def _add(self, handle: HookHandle | ApiHandle) -> None:
        if not self._is_on:
            handle.pause()
        self._hooks.append(handle)

    def _stack(self) -> str:
        return "full" if self._settings.has_extra_info else "none"

    def _has_gradients(self) -> bool:
        return "backward" in self._settings.data_mode

    def _set_policy(self) -> None:
        """Sets the capture policy so that the client keeps what is dumped of
        each tensor.
        """
        rules = capture_rules(self._settings)
        native = self.client._native
        known = native.selection(0)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(rules)
            file.flush()
            words = ["capture", "set", "--run", self.client.run, "--rules", file.name]
            self.msitctl.run([*words, "--from-token", "0"])
        deadline = time.monotonic() + _POLICY_MAX_S
        while native.selection(0) == known:
            if time.monotonic() > deadline:
                raise RuntimeError("the daemon has not told its capture policy in time")
            time.sleep(_POLL_S)


def _run_name(folder: str) -> str:
    name = os.path.basename(folder) or "probe"
    text = name.encode(errors="replace")[:_RUN_BYTES_MAX].decode(errors="ignore")
    return text or "probe"


def models_of(model: Any) -> tuple[list[torch.nn.Module], bool]:
    """Returns the models of an argument, and whether it is a list of models.

    Raises:
        ValueError: It is neither a model nor such a list.
    """
    # torch is installed, since there is a model.
    import torch

    models = list(model) if isinstance(model, (list, tuple)) else [model]
    for each in models:
        if not isinstance(each, torch.nn.Module):
            raise ValueError(  # noqa: TRY004 - as msprobe
                f"model is {type(each).__name__}, and neither a torch.nn.Module nor a "
                "list of them"
            )
    return models, isinstance(model, (list, tuple))
