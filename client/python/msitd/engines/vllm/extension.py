"""Methods that vLLM adds to its workers."""

from __future__ import annotations

from typing import Any

from msitd.engines.vllm import recorder


class WorkerExtension:
    """For `worker_extension_cls`; `collective_rpc` calls these methods in each worker.

    The names do not conflict with those of a worker.
    """

    def msitd_start(
        self, run: str | None = None, endpoint: str | None = None, **options: Any
    ) -> dict[str, Any]:
        """Records from the next step on; ends an earlier recording.

        Args:
            run: Default: MSITD_RUN, or `vllm`. If the run exists, the name gets
                a number.
            endpoint: See `msitd.Client`.
            options: See `msitd.register_hook`, such as `op_pattern`.

        Returns:
            See `msitd_status`.

        Raises:
            MsitError: The daemon does not answer.
        """
        return recorder.start(self, run=run, endpoint=endpoint, **options).status()

    def msitd_stop(self) -> dict[str, Any]:
        """Stops recording, and returns when everything was sent; see `msitd_status`."""
        stopped = recorder.stop(self)
        return {} if stopped is None else stopped.status()

    def msitd_step(self) -> int:
        """Ends a step manually. Returns the token of the next one.

        Raises:
            RuntimeError: Nothing is being recorded.
        """
        found = recorder.of(self)
        if found is None:
            raise RuntimeError("nothing is recorded here: call msitd_start")
        return found.step()

    def msitd_status(self) -> dict[str, Any]:
        """Returns run, rank, world_size, token, and counts of recorded, dropped
        and skipped tensors.

        Returns an empty dict if nothing is being recorded.
        """
        found = recorder.of(self)
        return {} if found is None else found.status()
