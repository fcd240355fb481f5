"""Records the model of one worker of vLLM."""

from __future__ import annotations

import functools
import logging
import os
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from msitd._core.client import Client
from msitd._core.guard import Failures
from msitd._core.module.hooks import HookHandle
from msitd._core.module.registration import register_hook
from msitd._core.requests import RequestRows, Requests, UncountedRows
from msitd.engines.vllm import block_tables

_logger = logging.getLogger("msitd")

_failures = Failures("a step of vLLM is not recorded as it should be")

_RUN = "vllm"
# Time in seconds that a step waits for a slow daemon before it drops and counts
# records. vLLM aborts a step after 300 s.
_MAX_BLOCK_S = 60.0
# The suffix that vLLM adds to the id of a request, and the setting that
# disables it.
_SUFFIX = re.compile(r"(?<=.)-[0-9a-f]{8}$")
_NO_SUFFIX = "VLLM_DISABLE_REQUEST_ID_RANDOMIZATION"
_ATTRIBUTE = "_msitd_recorder"


class WorkerRecorder:
    """Hooks on the model of a worker, which record only the steps of its runner.

    A step is a token. Runs for profiling, warming up and capturing are not
    steps.

    Args:
        worker: A worker that has loaded its model.
        run: Default: MSITD_RUN, or `vllm`. If the run exists, the name gets a
            number.
        endpoint: See `msitd.Client`.
        options: See `msitd.register_hook`, such as `op_pattern` and `weights`.

    Raises:
        MsitError: The daemon does not answer.
    """

    def __init__(
        self,
        worker: Any,
        run: str | None = None,
        endpoint: str | None = None,
        **options: Any,
    ) -> None:
        rank, world_size = _rank_of(worker)
        self.rank, self.world_size = rank, world_size
        # For the running step: the number of rows of each request, the number of
        # its tokens before them, and their order.
        self._lengths: dict[str, int] = {}
        self._positions: dict[str, int] = {}
        self._rows: dict[str, tuple[int, int]] = {}
        self._put_back: list[Callable[[], None]] = []
        self.client = Client(
            run or os.environ.get("MSITD_RUN") or _RUN,
            rank,
            world_size,
            endpoint,
            if_exists="new",
            on_drop="warn",
            max_block=_MAX_BLOCK_S,
        )
        try:
            self.hooks: HookHandle = register_hook(
                worker.get_model(),
                self.client,
                time="step",
                requests=self._requests,
                **options,
            )
        except BaseException:
            self.client.close()
            raise
        self.hooks.pause()
        try:
            self._runner = worker.model_runner
            self._replace(self._runner, "execute_model", self._execute_model)
            if hasattr(self._runner, "gather_batch_req_state"):
                self._replace(self._runner, "gather_batch_req_state", self._gather)
            if hasattr(worker, "shutdown"):
                self._replace(worker, "shutdown", self._shut_down)
        except BaseException:
            self.stop()
            raise
        _warn_of_graphs(worker)

    def step(self) -> int:
        """Ends a step. Returns the token of the next one."""
        self.hooks.step()
        return self.client.token

    def stop(self) -> None:
        """Removes all hooks and closes the client. The run is kept."""
        while self._put_back:
            self._put_back.pop()()
        self.hooks.remove()
        self.client.close()

    def status(self) -> dict[str, Any]:
        """Returns the counters in types that every transport of vLLM can carry."""
        counters = self.client.counters()
        return {
            "run": self.client.run,
            "rank": self.rank,
            "world_size": self.world_size,
            "token": self.client.token,
            "recorded": counters.recorded_count,
            "dropped": counters.dropped_count,
            "skipped": dict(self.hooks.skipped),
        }

    def _replace(self, owner: Any, name: str, by: Callable[..., Any]) -> None:
        old = getattr(owner, name)
        own = vars(owner).get(name)

        @functools.wraps(old)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            return by(old, *args, **kwargs)

        setattr(owner, name, replacement)

        def put_back() -> None:
            if vars(owner).get(name) is not replacement:
                return
            if own is None:
                delattr(owner, name)
            else:
                setattr(owner, name, own)

        self._put_back.append(put_back)

    def _execute_model(
        self, old: Callable[..., Any], scheduler_output: Any, *args: Any, **kwargs: Any
    ) -> Any:
        is_step = scheduler_output.total_num_scheduled_tokens > 0
        if not is_step or kwargs.get("dummy_run") or (len(args) > 1 and args[1]):
            return old(scheduler_output, *args, **kwargs)
        self._lengths = scheduler_output.num_scheduled_tokens
        self._rows, self._positions = {}, {}
        _failures.guarded(self._see_positions)(scheduler_output)
        _failures.guarded(self.hooks.resume)()
        try:
            return old(scheduler_output, *args, **kwargs)
        finally:
            _failures.guarded(self._end_step)()

    def _end_step(self) -> None:
        self.hooks.pause()
        self.hooks.step()

    def _see_positions(self, scheduler_output: Any) -> None:
        """Reads how many tokens of each request the step continues."""
        found = {
            each.req_id: int(each.num_computed_tokens)
            for each in scheduler_output.scheduled_new_reqs
        }
        # With both, the scheduler does not know how many drafts were accepted.
        is_scheduled_early = getattr(self._runner, "use_async_scheduling", False)
        has_drafts = getattr(self._runner, "speculative_config", None) is not None
        if not (is_scheduled_early and has_drafts):
            cached = scheduler_output.scheduled_cached_reqs
            numbers = map(int, cached.num_computed_tokens)
            found.update(zip(cached.req_ids, numbers, strict=True))
        self._positions = found

    def _gather(self, old: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Reads the order of a batch of runner V2."""
        found = old(*args, **kwargs)
        _failures.guarded(self._see_batch)(found)
        return found

    def _see_batch(self, found: Any) -> None:
        state = found[0] if isinstance(found, tuple) else found
        ids = getattr(state, "req_ids", None)
        if ids is not None:
            self._rows = _rows_of(ids, self._lengths)

    def _shut_down(self, old: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        _failures.guarded(self.stop)()
        return old(*args, **kwargs)

    def _requests(self) -> Requests:
        """Returns the rows of each request in the batch when a forward begins.

        The hooks add the length of the batch, which may have further rows.
        """
        rows: dict[str, Any] = self._rows
        if not rows:
            batch = getattr(self._runner, "input_batch", None)
            ids = [id_ for id_ in getattr(batch, "req_ids", ()) if id_ in self._lengths]
            if len(ids) == len(self._lengths):
                rows = _rows_of(ids, self._lengths)
            else:
                rows = dict.fromkeys(self._lengths)
        caches = self._caches(rows)
        return _by_given_ids(
            {
                request: _positioned(
                    place, self._positions.get(request), caches.get(request, {})
                )
                for request, place in rows.items()
            }
        )

    def _caches(self, rows: dict[str, Any]) -> dict[str, Any]:
        """Returns the blocks of each request, as far as they are known."""
        found: dict[str, Any] = {}

        def read() -> None:
            found.update(block_tables.caches_of(self._runner, rows))

        _failures.guarded(read)()
        return found


def start(worker: Any, **options: Any) -> WorkerRecorder:
    """Starts recording a worker, and ends an earlier recording of it."""
    stop(worker)
    recorder = WorkerRecorder(worker, **options)
    setattr(worker, _ATTRIBUTE, recorder)
    return recorder


def of(worker: Any) -> WorkerRecorder | None:
    """Returns the recorder of a worker; None if there is none."""
    found: WorkerRecorder | None = getattr(worker, _ATTRIBUTE, None)
    return found


def stop(worker: Any) -> WorkerRecorder | None:
    """Stops the recorder of a worker, and returns it."""
    recorder = of(worker)
    if recorder is not None:
        delattr(worker, _ATTRIBUTE)
        recorder.stop()
    return recorder


def _rows_of(ids: Any, lengths: dict[str, int]) -> dict[str, tuple[int, int]]:
    rows = {}
    end = 0
    for request in ids:
        begin, end = end, end + int(lengths[request])
        rows[request] = (begin, end)
    return rows


def _positioned(
    place: tuple[int, int] | None, position: int | None, caches: dict[str, Any]
) -> RequestRows:
    if place is None or position is None:
        return UncountedRows(place)
    return RequestRows(place, position=position, caches=caches)


def _by_given_ids(rows: dict[str, Any]) -> dict[str, Any]:
    """Returns rows by the ids that callers gave, without the suffix that vLLM adds.

    If two requests of a step have the same id, both keep the suffix.
    """
    if os.environ.get(_NO_SUFFIX, "0") not in ("", "0"):
        return rows
    given = {request: _SUFFIX.sub("", request) for request in rows}
    counts = Counter(given.values())
    return {
        given[request] if counts[given[request]] == 1 else request: place
        for request, place in rows.items()
    }


def _rank_of(worker: Any) -> tuple[int, int]:
    """Returns the rank among all workers, including those of other
    data-parallel engines.
    """
    parallel = getattr(worker, "parallel_config", None)
    size = int(getattr(parallel, "world_size", 1))
    replicas = int(getattr(parallel, "data_parallel_size", 1))
    replica = int(getattr(parallel, "data_parallel_rank", 0))
    return replica * size + int(getattr(worker, "rank", 0)), size * replicas


def _warn_of_graphs(worker: Any) -> None:
    model = getattr(worker, "model_config", None)
    if not getattr(model, "enforce_eager", True):
        _logger.warning(
            "vLLM compiles its model and replays graphs, in which most modules run "
            "unseen: give it enforce_eager=True (--enforce-eager)"
        )
