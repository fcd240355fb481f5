"""Records the dumps of a program, with the methods of SGLang's dumper."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from msitd._core.daemon.lazy_opening import LazyOpening
from msitd._core.graph.compiled import make_opaque
from msitd._core.guard import Failures
from msitd._core.vocabulary import CALL_AUTO
from msitd.engines.sglang.config import DumperConfig
from msitd.engines.sglang.filters import Filter
from msitd.engines.sglang.model import ModelDumper
from msitd.engines.sglang.names import PARAMETER, file_name, op_of
from msitd.engines.sglang.recording import Recording

if TYPE_CHECKING:
    import torch

_failures = Failures("a value or its gradient is not dumped")


class Dumper:
    """Records values by name; each step is a token.

    Has no effect unless `enable` is set, by DUMPER_ENABLE or `configure`. The
    run is created by the first dump. Any thread may dump; all threads share the
    steps.
    """

    def __init__(self, config: DumperConfig | None = None) -> None:
        self._config = config or DumperConfig.from_env()
        self._lock = threading.RLock()
        self._recording = LazyOpening(self._open)
        self._models: list[ModelDumper] = []
        self._filter: Filter | None = None
        self._captured: dict[str, Any] | None = None
        self._ctx: dict[str, Any] = {}
        self._step = 0
        self._dump_index = 0
        self._use(self._config)

    @property
    def may_enable(self) -> bool:
        """Whether it records now, or can be enabled."""
        return self._config.may_be_enabled

    def step(self) -> None:
        """Ends a step. All ranks must call it at the end of an iteration."""
        if not self._config.enable:
            return
        with self._lock:
            self._step += 1
            recording = self._recording.opened
            if recording is not None:
                recording.client.token = self._step

    def dump(
        self,
        name: str,
        value: Any,
        save: bool = True,
        dims: str | None = None,
        dims_grad: str | None = None,
        grafter_extras: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Records a value under `name` and the tags of `kwargs`.

        Values that cannot be recorded, because there is no daemon or for other
        reasons, are counted and logged once. Only exceptions of `value` itself
        are raised.

        Args:
            name: The op, to which tags are added.
            value: A tensor, a structure of tensors, another value, or a
                function that returns one, which is called if the value is
                needed.
            save: Whether the value is kept. If not, it is only printed.
            dims: Description of the dimensions, kept with the value.
            dims_grad: Description of the dimensions of the gradient.
            grafter_extras: Has no effect.
        """
        config = self._config
        if not config.enable or not (config.enable_value or config.enable_grad):
            return
        tags = self._tags(name, kwargs)
        if not self._accepts(tags):
            return
        value = value() if callable(value) else value
        _failures.guarded(self._dump)(tags, value, save, dims, dims_grad)

    def _dump(
        self,
        tags: dict[str, Any],
        value: Any,
        save: bool,
        dims: str | None,
        dims_grad: str | None,
    ) -> None:
        config = self._config
        # A repeated dump in a step is another call.
        op = op_of(str(tags["name"]), tags)
        number = self.recording().begin_call(op, self._step)
        if config.enable_value:
            self._keep(tags, value, "output", save, {"dims": dims}, None, number)
        if config.enable_grad and getattr(value, "requires_grad", False):
            meta = {"dims": dims_grad if dims_grad is not None else dims}
            self._keep_gradient(tags, value, save, meta, number)

    def dump_model(
        self,
        model: torch.nn.Module,
        name_prefix: str = PARAMETER,
        save: bool = True,
        get_grad: Callable[[torch.Tensor], torch.Tensor | None] | None = None,
        step: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Records parameters, with `enable_model_value`, and their gradients,
        with `enable_model_grad`.

        Args:
            get_grad: Returns the gradient of a parameter. Default: its `grad`.
            step: The token. Default: the current step.
        """
        config = self._config
        if not config.enable:
            return
        keep = _failures.guarded(self._keep)
        for parameter_name, parameter in model.named_parameters():
            tags = self._tags(f"{name_prefix}__{parameter_name}", kwargs)
            if not self._accepts(tags):
                continue
            if config.enable_model_value:
                keep(tags, parameter, "weight", save, {}, step)
            if config.enable_model_grad:
                grad = parameter.grad if get_grad is None else get_grad(parameter)
                if grad is not None:
                    keep(_of_gradient(tags), grad, "grad_weight", save, {}, step)

    def dump_dict(
        self, name_prefix: str, data: Any, save: bool = True, **kwargs: Any
    ) -> None:
        """Records each entry of a mapping, or each attribute of an object."""
        for name, value in _entries_of(data):
            self.dump(f"{name_prefix}_{name}", value, save=save, **kwargs)

    def set_ctx(self, **kwargs: Any) -> None:
        """Adds tags to later dumps; None removes a tag."""
        with self._lock:
            merged = {**self._ctx, **kwargs}
            self._ctx = {k: v for k, v in merged.items() if v is not None}

    def ctx(
        self,
        _extractor: Callable[..., dict[str, Any]] | None = None,
        **static_ctx: Any,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Returns a decorator that sets tags while a function runs.

        Args:
            _extractor: Returns the tags for the first argument of the function.
            static_ctx: The tags, if there is no `_extractor`.
        """
        if (_extractor is None) == (not static_ctx):
            raise ValueError("ctx takes a function, or tags by name, and not both")

        def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                tags = _extractor(args[0]) if _extractor else static_ctx
                self.set_ctx(**tags)
                try:
                    return function(*args, **kwargs)
                finally:
                    self.set_ctx(**dict.fromkeys(tags))

            return wrapper

        return decorator

    def apply_source_patches(self) -> None:
        """Has no effect, because there are no patches here."""

    def register_non_intrusive_dumper(
        self, model: torch.nn.Module
    ) -> ModelDumper | None:
        """Records the batches that a model receives, and with
        `non_intrusive_mode` `all` also the inputs and outputs of its modules.
        Returns None if the mode is `off`.
        """
        if self._config.non_intrusive_mode == "off":
            return None
        with self._lock:
            dumper = ModelDumper(self, model, self._config.non_intrusive_mode)
            self._models.append(dumper)
            if self._config.enable:
                # The next forward tries again.
                _failures.guarded(dumper.turn_on)()
        return dumper

    def configure(self, **kwargs: Any) -> None:
        """Changes fields of the configuration. Another `exp_name` begins another run.

        Raises:
            ValueError: A field does not exist or is not supported.
            TypeError: A value has another type.
        """
        self._use(self._config.changed(kwargs))

    def configure_default(self, **kwargs: Any) -> None:
        """Changes those fields of the configuration that the environment does
        not set.
        """
        self._use(self._config.with_defaults(kwargs))

    def reset(self) -> None:
        """Removes hooks and starts over: the next dump begins another run."""
        with self._lock:
            for model in self._models:
                model.remove()
            self._models.clear()
            self._ctx, self._step, self._dump_index = {}, 0, 0
            self._captured = None
        self.close()

    def close(self) -> None:
        """Ends the run; the next dump begins another one. Further calls have no effect.

        Also called at the end of the process.
        """
        with self._lock:
            recording = self._recording.take()
            for model in self._models:
                model.turn_off()
        if recording is not None:
            recording.close()

    @contextlib.contextmanager
    def capture_output(self) -> Iterator[dict[str, Any]]:
        """Yields a mapping that receives the dumps of the block, which are not
        recorded.
        """
        if self._captured is not None:
            raise RuntimeError("output is captured already")
        captured: dict[str, Any] = {}
        self._captured = captured
        try:
            yield captured
        finally:
            self._captured = None

    def get_state(self) -> dict[str, Any]:
        """Returns the configuration and the counters."""
        return {
            "config": asdict(self._config),
            "dump_index": self._dump_index,
            "step": self._step,
        }

    def handle_request(self, *, method: str, body: Mapping[str, Any]) -> list[Any]:
        """Handles a POST to `/dumper/METHOD` of SGLang, in this rank.

        Raises:
            ValueError: The method does not exist, or would not reach other
                ranks.
        """
        if method == "get_state":
            return [self.get_state()]
        if self.recording().world_size > 1:
            raise ValueError(
                f"{method} reaches one rank alone: let `msitctl capture set` say what "
                "all ranks record"
            )
        if method == "configure":
            self.configure(**body)
        elif method == "reset":
            self.reset()
        else:
            raise ValueError(f"there is no method {method!r} of a dumper")
        return [{}]

    @property
    def _http_manager(self) -> Dumper:
        """The name that SGLang's scheduler uses."""
        return self

    @property
    def filter(self) -> Filter | None:
        """The filter of the configuration."""
        return self._filter

    @property
    def records_gradients(self) -> bool:
        """Whether hooks record gradients."""
        return self._config.enable_grad

    @property
    def is_on(self) -> bool:
        """Whether it records."""
        return self._config.enable

    def record_side(self, op: str, io: str, value: Any) -> None:
        """Records an input or output of a model, as hooks on it would."""
        self.recording().record(op, io, value, self._step, {})

    def recording(self) -> Recording:
        """Returns the recording, and opens it if necessary.

        Raises:
            MsitError: The daemon does not answer, or did not shortly before.
        """
        return self._recording.get()

    def _open(self, open_timeout: float) -> Recording:
        recording = Recording(self._config, open_timeout)
        recording.client.token = self._step
        return recording

    def _use(self, config: DumperConfig) -> None:
        if config.enable:
            _keep_out_of_graphs()
        with self._lock:
            if config.exp_name != self._config.exp_name:
                self.close()
            self._config = config
            self._filter = None if config.filter is None else Filter(config.filter)
            for model in self._models:
                model.turn_on() if config.enable else model.turn_off()

    def _tags(self, name: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "name": name,
            "recompute_status": _recompute_status(),
            **self._ctx,
            **kwargs,
        }

    def _accepts(self, tags: Mapping[str, Any]) -> bool:
        return self._filter is None or self._filter.accepts(tags)

    def _keep(
        self,
        tags: Mapping[str, Any],
        value: Any,
        io: str,
        save: bool,
        meta: Mapping[str, str | None],
        step: int | None = None,
        number: int = CALL_AUTO,
    ) -> None:
        config = self._config
        recording = self.recording()
        with self._lock:
            self._dump_index += 1
            place = {
                "step": self._step if step is None else step,
                "rank": recording.rank,
                "dump_index": self._dump_index,
            }
        name = file_name({**place, **tags})
        if config.enable_output_console:
            print(
                f"[Dumper, rank={recording.rank}] {name} "
                f"shape={getattr(value, 'shape', None)} "
                f"dtype={getattr(value, 'dtype', None)}",
                flush=True,
            )
        if not save:
            return
        known = {key: text for key, text in meta.items() if text is not None}
        if self._captured is not None:
            facts = {**place, **tags, **known}
            self._captured[tags["name"]] = {"value": _copied(value), "meta": facts}
            return
        if not config.enable_output_file:
            return
        op = op_of(str(tags["name"]).removeprefix("grad__"), tags)
        recording.record(op, io, value, place["step"], known, number)
        if config.dir is not None:
            folder = os.path.join(config.dir, recording.client.run)
            recording.write(folder, name, value, {**place, **tags, **known})

    def _keep_gradient(
        self,
        tags: Mapping[str, Any],
        tensor: torch.Tensor,
        save: bool,
        meta: Mapping[str, str | None],
        number: int,
    ) -> None:
        step = self._step

        def keep(gradient: torch.Tensor) -> None:
            if self._config.enable:
                self._keep(
                    _of_gradient(tags),
                    gradient,
                    "grad_output",
                    save,
                    meta,
                    step,
                    number,
                )

        tensor.register_hook(_failures.guarded(keep))


@functools.cache
def _keep_out_of_graphs() -> None:
    """Makes graphs of torch.compile break at each dump, as SGLang's dumper does."""
    # A version of torch without support for this traces what it can.
    with contextlib.suppress(RuntimeError):
        for function in (
            Dumper.dump,
            Dumper.dump_dict,
            Dumper.dump_model,
            Dumper.set_ctx,
            Dumper.step,
        ):
            make_opaque(function)


def _of_gradient(tags: Mapping[str, Any]) -> dict[str, Any]:
    return {**tags, "name": f"grad__{tags['name']}"}


def _recompute_status() -> str:
    """Returns whether Megatron runs a forward for the first or the second time."""
    module = sys.modules.get("megatron.core.tensor_parallel.random")
    is_checkpointing = getattr(module, "is_checkpointing", None)
    if is_checkpointing is None or not is_checkpointing():
        return "disabled"
    import torch

    return "recompute" if torch.is_grad_enabled() else "original"


def _entries_of(data: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping):
        yield from data.items()
        return
    for name in dir(data):
        if name.startswith("__") and name.endswith("__"):
            continue
        # A property may raise.
        with contextlib.suppress(Exception):
            value = getattr(data, name)
            if not callable(value):
                yield name, value


def _copied(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else copy.deepcopy(value)


dumper = Dumper()
