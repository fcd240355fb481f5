"""Writes the records into the folder of msit, token by token, while the program
runs.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msitd._core.daemon.patience import Patience
from msitd._core.daemon.trees import move_into, remove_all
from msitd.llm import analysis, folders

if TYPE_CHECKING:
    from msitd._core.client import Client
    from msitd._core.daemon.msitctl import Msitctl

_logger = logging.getLogger("msitd")

_ROOT = "root"
# The folder of a token appears this many seconds after its end.
_POLL_S = 0.25
# Maximum wait for a daemon, in seconds.
_FLUSH_MAX_S = 30.0
# Maximum number of tokens per export, since the system limits the size of
# arguments.
_TOKENS_MAX = 1000


@dataclass(frozen=True)
class Wanted:
    """The parts of a run that are written."""

    root: str  # The folder msit_dump_<time>.
    rank: int
    tokens: tuple[int, ...]
    weights: bool
    tensors: bool
    statistics: bool
    analysis: bool
    # Writes, of the modules, only the results of the last one inside the model. Functions whose
    # op matches nothing of the model are written in any case.
    last_logits: bool
    # Returns the class of a module, and the class of the model for other ops.
    type_of: Callable[[str], str]
    is_module: Callable[[str], bool]


class TreeWriter:
    """Exports the completed tokens of a run, in its own thread.

    The folder of a token appears once it is complete.
    """

    def __init__(self, client: Client, wanted: Wanted, msitctl: Msitctl) -> None:
        self._client = client
        self._patience = Patience(client, _FLUSH_MAX_S)
        self._wanted = wanted
        self._msitctl = msitctl
        # Whether everything was written without failure. Known at the end.
        self.is_whole = True
        self._to_do = list(wanted.tokens)
        # Tokens that could not be written, and are retried at the end.
        self._failed: list[int] = []
        self._weights_failed = False
        self._weights = wanted.weights
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._work, name="msitd-llm", daemon=True
        )
        os.makedirs(os.path.join(wanted.root, folders.TENSORS), 0o755, exist_ok=True)
        self._thread.start()

    def finish(self) -> None:
        """Writes everything that is recorded so far. Logs failures."""
        self.is_whole = False
        self._ended.set()
        self._thread.join()
        self._to_do = [*self._failed, *self._to_do]
        self._weights = self._weights or self._weights_failed
        # A token whose forward has not ended has records, too.
        self.is_whole = self._write_safely(
            self._client.token + 1, "%s lacks something: %s"
        )

    def _work(self) -> None:
        while not self._ended.wait(_POLL_S):
            self._write_safely(
                self._client.token,
                "%s lacks something, which is tried again at the end: %s",
            )

    def _write_safely(self, end: int, message: str) -> bool:
        try:
            self._write(end)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            _logger.warning(message, self._wanted.root, error)
            return False
        return True

    def _write(self, end: int) -> None:
        """Writes the tokens before `end`."""
        tokens = list(itertools.takewhile(lambda token: token < end, self._to_do))
        if not (tokens or self._weights):
            return
        self._to_do = self._to_do[len(tokens) :]
        weights, self._weights = self._weights, False
        try:
            self._patience.flush()
            if weights:
                self._export(["--io", "weight"])
            if tokens:
                self._export_tokens(tokens)
        except BaseException:
            self._failed += tokens
            self._weights_failed = self._weights_failed or weights
            raise

    def _export_tokens(self, tokens: list[int]) -> None:
        sides = ["--io", "input,output"]
        if not self._wanted.last_logits:
            for first in range(0, len(tokens), _TOKENS_MAX):
                some = map(str, tokens[first : first + _TOKENS_MAX])
                self._export([*sides, "--tokens", ",".join(some)])
            return
        for token in tokens:
            for ops in self._last_logits(token):
                self._export([*sides, "--tokens", str(token), "--ops", ops])

    def _export(self, selection: list[str]) -> None:
        """Exports into a temporary folder next to the others, and moves it into
        place.
        """
        wanted = self._wanted
        staging = tempfile.mkdtemp(prefix=".msitd-export-", dir=wanted.root)
        try:
            command = ["run", "export", self._client.run, "--format", "msit"]
            command += ["--out", staging, "--allow-partial", *selection]
            command += ["--ranks", str(wanted.rank)]
            if wanted.statistics:
                command.append("--statistics")
            self._run(command)
            for folder, device in folders.device_folders(staging, wanted.rank):
                self._place(folder, f"{device}_{os.getpid()}")
        finally:
            remove_all(staging)

    def _place(self, folder: str, name: str) -> None:
        wanted = self._wanted
        target = os.path.join(wanted.root, folders.TENSORS, name)
        if wanted.analysis:
            for token in sorted(os.listdir(folder)):
                if token.isdigit():
                    rows = analysis.analyze(
                        os.path.join(folder, token),
                        os.path.join(target, token),
                        wanted.type_of,
                        wanted.tensors,
                    )
                    analysis.append(wanted.root, rows)
        if not wanted.tensors:
            folders.remove_tensors(folder)
        if not os.path.exists(target):
            os.makedirs(target, 0o750)
        folders.merge_orders(folder, target)
        move_into(folder, target)

    def _last_logits(self, token: int) -> list[str]:
        """Returns patterns of the records of a token to export."""
        wanted = self._wanted
        text = self._run(
            ["tensor", "list", self._client.run, "-o", "json", "--io", "output"]
            + ["--tokens", str(token), "--ranks", str(wanted.rank), "--allow-partial"]
        )
        found: list[dict[str, Any]] = json.loads(text)["tensors"]
        # msit does not treat a result with named elements as a tensor.
        results = [
            tensor
            for tensor in found
            if wanted.is_module(tensor["op"])
            and tensor.get("index", "0").replace(".", "").isdigit()
        ]
        ops = {tensor["op"] for tensor in found if not wanted.is_module(tensor["op"])}
        patterns = [",".join(sorted(ops))] if ops else []
        # In msit, a hook on the model writes the last result before its own result
        # arrives. A model without parts has no other result.
        results = [each for each in results if each["op"] != _ROOT] or results
        if results:
            last = max(results, key=lambda tensor: int(tensor.get("sequence", 0)))
            patterns.append(last["op"])
        return patterns

    def _run(self, words: list[str]) -> str:
        answer = self._msitctl.run(words)
        if answer.lack:
            _logger.warning("%s lacks something: %s", self._wanted.root, answer.lack)
        return answer.text
