"""Records trainings of Hugging Face's Trainer.

    from msitd.engines import huggingface

    trainer = Trainer(model, args, ..., callbacks=[huggingface.callback(run="golden")])
    trainer.train()

For `generate`, `msitd.register_hook` is sufficient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msitd._core.client import Client
from msitd._core.guard import Failures
from msitd._core.module.hooks import HookHandle
from msitd._core.module.registration import register_hook

if TYPE_CHECKING:
    from transformers import TrainerCallback

_failures = Failures("a step of a Trainer is not recorded as it should be")


def callback(
    client: Client | None = None,
    *,
    run: str | None = None,
    evaluation: bool = False,
    gradients: bool = True,
    **options: Any,
) -> TrainerCallback:
    """Returns a callback that records each training of a Trainer.

    The token of a step is the `global_step` at its beginning, also if a
    training continues from a checkpoint. Forwards of one gradient accumulation
    are calls of one token.

    Args:
        client: The client that records. It stays open. Default: one per
            training, which ends with it, with the rank and world size of the
            process.
        run: Run of the default client. Default: MSITD_RUN.
        evaluation: Whether forwards of evaluations are recorded, as further
            calls of the preceding step.
        gradients: See `msitd.register_hook`, as for `options`.

    Raises:
        ImportError: transformers is not installed.
    """
    from transformers import TrainerCallback

    recorder = _TrainingRecorder(client, run, evaluation, gradients, options)

    # The class derives from one of the installed package, which is imported
    # late.
    class MsitdCallback(TrainerCallback):  # type: ignore[misc]
        """Passes the Trainer's events to the recorder."""

        def on_train_begin(
            self, args: Any, state: Any, control: Any, model: Any = None, **_: Any
        ) -> None:
            recorder.begin(model, args, state.global_step)

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            _failures.guarded(recorder.resume)(state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            _failures.guarded(recorder.end_step)(state.global_step)

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            _failures.guarded(recorder.end)()

    return MsitdCallback()


class _TrainingRecorder:
    """Hooks for the duration of a training."""

    def __init__(
        self,
        client: Client | None,
        run: str | None,
        evaluation: bool,
        gradients: bool,
        options: dict[str, Any],
    ) -> None:
        self._given = client
        self._run = run
        self._evaluation = evaluation
        self._options = {**options, "gradients": gradients}
        self._client: Client | None = None
        self._hooks: HookHandle | None = None

    def begin(self, model: Any, args: Any, step: int) -> None:
        """Registers the hooks. An earlier training may have ended with an exception."""
        self.end()
        world_size = int(args.world_size)
        if self._given is not None:
            self._client = self._given
        else:
            self._client = Client(
                self._run, int(args.process_index), world_size, if_exists="new"
            )
        self._client.token = step
        self._hooks = register_hook(model, self._client, time="step", **self._options)

    def resume(self, step: int) -> None:
        """Handles the beginning of a step."""
        if self._client is not None and self._hooks is not None:
            self._client.token = step
            self._hooks.resume()

    def end_step(self, step: int) -> None:
        """Handles the end of an optimizer step; evaluations may follow."""
        if (
            self._client is not None
            and self._hooks is not None
            and not self._evaluation
        ):
            self._hooks.pause()
            self._client.token = step

    def end(self) -> None:
        """Removes the hooks, and closes a client of its own."""
        hooks, self._hooks = self._hooks, None
        client, self._client = self._client, None
        if hooks is not None:
            hooks.remove()
        if client is not None and client is not self._given:
            client.close()
