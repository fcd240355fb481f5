"""Methods that vLLM adds to its workers."""

from __future__ import annotations

from typing import Any

from msitd.engines.vllm import recorder


class WorkerExtension:
    """For `worker_extension_cls`; `collective_rpc` calls these in each worker.

    No name is one that a worker has.
    """

    def msitd_start(
        self, run: str | None = None, endpoint: str | None = None, **options: Any
    ) -> dict[str, Any]:
        """Records from the next step on; ends what was recorded before.

        Args:
            run: Default: MSITD_RUN, or `vllm`; one that is there gets a number.
            endpoint: As of `msitd.Client`.
            options: As of `msitd.register_hook`, such as `op_pattern`.

        Returns:
            As `msitd_status`.

        Raises:
            MsitError: The daemon does not answer.
        """
        return recorder.start(self, run=run, endpoint=endpoint, **options).status()

    def msitd_stop(self) -> dict[str, Any]:
        """Records no more, and returns when all is sent; see `msitd_status`."""
        stopped = recorder.stop(self)
        return {} if stopped is None else stopped.status()

    def msitd_step(self) -> int:
        """Ends a step by hand. Returns the token of the next one.

        Raises:
            RuntimeError: Nothing is recorded.
        """
        found = recorder.of(self)
        if found is None:
            raise RuntimeError("nothing is recorded here: call msitd_start")
        return found.step()

    def msitd_status(self) -> dict[str, Any]:
        """Returns run, rank, world_size, token, and counts of what was recorded,
        dropped and skipped; nothing if nothing is recorded."""
        found = recorder.of(self)
        return {} if found is None else found.status()
