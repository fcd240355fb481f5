"""Puts hooks on each model that a program calls."""

from __future__ import annotations

import atexit
import contextlib
import functools
import multiprocessing.util
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

from msitd._core import openings
from msitd._core.api.handle import ApiHandle, register_api
from msitd._core.client import Client
from msitd._core.daemon.patience import LONG_S
from msitd._core.daemon.ranks import rank_of_process
from msitd._core.module.hooks import HookHandle
from msitd._core.module.options import HookOptions
from msitd._core.module.wrappers import PLAIN
from msitd._exec import scripting, telling, variations
from msitd._exec.owners import owner_of, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    import torch

    from msitd._exec.settings import ExecSettings
    from msitd.injection import Injection

# Scripts that import one of these choose themselves what is recorded.
_FACES = ("msitd.llm", "msitd.probe")

# Low, so that finalizers of the program, which may call a model, run first.
_END_PRIORITY = -100


class _Models:
    """The hooked models of this process. Any thread may call one."""

    def __init__(self, settings: ExecSettings) -> None:
        self._settings = settings
        # The program has imported torch.
        import torch

        self._lock = threading.RLock()
        self._register = torch.nn.modules.module.register_module_forward_pre_hook
        self._code = torch.nn.Module._call_impl.__code__
        self._script_kind = torch.jit.ScriptModule
        # Calls during tracing are not steps of the program.
        self._is_tracing = torch.jit.is_tracing
        self._is_varied = not variations.changes_model(settings.variation)
        if not self._is_varied:
            variations.before_calls(self._vary)
        openings.opening.append(self._make_room)
        openings.opened.append(self._see_client)
        self._hook_of_all: Any = None
        self._forget()

    def _forget(self) -> None:
        self._client: Client | None = None
        self._functions: ApiHandle | None = None
        self._rank = 0
        self._is_opening = False
        # That of the model that was hooked last.
        self._injection: Injection | None = None
        self._known: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._has_main = False
        self._op_counts: dict[str, int] = {}
        self._ends = contextlib.ExitStack()
        self._is_off = False
        if self._hook_of_all is not None:
            self._hook_of_all.remove()
        self._hook_of_all = self._register(self.see)

    def _make_room(self, run: str, rank: int) -> bool:
        """Closes the client that the program's own client replaces: see
        openings.opening.
        """
        client = self._client
        if client is None or self._is_opening or self._is_off:
            return False
        if (client.run, self._rank) != (run, rank):
            return False
        # The program chooses itself what is recorded from now on.
        self.end()
        return True

    def _see_client(self, *_: str | None) -> None:
        # The program chooses itself what is recorded.
        if self._client is None and not self._is_opening:
            self._is_off = True

    def see(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        """Called before each call of any module. Raises nothing."""
        if self._is_off or self._is_known(module) or self._is_tracing():
            return
        try:
            self._see_new(module, args)
        except Exception as error:  # noqa: BLE001 - never the program's problem
            self._is_off = self._client is None
            what = "nothing more" if self._is_off else f"no {type(module).__name__}"
            telling.fail(self._settings.folder, f"{what} is recorded: {error}")

    def _vary(self, module: torch.nn.Module, frame: FrameType) -> bool:
        """Changes the main model before its first call: see variations.before_calls."""
        if self._is_known(module) or self._is_tracing():
            return True
        settings = self._settings
        try:
            model = owner_of(module, frame, self._code, self._may_be_model)
            if next(model.parameters(), None) is None:
                return True
            # The graph must contain the hooks, and torch selects a compiled call
            # before it calls those of all modules.
            is_recorded = not self._is_off and not _has_face()
            if is_recorded and variations.compiles(settings.variation):
                for each in PLAIN.unwrap(model).modules():
                    self._known.add(each)
                self._known.add(model)
                self._is_varied = True
                self._hook(model)
                self._hook_of_all.remove()
            variations.change_model(model, settings.variation, self._report)
            self._is_varied = True
            telling.vary(settings.folder)
        except Exception as error:  # noqa: BLE001 - never the program's problem
            self.end()
            telling.fail(settings.folder, f"nothing more is recorded: {error}")
        return False

    def _report(self, error: Exception) -> None:
        telling.fail(self._settings.folder, f"a call was not changed: {error}")

    def _is_known(self, module: torch.nn.Module) -> bool:
        try:
            return module in self._known
        except TypeError:
            # torch cannot name the modules of an unhashable module either.
            return True

    def _see_new(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        if _has_face():
            self._is_off = True
            return
        call, is_inside = self._calls(sys._getframe(2))
        with self._lock:
            if module in self._known:
                return
            if is_inside:
                # A hooked model has created this module while it runs.
                self._known.add(module)
                return
            model = owner_of(module, call, self._code, self._may_be_model)
            plain = PLAIN.unwrap(model)
            for each in plain.modules():
                self._known.add(each)
            self._known.update((module, model))
            if isinstance(model, self._script_kind):
                raise TypeError("it is compiled to TorchScript")
            handle = self._hook(model)
        path = None
        if PLAIN.unwrap(module) is module:
            path = path_of(module, list(PLAIN.named_modules(plain)))
        if path is not None:
            # torch has already selected the hooks of this call.
            kwargs = {} if call is None else call.f_locals.get("kwargs", {})
            handle.begin_call(path, module, args, kwargs)
            if self._injection is not None:
                self._injection.count_call(path)
        if any(map(variations.is_compiled, model.modules())):
            # Graphs would break at the global hook. Models that are called
            # later are not seen.
            self._hook_of_all.remove()

    def _may_be_model(self, module: torch.nn.Module) -> bool:
        return not self._is_known(module) and not isinstance(module, self._script_kind)

    def _calls(self, frame: FrameType | None) -> tuple[FrameType | None, bool]:
        """Returns the frame of the call that begins, and whether it is nested
        in another call.
        """
        call: FrameType | None = None
        while frame is not None:
            if frame.f_code is self._code:
                if call is not None:
                    return call, True
                call = frame
            frame = frame.f_back
        return call, False

    def _hook(self, module: torch.nn.Module) -> HookHandle:
        settings = self._settings
        # A module without parameters, such as a loss, is not the main model.
        is_main = not self._has_main and next(module.parameters(), None) is not None
        self._has_main = self._has_main or is_main
        if is_main and not self._is_varied:
            raise ValueError("its first call was not seen in time to change it")
        client = self._open()
        op_of = None if is_main else functools.partial(_op_of, self._name_of(module))
        has_modules = settings.level in ("module", "mix")
        handle = HookHandle(
            module,
            client,
            HookOptions(
                weights=settings.weights and has_modules,
                stack=settings.stack,
                aliases=settings.aliases,
                gradients=settings.gradients,
                # If only functions are recorded, the hooks count steps.
                op_pattern=(settings.ops or None) if has_modules else [],
                time="auto" if is_main else "step",
            ),
            op_of=op_of,
        )
        self._ends.callback(handle.remove)
        self._injection = None
        if settings.inject and is_main:
            self._injection = self._inject(module, client)
        return handle

    def _inject(self, module: torch.nn.Module, client: Client) -> Injection:
        # Requires gRPC, which recording does not.
        from msitd import query
        from msitd.injection import inject

        settings = self._settings
        connection = self._ends.enter_context(query.connect())
        injection = inject(
            module,
            settings.inject,
            connection=connection,
            client=client,
            ops=settings.ops or None,
            keep_gradients=True,
            what=settings.inject_what,
            rank=settings.inject_rank,
        )
        self._ends.callback(_tell_of, injection, settings)
        self._ends.callback(injection.remove)
        return injection

    def _name_of(self, module: torch.nn.Module) -> str:
        kind = type(PLAIN.unwrap(module)).__name__
        number = self._op_counts.get(kind, 0)
        self._op_counts[kind] = number + 1
        return f"{kind}.{number}" if number else kind

    def _open(self) -> Client:
        if self._client is not None:
            return self._client
        settings = self._settings
        rank, world_size = rank_of_process()
        self._rank = rank
        self._is_opening = True
        self._client = client = Client(
            os.environ["MSITD_RUN"],
            rank=rank,
            world_size=world_size,
            if_exists="new",
            on_drop="warn",
            max_block=LONG_S,
        )
        self._is_opening = False
        self._ends.callback(client.close)
        if settings.level in ("api", "mix"):
            self._record_functions()
            self._ends.callback(self._leave_functions)
        # Registered after the exit function of the client, so it runs first.
        atexit.register(self.end)
        # A forked worker of multiprocessing exits without running atexit
        # functions.
        multiprocessing.util.Finalize(None, self.end, exitpriority=_END_PRIORITY)
        return client

    def _record_functions(self) -> None:
        settings = self._settings
        assert self._client is not None
        self._functions = register_api(
            self._client,
            op_pattern=settings.ops or None,
            stack=settings.stack,
            aliases=settings.aliases,
            gradients=settings.gradients,
        )

    def _leave_functions(self) -> None:
        functions, self._functions = self._functions, None
        if functions is not None:
            functions.remove()

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Restores the functions of torch within the block."""
        if self._functions is None:
            yield
            return
        self._leave_functions()
        try:
            yield
        finally:
            self._record_functions()

    def end(self) -> None:
        """Removes the hooks, and sends the records."""
        self._is_off = True
        self._ends.close()

    def begin_again(self) -> None:
        """Called in a forked child, whose client is off."""
        self._lock = threading.RLock()
        # The resources of the parent must not be closed here, but its wrappers
        # would do harm.
        self._ends.pop_all()
        self._leave_functions()
        self._forget()


def install(settings: ExecSettings) -> None:
    """Records every model that is called from now on."""
    models = _Models(settings)
    scripting.install(models.aside)
    os.register_at_fork(after_in_child=models.begin_again)


def _tell_of(injection: Injection, settings: ExecSettings) -> None:
    sys.stderr.write(
        f"msitctl exec: {injection.replaced_count} {settings.inject_what} are those of "
        f"{', '.join(settings.inject)}, {injection.kept_count} are not\n"
    )


def _has_face() -> bool:
    return any(face in sys.modules for face in _FACES)


def _op_of(name: str, path: str) -> str:
    return f"{name}.{path}" if path else name
