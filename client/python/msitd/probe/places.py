"""Which rank a process is, for its run and for its folder."""

from __future__ import annotations

from typing import NamedTuple

from msitd._core.daemon.ranks import rank_of_group, rank_of_process


class Place(NamedTuple):
    """A rank."""

    # Of the run.
    rank: int
    world_size: int
    # What `start` was given, or None.
    given: int | None

    @property
    def number(self) -> int:
        """What `rank` in the file selects by."""
        return self.rank if self.given is None else self.given

    def folder(self) -> str:
        """Returns the name of its folder: `rank3`, and `rank` of a single process.

        A group of processes that has been made meanwhile decides.
        """
        if self.given is not None:
            return f"rank{self.given}"
        group = rank_of_group()
        if group is not None:
            return f"rank{group[0]}"
        return "rank" if self.world_size == 1 else f"rank{self.rank}"


def place_of(rank_id: int | None) -> Place:
    """Returns which rank this process is: of torch.distributed, else of its launcher."""
    return Place(*rank_of_process(), rank_id)
