"""The client of an interface, with a private daemon if there is no other one."""

from __future__ import annotations

import logging

from msitd._core.client import Client
from msitd._core.daemon.lazy_opening import FIRST_TRY_S
from msitd._core.daemon.patience import LONG_S
from msitd._core.daemon.private_daemon import PrivateDaemon
from msitd._core.daemon.programs import why_no_daemon

_logger = logging.getLogger("msitd")


class FaceClient:
    """Records data that is written into the folder of another tool.

    It uses the daemon that `msitd.Client` finds, or the personal daemon that it
    starts, so that all ranks and later queries share one. Root, a process of a
    service and a user who sets MSITD_START=0 have none by default. The folder has to
    be written nevertheless, so a daemon of this process is used then, which the
    logger reports.

    Args:
        folder: Folder for the store of such a daemon.
        run: Name of the run. If the run exists, the name gets a number, unless
            `if_exists` says otherwise.
        rank: See `msitd.Client`, as for `world_size`.
        if_exists: See `msitd.Client`, as for `open_timeout`.

    Raises:
        MsitError: The daemon does not answer, or cannot be started.
    """

    def __init__(
        self,
        folder: str,
        run: str,
        rank: int | None = None,
        world_size: int | None = None,
        if_exists: str = "new",
        open_timeout: float = FIRST_TRY_S,
    ) -> None:
        self._daemon: PrivateDaemon | None = None
        # The value for `msitd.Client`.
        self.endpoint: str | None = None
        why = why_no_daemon()
        if why:
            self._daemon = PrivateDaemon(folder)
            self.endpoint = self._daemon.endpoint
            _logger.warning(
                "a daemon of this process records until its end, and does not keep "
                "the run, because there is no other: %s",
                why,
            )
        try:
            self.client = Client(
                run,
                rank=rank,
                world_size=world_size,
                endpoint=self.endpoint,
                if_exists=if_exists,
                on_drop="warn",
                max_block=LONG_S,
                open_timeout=open_timeout,
            )
        except BaseException:
            if self._daemon is not None:
                self._daemon.stop()
            raise

    def close(self, lacking: str) -> None:
        """Closes the client, and stops the daemon if it belongs to this process.

        Args:
            lacking: The folder that is incomplete, for which the store is kept,
                or "" if nothing is missing.
        """
        try:
            self.client.close()
        finally:
            daemon, self._daemon = self._daemon, None
            if daemon is not None:
                if lacking:
                    _logger.warning(
                        "what %s lacks is kept: start msitd with --data-dir %s, and "
                        "export %s",
                        lacking,
                        daemon.store,
                        self.client.run,
                    )
                daemon.stop(keeps_store=bool(lacking))
