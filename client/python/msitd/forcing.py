"""Makes a model generate the same tokens as another run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msitd._core.leaf.stand_ins import record_instead

if TYPE_CHECKING:
    import torch


def teacher_forcing(ids: Any) -> dict[str, Any]:
    """Returns arguments that make Hugging Face's `generate` return `ids`.

    Two models that compute almost the same values sooner or later choose
    different tokens. From that token on their inputs differ, so nothing that
    follows can be compared. With these arguments, each step receives the token
    of the golden run instead of the one that the model computes, and both runs
    can be compared to the end:

        ids = golden.generate(**prompt, max_new_tokens=64)
        target.generate(**prompt, **msitd.teacher_forcing(ids))

    Hooks record what the model computes, not what it is made to choose. So do
    functions of torch (`register_api`): what chooses the token is recorded with
    the scores of the model, as in a run without these arguments. The
    golden run may be made in the same way; it returns the same. Its `ids` can
    be kept by `torch.save`, or as a tensor of the run.

    Args:
        ids: The return value of `generate`, or its `sequences`: a tensor, an
            array or lists of integers of shape (sequences, length). It includes
            padding, and the prompt if the model returns the prompt. Shape
            (length,) is one sequence.

    Returns:
        `logits_processor`, `max_length`, `do_sample` and `num_beams`. Do not
        pass these to `generate` a second time, and do not pass
        `max_new_tokens`. `logits_processor` is a list of one function with the
        signature of LogitsProcessor. It can be combined with other processors
        in any order, and other programs that generate with such processors can
        use it. It raises ValueError if `generate` departs from `ids`: a
        different prompt, a different number of sequences, or beam search.
    """
    import torch

    forced = torch.as_tensor(getattr(ids, "sequences", ids))
    if forced.ndim == 1:
        forced = forced[None]
    if forced.ndim != 2 or forced.numel() == 0 or forced.is_floating_point():
        raise ValueError(
            f"ids of shape {list(forced.shape)} and {forced.dtype} are no tokens: "
            "integers, a row for each sequence"
        )
    return {
        "logits_processor": [_Forcing(forced.detach().to("cpu", torch.int64))],
        "max_length": forced.shape[1],
        "do_sample": False,
        "num_beams": 1,
    }


class _Forcing:
    """Sets the scores of each step so that only the given token can be chosen."""

    def __init__(self, ids: torch.Tensor) -> None:
        self._ids = ids
        # Length of the sequences at the next step if that step follows the last
        # one.
        self._expected = -1

    def __call__(
        self, input_ids: torch.LongTensor, scores: torch.FloatTensor
    ) -> torch.FloatTensor:
        count, step = input_ids.shape
        if count != self._ids.shape[0]:
            raise ValueError(
                f"{count} sequences are generated, {self._ids.shape[0]} are given "
                "(beams cannot be forced)"
            )
        if step >= self._ids.shape[1]:
            raise ValueError(
                f"token {step} is asked for, {self._ids.shape[1]} are given"
            )
        self._check(input_ids, 0 if step != self._expected else step - 1)
        self._expected = step + 1
        tokens = self._ids[:, step].to(scores.device)
        if int(tokens.max()) >= scores.shape[1] or int(tokens.min()) < 0:
            raise ValueError(
                f"token {step} is not in the vocabulary of {scores.shape[1]}"
            )
        # Fresh scores, because NaN in the old ones must not affect the choice.
        forced = scores.new_full(scores.shape, -float("inf"))
        forced.scatter_(1, tokens[:, None], 0)
        record_instead(forced, scores)
        return forced

    def _check(self, input_ids: torch.LongTensor, first: int) -> None:
        """Raises ValueError if the tokens from `first` on differ from the given
        ones.
        """
        given = self._ids[:, first : input_ids.shape[1]]
        fed = input_ids[:, first:].to(given.device)
        differing = (fed != given).nonzero()
        if len(differing) == 0:
            return
        row, position = differing[0].tolist()
        raise ValueError(
            f"token {first + position} of sequence {row} is "
            f"{int(fed[row, position])}, in the given ones "
            f"{int(given[row, position])}: not the same prompt"
        )
