"""Records a setup as users would."""

import contextlib
import logging

import msitd
from subjects import Setup, run
from torch import Tensor


def record(endpoint: str, name: str, setup: Setup, mode: str) -> list[Tensor]:
    """Records a run of all steps and returns the last results of the model.

    A token is a step. With the mode "functions", torch functions are recorded
    in addition to the modules.
    """
    # Suppresses the warning about a module that a fault skips; the comparison
    # reports it, too.
    logging.getLogger("msitd").setLevel(logging.ERROR)
    is_training = setup.name == "train"
    with (
        msitd.Client(name, endpoint=endpoint) as client,
        contextlib.ExitStack() as stack,
    ):
        stack.enter_context(
            msitd.register_hook(setup.model, client, gradients=is_training)
        )
        if mode == "functions":
            stack.enter_context(msitd.register_api(client))
        return run(setup)
