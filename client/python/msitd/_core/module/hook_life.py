"""Decides when the hooks of a model record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msitd._core.not_recorded import CLOSED

if TYPE_CHECKING:
    from msitd._core.gradient.backward import Backward
    from msitd._core.module.native_calls import Progress
    from msitd._core.module.placed_hooks import PlacedHooks


class HookLife:
    """The part of a HookHandle that pauses its hooks and ends them with the client."""

    _progress: Progress
    _placed: PlacedHooks
    _backward: Backward | None

    def pause(self) -> None:
        """Records no call that begins before `resume`.

        Gradients of calls that were recorded earlier are still recorded. Calls
        during the pause are not numbered.
        """
        self._progress.is_paused = True
        self._placed.pause(True)

    def resume(self) -> None:
        """Ends a pause. Has no effect if the client is closed."""
        if not self._progress.is_over:
            self._progress.is_paused = False
            self._placed.pause(False)

    def _stop(self) -> None:
        """Stops recording because the client is closed.

        The stream may still be open for another client, but these hooks do not
        record into it.
        """
        self._progress.is_over = True
        self.pause()
        if self._backward is not None:
            self._backward.remove(CLOSED)
