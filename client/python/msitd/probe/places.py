"""Determines the rank of a process, for its run and for its folder."""

from __future__ import annotations

from typing import NamedTuple

from msitd._core.daemon.ranks import rank_of_group, rank_of_process


class Place(NamedTuple):
    """A rank."""

    # Rank in the run.
    rank: int
    world_size: int
    # The argument of `start`, or None.
    given: int | None

    @property
    def number(self) -> int:
        """The rank that `rank` in the file selects by."""
        return self.rank if self.given is None else self.given

    def folder(self) -> str:
        """Returns the name of the rank's folder: `rank3`, or `rank` for a
        single process.

        A process group that was created in the meantime decides.
        """
        if self.given is not None:
            return f"rank{self.given}"
        group = rank_of_group()
        if group is not None:
            return f"rank{group[0]}"
        return "rank" if self.world_size == 1 else f"rank{self.rank}"


def place_of(rank_id: int | None) -> Place:
    """Returns the rank of this process from torch.distributed, or else from its
    launcher.
    """
    return Place(*rank_of_process(), rank_id)
