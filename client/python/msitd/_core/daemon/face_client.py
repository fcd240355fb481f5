"""The client of a face, with a daemon of its own where none runs."""

from __future__ import annotations

import logging
import os

from msitd._core.daemon.lazy_opening import FIRST_TRY_S
from msitd._core.daemon.patience import LONG_S
from msitd._core.daemon.private_daemon import PrivateDaemon
from msitd._core.daemon.programs import is_daemon_there
from msitd._core.recorder import Client

_logger = logging.getLogger("msitd")


class FaceClient:
    """Records what is written into the folder of another tool.

    It goes to the daemon that `msitd.Client` finds. Where none runs and MSITD_ENDPOINT
    names none, one is started for this process, which a line of the logger says.

    Args:
        folder: Where the store of such a daemon is.
        run: Its name; one that is there gets a number, unless `if_exists` says else.
        rank: As of `msitd.Client`, like `world_size`.
        if_exists: As of `msitd.Client`, like `open_timeout`.

    Raises:
        MsitError: The daemon does not answer.
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
        # As `msitd.Client` takes it.
        self.endpoint: str | None = None
        if not os.environ.get("MSITD_ENDPOINT") and not is_daemon_there():
            self._daemon = PrivateDaemon(folder)
            self.endpoint = self._daemon.endpoint
            _logger.warning(
                "no daemon of msitd runs here, so one of this process records until "
                "its end; set MSITD_ENDPOINT to keep the run in another one"
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
        """Ends the client, and the daemon if it is of this process.

        Args:
            lacking: The folder that lacks something, for which the store is kept;
                empty if nothing lacks.
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
