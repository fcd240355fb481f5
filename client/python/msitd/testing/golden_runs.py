"""Golden runs in files, with a daemon to compare with them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msitd import query
from msitd._core.client import Client
from msitd._core.daemon.msitctl import Msitctl
from msitd._core.daemon.private_daemon import PrivateDaemon
from msitd.testing.matching import assert_runs_match

if TYPE_CHECKING:
    from typing_extensions import Self

# The file that completes a run in an archive; see docs/format/archive.md.
_MANIFEST = "manifest"
# Longest name of a run that needs no hash; see `run_name`.
_NAME_MAX = 80
_HASH_DIGITS = 8
_TIMEOUT_S = 600.0


class MissingGoldenError(AssertionError):
    """The folder lacks a golden run of this name."""


def run_name(text: str) -> str:
    """Returns the name of the run, and of its folder, for the name of a test.

    The result consists of letters, digits, `.`, `_` and `-`. It ends with a hash if
    this changes the text, so that two tests never have the same run.
    """
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip(".-")[:_NAME_MAX]
    if name == text:
        return name
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return f"{name or 'run'}-{digest[:_HASH_DIGITS]}"


class GoldenRuns:
    """A folder of golden runs, and a private daemon that compares with them.

    The folder is an archive (docs/archive.md): it has a folder for each run, which can
    be committed to a repository. The daemon starts when it is needed, and its store is
    removed when it ends. Not thread-safe.

    Args:
        folder: The folder. It is created when the first run is written.
        updates: `recorded` replaces golden runs instead of comparing with them.

    Raises:
        ValueError: The path has a comma, which separates archives.
    """

    def __init__(self, folder: str | os.PathLike[str], *, updates: bool = False):
        self.folder = os.path.abspath(folder)
        if "," in self.folder:
            raise ValueError(f"golden runs: {self.folder!r} has a comma")
        self.updates = updates
        self._daemon: PrivateDaemon | None = None
        self._work = ""
        self._open: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops the daemon, and removes its store. May be called several times."""
        daemon, self._daemon = self._daemon, None
        if daemon is not None:
            daemon.stop()
        if self._work:
            shutil.rmtree(self._work, ignore_errors=True)
            self._work = ""

    def has(self, name: str) -> bool:
        """Returns whether there is a complete golden run of this name."""
        return os.path.isfile(os.path.join(self._folder_of(name), _MANIFEST))

    @contextlib.contextmanager
    def recorded(
        self,
        name: str,
        *,
        policy: query.Policy | None = None,
        matching: query.Matching | None = None,
        allow_partial: bool = False,
        **client_arguments: Any,
    ) -> Iterator[Client]:
        """Gives a client that records, then compares the run with the golden one.

        If the block raises, nothing is compared and no golden run is replaced.

        Args:
            name: Name of the golden run; see `run_name` for its folder.
            policy: Which pairs pass; None: the defaults.
            matching: How tensors are paired. By default, by equal names.
            allow_partial: Whether the verdict may be `partial`.
            client_arguments: Further arguments of `msitd.Client`.

        Raises:
            MissingGoldenError: The golden run is missing.
            AssertionError: The run differs, or nothing was recorded.
            ValueError: A block inside another has its name.
        """
        __tracebackhide__ = True
        if not self.updates and not self.has(name):
            raise MissingGoldenError(
                f"there is no golden run {name!r} in {self.folder}; to record it: "
                "pytest --msitd-update-golden"
            )
        run = run_name(name)
        if run in self._open:
            raise ValueError(f"golden run {name!r} is being recorded already")
        self._open.add(run)
        endpoint = self._endpoint()
        try:
            with Client(run, endpoint=endpoint, **client_arguments) as client:
                yield client
            with query.connect(endpoint, timeout=_TIMEOUT_S) as daemon:
                _check_recorded(daemon, run)
                daemon.runs.seal(run)
                if self.updates:
                    self._replace(name, run, endpoint)
                else:
                    assert_runs_match(
                        run,
                        run,
                        policy=policy,
                        matching=matching,
                        allow_partial=allow_partial,
                        daemon=daemon,
                        timeout=_TIMEOUT_S,
                        golden_source=self._url,
                    )
        finally:
            self._open.discard(run)
            # So that a test can be repeated.
            with (
                contextlib.suppress(query.QueryError),
                query.connect(endpoint, timeout=_TIMEOUT_S) as daemon,
            ):
                daemon.runs.delete(run)

    @property
    def _url(self) -> str:
        return f"file://{self.folder}"

    def _folder_of(self, name: str) -> str:
        return os.path.join(self.folder, run_name(name))

    def _endpoint(self) -> str:
        if self._daemon is None:
            # The daemon requires that the archive exists.
            os.makedirs(self.folder, exist_ok=True)
            self._work = tempfile.mkdtemp(prefix="msitd-testing-")
            self._daemon = PrivateDaemon(self._work, ["--archives", self._url])
        return self._daemon.endpoint

    def _replace(self, name: str, run: str, endpoint: str) -> None:
        """Replaces the golden run by a run of the daemon, which has its name.

        Raises:
            RuntimeError: The run could not be written completely. The golden run is
                unchanged.
        """
        made = tempfile.mkdtemp(prefix=".new-", dir=self.folder)
        try:
            program = Msitctl(endpoint)
            try:
                url = f"{self._url}/{os.path.basename(made)}"
                answer = program.run(["run", "archive", run, url])
            finally:
                program.close()
            if answer.lack:
                raise RuntimeError(f"golden run {name}: {answer.lack}")
            old = self._folder_of(name)
            if os.path.lexists(old):
                # A run that is replaced halfway is missing, not wrong.
                os.rename(old, os.path.join(made, "old"))
            os.rename(os.path.join(made, run), old)
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _check_recorded(daemon: query.Connection, run: str) -> None:
    if daemon.runs.get(run).counters.tensor_count == 0:
        raise AssertionError(
            "nothing was recorded: register hooks with the client, or call record"
        )
