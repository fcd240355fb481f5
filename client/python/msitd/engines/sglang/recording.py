"""The recording of one dumper."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msitd._core.call import Call
from msitd._core.daemon.face_client import FaceClient
from msitd._core.daemon.ranks import rank_of_process
from msitd._core.leaf.leaves import LeafRecorder
from msitd._core.leaf.walk import walk_result
from msitd._core.not_recorded import reason_of
from msitd._core.skips import Skips
from msitd._core.vocabulary import CALL_AUTO

if TYPE_CHECKING:
    from msitd._core.client import Client
    from msitd.engines.sglang.config import DumperConfig

_logger = logging.getLogger("msitd")

_RUN = "dump"
# Location of a private daemon's store if no folder is given.
_FOLDER = "/tmp/dumper"


class Recording:
    """A client, and a daemon if none is running. Any thread may record.

    Args:
        open_timeout: Maximum time in seconds to wait for the daemon.

    Raises:
        MsitError: The daemon does not answer.
    """

    def __init__(self, config: DumperConfig, open_timeout: float) -> None:
        # torch is installed, since there is a tensor.
        import torch

        self._torch = torch
        self._folder = os.path.abspath(config.dir or _FOLDER)
        os.makedirs(self._folder, 0o750, exist_ok=True)
        self.rank, self.world_size = rank_of_process()
        self._face = FaceClient(
            self._folder,
            config.exp_name or os.environ.get("MSITD_RUN") or _RUN,
            self.rank,
            self.world_size,
            "replace" if config.cleanup_previous and config.exp_name else "new",
            open_timeout,
        )
        self.client: Client = self._face.client
        self._skips = Skips(self.client)
        self._leaves = LeafRecorder(self.client, self._skips, values=True, objects=True)
        self._lock = threading.Lock()
        # Dumps whose dimensions are already described.
        self._described: set[tuple[str, str]] = set()
        self._has_files = config.dir is not None
        self._has_failed = False
        atexit.register(self.close)

    def begin_call(self, op: str, step: int) -> int:
        """Returns the number of a call, which its gradient shares."""
        return self._leaves.begin_call(op, step)

    def record(
        self,
        op: str,
        io: str,
        value: Any,
        step: int,
        meta: Mapping[str, str],
        number: int = CALL_AUTO,
    ) -> None:
        """Records a value. Raises nothing; values that cannot be recorded are counted.

        Args:
            number: Number of the call. Default: records at the same location
                are counted.
        """
        try:
            if not self.client.selects(op, io, step):
                return
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skips.count(op, "", reason_of(error))
            return
        call = Call(op, step, number, None)
        leaves = walk_result(value, self._torch.Tensor, True)
        self._leaves.record(leaves, io, call, None)
        for key, text in meta.items():
            with self._lock:
                is_new = (op, io) not in self._described
                self._described.add((op, io))
            if is_new:
                index = key if io == "output" else f"{io}.{key}"
                described = Call(op, step, CALL_AUTO, None)
                self._leaves.record([(index, text)], "state", described, None)

    def write(
        self, folder: str, name: str, value: Any, meta: Mapping[str, Any]
    ) -> None:
        """Writes a file in SGLang's format. Failures are logged once.

        A name that is a path could lead out of the folder, and is refused.
        """
        try:
            if os.path.basename(name) != name:
                raise ValueError("a name has no /")
            os.makedirs(folder, exist_ok=True)
            with self._torch.no_grad():
                if isinstance(value, self._torch.Tensor):
                    # Copies only the bytes of this tensor, and drops the class
                    # of a parameter.
                    value = value.detach().clone()
                self._torch.save(
                    {"value": value, "meta": dict(meta)}, os.path.join(folder, name)
                )
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._has_files = False
            if not self._has_failed:
                self._has_failed = True
                _logger.warning("%.80s is not written: %.200s (said once)", name, error)

    def close(self) -> None:
        """Closes the client and a private daemon.

        The store is kept if it is the only copy of the records.
        """
        atexit.unregister(self.close)
        self._face.close(lacking="" if self._has_files else self._folder)
