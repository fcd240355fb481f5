"""The class `PrecisionDebugger`, with the interface of msprobe."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msitd._core.api.custom_functions import CustomFunctions
from msitd._core.daemon.lazy_opening import LazyOpening
from msitd._core.guard import Failures
from msitd.probe import loaders
from msitd.probe.configuration import Configuration, Service
from msitd.probe.given import Given
from msitd.probe.loading import Loading
from msitd.probe.places import Place, place_of
from msitd.probe.recording import Recording, models_of
from msitd.probe.refused import note_once
from msitd.probe.reloading import Reloading
from msitd.probe.saving import Saver
from msitd.probe.seeding import seed_all
from msitd.probe.settings import numbers, read_settings
from msitd.probe.step_writer import StepWriter
from msitd.probe.windows import TokenWindow, rows_of

if TYPE_CHECKING:
    import torch

_logger = logging.getLogger("msitd")

_failures = Failures("the changed file of settings is not followed")
_save_failures = Failures("a value is not saved")
_step_failures = Failures("a step is not dumped")

_Method = TypeVar("_Method", bound=Callable[..., Any])


class _OfLatest(Generic[_Method]):
    """A method that may be called on the class, too: it then applies to the
    last debugger.
    """

    def __init__(self, method: _Method) -> None:
        self._method = method
        functools.update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: type[PrecisionDebugger]) -> Any:
        if instance is None:
            instance = latest()
        return types.MethodType(self._method, instance)


class PrecisionDebugger:
    """Dumps steps of a program into folders of msprobe's format, and records
    them in a run.

    Debuggers with the same arguments are the same object, because a script may
    create it in several files. `start`, `stop`, `step` and all other methods
    may also be called on the class; they then apply to the debugger that was
    created last.

    Args:
        config_path: A config.json of msprobe.
        task: "statistics", "tensor", "structure" or "overflow_check". Overrides
            the file, as do the next three arguments.
        dump_path: The folder in which `step0/rank` and others are created.
        level: "L0" for modules, "L1" for functions, "mix" for both, "debug" for
            the arguments of `save`.
        step: The steps to dump: numbers, and ranges such as "4-6".
        model: A module whose modules are dumped, or a list of modules, if
            `start` has no such argument. Early releases of msprobe have it
            before `step`; both orders are supported.

    Raises:
        ValueError: An argument is invalid, or requests something that msitd
            does not support. The text then names the alternative.
        OSError: The file cannot be read.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> PrecisionDebugger:  # noqa: PYI034 - may be an earlier one
        given = Given.of(*args, **kwargs)
        with _lock:
            known = _made.get(given.key)
            if known is not None and known._pid == os.getpid():
                return known
            debugger = super().__new__(cls)
            debugger._set_up(given)
            _made[given.key] = debugger
            _order.append(debugger)
        return debugger

    def __init__(
        self,
        config_path: str | os.PathLike[str] | None = None,
        task: str | None = None,
        dump_path: str | os.PathLike[str] | None = None,
        level: str | None = None,
        model: torch.nn.Module | Sequence[torch.nn.Module] | None = None,
        step: Sequence[int | str] | None = None,
    ) -> None:
        # The object was initialized when it was created.
        pass

    def _set_up(self, given: Given) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._settings = read_settings(given.config_path, given.arguments)
        self._reloading = Reloading(given.config_path, given.arguments, self._settings)
        self._models: list[torch.nn.Module] = []
        self._is_list = False
        if given.model is not None:
            self._models, self._is_list = models_of(given.model)
        self._step = self._first_step = 0
        self._place: Place | None = None
        self._opening = LazyOpening(self._make_recording)
        self._writer: StepWriter | None = None
        self._saver: Saver | None = None
        self._window: TokenWindow | None = None
        self._loading: Loading | None = None
        self._custom = CustomFunctions()
        # Whether records of this step may still have to be written.
        self._has_begun = False
        if self._settings.seed is not None:
            seed_all(self._settings.seed, self._settings.is_deterministic)
        if self._settings.has_functions and self._settings.functions is not None:
            for function in self._settings.functions.custom_functions():
                self._custom.register(*function)
        if self._settings.steps_by_loader:
            loaders.watch(self._next_batch)

    @property
    def service(self) -> Service:
        """The part of `debugger.service` that programs use in msprobe."""
        return Service(self.config, self._move, self._begin_again)

    @property
    def config(self) -> Configuration:
        """The configuration in effect, as programs read it in msprobe."""
        return Configuration(self._settings)

    @_OfLatest
    def start(
        self,
        model: torch.nn.Module | Sequence[torch.nn.Module] | None = None,
        token_range: Sequence[int] | None = None,
        rank_id: int | None = None,
        scheduled_tokens: Mapping[str, int] | None = None,
    ) -> None:
        """Dumps from now on, if this step is one of those to dump.

        Args:
            model: The model whose modules are dumped, or a list of models.
                Required at level L0 and mix, unless the constructor has it. The
                model of an earlier call stays valid until another one is given.
            token_range: `[first, last]`: dumps only the forwards of the model
                whose number, counted from 0 since this call, is in the range.
            rank_id: Names the folder of the rank, in the first call that dumps.
            scheduled_tokens: Number of rows of a batch for each request, in
                order. With `request_id` in the file, only the rows of that
                request are dumped, and nothing in steps without it.

        Raises:
            ValueError: A required model is missing, or an argument is invalid.
            FileNotFoundError: msitctl, which writes the folders, is not
                installed.
            MsitError: The daemon does not answer.
            RuntimeError: Another debugger is already dumping functions.
        """
        with self._lock:
            if self._pid != os.getpid():
                return
            if model is not None:
                self._models, self._is_list = models_of(model)
            self._reload()
            settings = self._settings
            if settings.load is not None and settings.is_enabled is not False:
                self._begin_load(rank_id)
                if not settings.load.dumps:
                    return
            if settings.level == "debug":
                return
            if not self._is_wanted():
                self._pause()
                return
            if (settings.has_modules or token_range) and not self._models:
                what = "token_range" if token_range else f"level {settings.level}"
                raise ValueError(f"{what} needs a model: start(model)")
            rows = None
            if settings.request_id is not None:
                rows = rows_of(settings.request_id, scheduled_tokens)
                if rows == (0, 0):
                    self._pause()
                    return
            if not self._find_place(rank_id):
                return
            recording = self._open()
            if recording.is_daemon_away:
                self._pause()
                _step_failures.count(_away())
                return
            recording.listener.rows = rows
            if settings.has_modules:
                recording.watch_models(self._models, self._is_list)
            if settings.has_functions:
                self._custom.use(recording.watch_functions())
            self._has_begun = True
            if self._window is not None:
                self._window.remove()
                self._window = None
            if token_range:
                recording.pause()
                self._window = TokenWindow(self._models[0], token_range, recording)
            else:
                recording.resume()

    @_OfLatest
    def stop(self) -> None:
        """Stops dumping, and writes what was dumped. A backward may follow.

        The gradients of the dumped calls are written by `step`, at the latest.
        Data that cannot be written is logged as an error; the program
        continues.
        """
        with self._lock:
            if self._pid == os.getpid():
                self._pause()
                self._write()
                if self._loading is not None:
                    self._loading.end()
                self._reload()

    @_OfLatest
    def step(self, **others: Any) -> None:
        """Ends a step, and writes the rest of it, as `stop` does.

        Args:
            others: Arguments that engines have for other classes of msprobe.
                They have no effect.
        """
        for name in others:
            note_once(f"step({name}=...) has no effect")
        with self._lock:
            if self._pid != os.getpid():
                return
            self._write()
            self._step += 1
            self._begin_step()
            if self._recording is not None and not self._is_wanted():
                self._pause()
            self._reload()

    @_OfLatest
    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Dumps a value of the program, at level debug, whether or not `start`
        was called.

        Values that cannot be dumped, because there is no daemon or for other
        reasons, are counted and logged once.

        Args:
            variable: A tensor, a numpy array, a number, a text, None, or a
                dict, list or tuple of these. Values that cannot be recorded,
                such as tensors on the device `meta`, are counted and logged
                once.
            name: 1 to 1000 bytes. A name that is used again in a step gets the
                next number.
            save_backward: Whether the gradients of its tensors are also dumped,
                as `<name>_grad`.

        Raises:
            ValueError: `name` is invalid.
        """
        if not isinstance(name, str) or not name:
            raise ValueError(f"name is {name!r}, and no text")
        with self._lock:
            if self._pid != os.getpid() or self._settings.level != "debug":
                return
            if not self._is_wanted() or not self._find_place(None):
                return
            _save_failures.guarded(self._save)(variable, name, save_backward)

    def _save(self, variable: Any, name: str, save_backward: bool) -> None:
        recording = self._open()
        if recording.is_daemon_away:
            raise _away()
        self._has_begun = True
        if self._saver is None:
            self._saver = Saver(recording)
        self._saver.save(variable, name, save_backward)

    @_OfLatest
    def forward_backward_dump_end(self) -> None:
        """Dumps no more forwards, but still the backwards of those that were dumped."""
        with self._lock:
            self._pause()

    @_OfLatest
    def set_init_step(self, step: int) -> None:
        """Sets the number of the first step, before any step was dumped.

        Raises:
            ValueError: The number is not from 0 to 1,000,000.
        """
        (number,) = numbers("step", [step])
        with self._lock:
            self._step = self._first_step = number
            self._begin_step()

    @_OfLatest
    def register_custom_api(
        self, module: Any, api: str, api_prefix: str | None = None
    ) -> None:
        """Dumps a function that does not belong to torch, as `<prefix>.<api>`.

        Args:
            module: The module or class that contains the function.
            api: Name of the function.
            api_prefix: Default: the name of the module.

        Raises:
            ValueError: The function does not exist.
        """
        with self._lock:
            self._custom.register(module, api, api_prefix)

    @_OfLatest
    def restore_custom_api(self, module: Any, api: str) -> None:
        """Restores a function that was registered."""
        with self._lock:
            self._custom.restore(module, api)

    @_OfLatest
    def monitor(self, model: Any) -> None:
        """Not supported: its function belongs to the task grad_probe.

        Raises:
            ValueError: Always. The text names the alternative.
        """
        raise ValueError(
            "monitor is not done here: dump level L0, and look at the gradients of "
            "parameters (grad_weight) with `msitctl tensor stats`"
        )

    @property
    def run(self) -> str | None:
        """The name of the run, once something was dumped."""
        return None if self._recording is None else self._recording.client.run

    def close(self) -> None:
        """Writes the remaining data, and ends. Also called at the end of the
        process.
        """
        with self._lock:
            if self._pid != os.getpid():
                return
            atexit.unregister(self.close)
            self._custom.restore_all()
            if self._loading is not None:
                self._loading.remove()
                self._loading = None
            loaders.unwatch(self._next_batch)
            self._end_recording()

    def _end_recording(self) -> None:
        recording = self._opening.take()
        if recording is None:
            return
        self._remove_window()
        recording.pause()
        self._write_of(recording)
        assert self._writer is not None
        try:
            self._writer.write_again()
        except Exception as error:  # noqa: BLE001 - the program ends
            _logger.error("%s lacks something: %s", recording.folder, error)
        recording.close(is_whole=self._writer.is_whole)
        self._writer = self._saver = None

    def _move(self, dump_path: str) -> None:
        """Dumps into another folder, and into another run, from now on."""
        with self._lock:
            if self._pid == os.getpid() and dump_path != self._settings.dump_path:
                self._end_recording()
                self._settings = replace(self._settings, dump_path=dump_path)

    def _begin_again(self) -> None:
        """Counts steps from the first one again, after the current one is written."""
        with self._lock:
            if self._pid == os.getpid():
                self._pause()
                self._write()
                self._step = self._first_step
                self._begin_step()

    def hook_module(self, module: torch.nn.Module, name: str) -> Callable[[], None]:
        """Dumps one module under its own name; see `module_dump`.

        Returns:
            A function that ends the dump.
        """
        with self._lock:
            if not self._is_wanted() or not self._find_place(None):
                return _do_nothing
            recording = self._open()
            if recording.is_daemon_away:
                _step_failures.count(_away())
                return _do_nothing
            handle = recording.watch(
                module,
                lambda path: (
                    "root.inside" if path else f"Module.{name}.{type(module).__name__}"
                ),
            )
            self._has_begun = True
            was_on = recording.is_on
            recording.resume()

            def end() -> None:
                recording.remove(handle)
                if not was_on:
                    recording.pause()

            return end

    def _begin_load(self, rank_id: int | None) -> None:
        """Starts replacing inputs, if this step is one of those to load."""
        assert self._settings.load is not None
        if not self._models:
            raise ValueError("load needs a model: start(model)")
        self._find_place(rank_id)
        assert self._place is not None
        if self._loading is None:
            self._loading = Loading(self._settings.load, self._place.folder())
            atexit.register(self.close)
        for number, model in enumerate(self._models):
            prefix = f"Module.{number}." if self._is_list else "Module."
            self._loading.watch(model, prefix)
        self._loading.begin(self._step, self._place.number)

    def _is_wanted(self) -> bool:
        """Returns whether this step is one of those to dump."""
        settings = self._settings
        if settings.is_enabled is False:
            return False
        return not settings.steps or self._step in settings.steps

    def _find_place(self, rank_id: int | None) -> bool:
        """Determines the rank of this process. Returns whether it is one of
        those to dump.
        """
        if self._place is None:
            self._place = place_of(rank_id)
        ranks = self._settings.ranks
        return not ranks or self._place.number in ranks

    @property
    def _recording(self) -> Recording | None:
        """The recording, once something was dumped."""
        return self._opening.opened

    def _open(self) -> Recording:
        """Returns the recording, and opens it if necessary.

        Raises:
            MsitError: The daemon does not answer, or did not shortly before.
        """
        return self._opening.get()

    def _make_recording(self, open_timeout: float) -> Recording:
        assert self._place is not None
        place = self._place
        recording = Recording(
            self._settings, place.rank, place.world_size, open_timeout
        )
        self._writer = StepWriter(recording, place.rank)
        self._has_begun = False
        recording.begin_step(self._step)
        # Registered after the exit function of the client, so it runs first.
        atexit.register(self.close)
        return recording

    def _begin_step(self) -> None:
        self._has_begun = False
        if self._recording is not None:
            self._recording.begin_step(self._step)
        if self._saver is not None:
            self._saver.begin_step()

    def _pause(self) -> None:
        self._remove_window()
        if self._recording is not None:
            self._recording.pause()

    def _remove_window(self) -> None:
        if self._window is not None:
            self._window.remove()
            self._window = None

    def _write(self) -> None:
        if self._recording is not None:
            self._write_of(self._recording)

    def _write_of(self, recording: Recording) -> None:
        if not self._has_begun:
            return
        assert self._writer is not None
        assert self._place is not None
        try:
            self._writer.write(self._step, self._place.folder(), self._settings)
        except Exception as error:  # noqa: BLE001 - never the program's problem
            folder = os.path.join(recording.folder, f"step{self._step}")
            _logger.error(
                "%s lacks something; the run %s has what is recorded: %s",
                folder,
                recording.client.run,
                error,
            )

    def _reload(self) -> None:
        """Applies changes of the settings file. A missing daemon has no effect here."""
        _failures.guarded(self._follow_file)()

    def _follow_file(self) -> None:
        settings = self._reloading.look(self._settings)
        if settings is None:
            return
        old, self._settings = self._settings, settings
        if self._loading is not None and old.load != settings.load:
            self._loading.remove()
            self._loading = None
        if self._recording is not None and old != settings:
            self._remove_window()
            self._recording.change(settings)
            self._recording.begin_step(self._step)

    def _next_batch(self) -> None:
        """Handles the next batch of a data loader."""
        if self._has_begun:
            self.stop()
            self.step()
        self.start()


def _do_nothing() -> None:
    pass


def _away() -> TimeoutError:
    return TimeoutError("the daemon has taken nothing for a while")


_lock = threading.RLock()
_made: dict[str, PrecisionDebugger] = {}
_order: list[PrecisionDebugger] = []


def latest() -> PrecisionDebugger:
    """Returns the debugger that was created last.

    Raises:
        RuntimeError: No debugger exists.
    """
    if not _order:
        raise RuntimeError("make a PrecisionDebugger first")
    return _order[-1]


def forget_all() -> None:
    """Closes all debuggers, and forgets them."""
    with _lock:
        debuggers = [*_order]
        _order.clear()
        _made.clear()
    for debugger in debuggers:
        debugger.close()
