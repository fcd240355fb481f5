"""Runs: named captures of a job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import cast

from msitd.query.connection import Caller
from msitd.query.listing import Listing
from msitd.query.messages import from_message, new
from msitd.query.types import Retention, Run


class Runs:
    """What `msitctl run` does. Every method may raise QueryError."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self, *, limit: int | None = None) -> Listing[Run]:
        """Lists runs in the order of their names.

        Args:
            limit: Most runs; None: all.
        """
        return Listing(self._caller, "RunService/ListRuns", "runs", Run, {}, limit)

    def get(self, run: str) -> Run:
        """Returns one run. QueryError `NOT_FOUND` if there is none of that name."""
        return self._call("GetRun", new("GetRunRequest", run=run))

    def create(
        self,
        run: str,
        *,
        world_size: int = 0,
        labels: Mapping[str, str] | None = None,
    ) -> Run:
        """Makes an empty run, so that it has labels before it gets tensors.

        Args:
            run: Name, 1 to 128 bytes of UTF-8.
            world_size: Number of ranks of the job; 0: what the first producer
                says.
            labels: Any texts to keep with the run, at most 64.

        Raises:
            QueryError: `ALREADY_EXISTS`, or `INVALID_ARGUMENT`.
        """
        made = new("Run", name=run, world_size=world_size, labels=labels or {})
        return self._call("CreateRun", new("CreateRunRequest", run=made))

    def seal(self, run: str) -> Run:
        """Ends the capture of a run: it takes no more tensors."""
        return self._call("SealRun", new("SealRunRequest", run=run))

    def retain(
        self,
        run: str,
        *,
        size_bytes_max: int | None = None,
        age_max: timedelta | None = None,
        token_count: int | None = None,
        pinned: bool | None = None,
    ) -> Run:
        """Sets how much of a run is kept. Arguments that are None leave it as it is.

        Args:
            run: Name of the run.
            size_bytes_max: Most bytes of tensors to keep; 0: the limit of the
                daemon.
            age_max: How long bytes are kept; zero: the limit of the daemon.
            token_count: How many tokens to keep, from the highest down; 0: the
                limit of the daemon.
            pinned: True keeps all bytes, whatever the limits.
        """
        retention = Retention(pinned, size_bytes_max, age_max, token_count)
        request = new("SetRunRetentionRequest", run=run, retention=retention)
        return self._call("SetRunRetention", request)

    def delete(self, run: str) -> None:
        """Removes a run with its tensors and their bytes, without asking."""
        request = new("DeleteRunRequest", run=run)
        self._caller.unary("RunService/DeleteRun", request, "google.protobuf.Empty")

    def _call(self, method: str, request: object) -> Run:
        answer = self._caller.unary(f"RunService/{method}", request, "Run")
        return cast(Run, from_message(answer))
