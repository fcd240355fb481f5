"""Writes a step into the folder of msprobe's format."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from typing import TYPE_CHECKING, Any

from msitd._core.daemon.patience import Patience
from msitd._core.daemon.trees import move_into, remove_all
from msitd.probe.capture import keeps_bytes
from msitd.probe.dump_text import rewrite_dump

if TYPE_CHECKING:
    from msitd.probe.recording import Recording
    from msitd.probe.settings import Settings

_logger = logging.getLogger("msitd")

_TENSORS = "dump_tensor_data"
_EXTRA = ("stack.json", "construct.json")
_DUMPS = ("dump.json", "debug.json")

# The side of a call for each io, as msitctl writes it.
_SIDES = {
    "IO_INPUT": ("forward", "input"),
    "IO_WEIGHT": ("forward", "input"),
    "IO_OUTPUT": ("forward", "output"),
    "IO_GRAD_OUTPUT": ("backward", "input"),
    "IO_GRAD_INPUT": ("backward", "output"),
}

# Maximum time that one step waits for a daemon. If the daemon is away longer,
# later steps wait briefly in case it has returned.
_FLUSH_MAX_S = 60.0


class StepWriter:
    """Exports a step from the daemon, and moves it into place.

    Args:
        folder_name: Returns the name of the rank's folder.
        rank: Rank in the run.
    """

    def __init__(self, recording: Recording, rank: int) -> None:
        self._recording = recording
        self._patience = Patience(recording.client, _FLUSH_MAX_S)
        self._rank = rank
        # Folders that were written here. Other folders belong to earlier
        # programs.
        self._written: set[str] = set()
        # Number of records when a step was last written.
        self._known: tuple[int, int] | None = None
        # Step, op, call and direction of calls with overflows, because a step
        # may be written twice.
        self._overflows: set[tuple[int, str, int, str]] = set()
        # Steps that could not be written, with their folders and settings. They
        # are retried at the end.
        self._failed: dict[int, tuple[str, Settings]] = {}

    @property
    def is_whole(self) -> bool:
        """Whether everything was written."""
        return not self._failed

    def write_again(self) -> None:
        """Writes steps that could not be written before. This is the last attempt.

        Waits for a daemon that may be restarting, even if earlier waits failed,
        because steps that are not written now are missing in the folder.

        Raises:
            RuntimeError: msitctl failed, and others as in `write`.
        """
        for step, (folder_name, settings) in list(self._failed.items()):
            self._patience.flush(is_last=True)
            self._export_wanted(step, folder_name, settings)
            del self._failed[step]

    def write(self, step: int, folder_name: str, settings: Settings) -> None:
        """Writes all records of a step, unless they were written already.

        Args:
            folder_name: Folder of the rank: `rank` or `rank3`.

        Raises:
            MsitError: The daemon does not answer.
            RuntimeError: msitctl failed.
            OSError: The folder cannot be written.
        """
        recording = self._recording
        counters = recording.client.counters()
        known = (step, counters.recorded_count)
        if known == self._known:
            return
        self._failed[step] = (folder_name, settings)
        if settings.level != "debug":
            self._record_documents(step, settings)
        self._patience.flush()
        self._export_wanted(step, folder_name, settings)
        del self._failed[step]
        counters = recording.client.counters()
        self._known = (step, counters.recorded_count)

    def _export_wanted(self, step: int, folder_name: str, settings: Settings) -> None:
        ops = self._overflowing(step, settings)
        if ops is None or ops:
            self._export(step, folder_name, settings, ops)

    def _record_documents(self, step: int, settings: Settings) -> None:
        client, listener = self._recording.client, self._recording.listener
        client.record_document("construct.json", listener.construct(), step)
        client.record_document("stack.json", listener.stacks(), step)
        if settings.task == "structure":
            dump = {"task": "structure", "level": settings.level}
            dump |= {"framework": "pytorch", "dump_data_dir": None, "data": {}}
            client.record_document("dump.json", json.dumps(dump, indent=1), step)

    def _overflowing(self, step: int, settings: Settings) -> list[str] | None:
        """Returns ops whose results have NaN or infinities that their inputs do
        not have.

        Returns None for all ops.
        """
        if settings.task != "overflow_check":
            return None
        found = self._non_finite(step)
        ops: list[str] = []
        for (op, call, direction), sides in found.items():
            if sides != {"output"}:
                continue
            key = (step, op, call, direction)
            if key not in self._overflows:
                if 0 <= settings.overflow_max <= len(self._overflows):
                    continue
                self._overflows.add(key)
                _logger.warning(
                    "step %d: %s call %d, %s, gives NaN or infinities", *key
                )
            if op not in ops:
                ops.append(op)
        return ops

    def _non_finite(self, step: int) -> dict[tuple[str, int, str], set[str]]:
        """Returns the sides of calls that have NaN or infinities, in their order."""
        words = ["tensor", "find", self._recording.client.run, "-o", "json"]
        words += ["--tokens", str(step), "--ranks", str(self._rank), "--allow-partial"]
        words += ["--where", "nan_count > 0 or inf_count > 0"]
        answer = json.loads(self._recording.msitctl.run(words).text)
        tensors: list[dict[str, Any]] = answer.get("tensors", [])
        found: dict[tuple[str, int, str], set[str]] = {}
        for tensor in sorted(tensors, key=lambda each: int(each.get("sequence", 0))):
            side = _SIDES.get(tensor["io"])
            if side is not None:
                key = (tensor["op"], int(tensor.get("call", 0)), side[0])
                found.setdefault(key, set()).add(side[1])
        return found

    def _export(
        self, step: int, folder_name: str, settings: Settings, ops: list[str] | None
    ) -> None:
        recording = self._recording
        staging = tempfile.mkdtemp(prefix=".msitd-export-", dir=recording.folder)
        try:
            words = ["run", "export", recording.client.run, "--format", "msprobe"]
            words += ["--out", staging, "--allow-partial", "--tokens", str(step)]
            words += ["--ranks", str(self._rank)]
            if ops is not None:
                words += ["--ops", ",".join(ops)]
            if settings.summary_mode != "statistics":
                words += ["--checksum", settings.summary_mode]
            if keeps_bytes(settings) and settings.task == "statistics":
                words.append("--no-tensors")
            answer = recording.msitctl.run(words)
            if answer.lack:
                _logger.warning("%s lacks something: %s", recording.folder, answer.lack)
            made = os.path.join(staging, f"step{step}", f"rank{self._rank}")
            os.makedirs(made, 0o750, exist_ok=True)
            self._finish(made, step, folder_name, settings)
            self._place(made, step, folder_name)
        finally:
            remove_all(staging)

    def _finish(
        self, made: str, step: int, folder_name: str, settings: Settings
    ) -> None:
        """Edits the exported files to match the settings."""
        has_tensors = os.path.isdir(os.path.join(made, _TENSORS))
        data_dir = os.path.join(
            settings.dump_path, f"step{step}", folder_name, _TENSORS
        )
        head = {
            "task": settings.task,
            "level": settings.level,
            "framework": "pytorch",
            "dump_data_dir": data_dir if has_tensors else None,
        }
        for name in _DUMPS:
            path = os.path.join(made, name)
            if os.path.exists(path):
                rewrite_dump(path, head, settings.has_norms)
            elif name == "dump.json" and settings.level != "debug":
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({**head, "data": {}}, file, indent=1)
        is_extra = settings.has_extra_info and settings.level != "debug"
        for name in _EXTRA:
            path = os.path.join(made, name)
            if not is_extra and os.path.exists(path):
                os.remove(path)
            elif is_extra and not os.path.exists(path):
                with open(path, "w", encoding="utf-8") as file:
                    file.write("{}")

    def _place(self, made: str, step: int, folder_name: str) -> None:
        target = os.path.join(self._recording.folder, f"step{step}", folder_name)
        if target not in self._written and os.path.exists(target):
            _logger.warning("%s is of an earlier program, and replaced", target)
            old = tempfile.mkdtemp(prefix=".msitd-old-", dir=self._recording.folder)
            os.replace(target, os.path.join(old, folder_name))
            remove_all(old)
        self._written.add(target)
        if os.path.exists(target):
            move_into(made, target)
            return
        staged_step = os.path.dirname(made)
        named = os.path.join(staged_step, folder_name)
        if named != made:
            os.rename(made, named)
        # Moves the whole step if no other rank has created it, which is
        # cheapest.
        step_folder = os.path.dirname(target)
        if not os.path.exists(step_folder):
            try:
                os.rename(staged_step, step_folder)
            except OSError:
                # Another rank was faster.
                os.replace(named, target)
        else:
            os.replace(named, target)
