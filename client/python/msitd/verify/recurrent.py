"""The exact results of recurrent layers and cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msitd.verify.arguments import Arguments
from msitd.verify.table import RANDOM_REASON, Spec
from msitd.verify.unchecked import Unchecked

if TYPE_CHECKING:
    import torch

# Where the table has the modules of torch, whose results have another form than those
# of the functions: an LSTM returns its two states as a pair.
OF_MODULES = "torch.nn"


def results(spec: Spec, given: Arguments) -> dict[str, torch.Tensor]:
    """Returns the results of a layer or cell for arguments in float64, by index.

    Raises:
        Unchecked: It drops random elements.
    """
    import torch

    function = getattr(torch, spec.name)
    if spec.name.endswith("_cell"):
        return _by_index(function(*given.args, **given.kwargs), False)
    # Layers have a form for padded sequences, and one for packed ones, with the sizes
    # of the batches as the second argument.
    is_packed = len(given.args) > 3 and isinstance(given.args[3], tuple)
    dropout, training = given.args[6:8] if is_packed else given.args[5:7]
    if dropout and training:
        raise Unchecked(RANDOM_REASON)
    found = function(*given.args, **given.kwargs)
    return _by_index(found, spec.owner == OF_MODULES and spec.name == "lstm")


def _by_index(found: Any, has_pair: bool) -> dict[str, torch.Tensor]:
    if not isinstance(found, tuple):
        return {"0": found}
    names = ("0", "1.0", "1.1") if has_pair else ("0", "1", "2")
    return dict(zip(names, found, strict=False))
