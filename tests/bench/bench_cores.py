"""The cost of recording for a rank that shares its core with the daemon."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import msitd
import torch
from bench_model import Way, medians_in_turn, seconds_of_step
from llama_like import LlamaLike, prefill_words
from measure import Bench, NotMeasured, Result, new_daemon, ratio


def pin(pids: list[int], cores: list[int]) -> None:
    """Restricts all threads of the processes to `cores`."""
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            # A thread may end in the meantime.
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), cores)


def one_core(bench: Bench) -> Result:
    """Time that recording adds to a prefill on one core, compared with two cores.

    Rank and daemon share the cores. The rank has one thread of torch, and its
    client uses its default amount of memory.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise NotMeasured("there is only one core")
    words = prefill_words()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    plain, full = (LlamaLike().train(False) for _ in range(2))
    try:
        with new_daemon(bench) as daemon:
            assert daemon.process is not None
            pids = [os.getpid(), daemon.process.pid]
            endpoint = f"unix:{daemon.socket_dir}"
            with (
                msitd.Client("full", endpoint=endpoint) as client,
                msitd.register_hook(full, client, aliases=False),
            ):

                def added(core_count: int) -> float:
                    pin(pids, allowed[:core_count])
                    # Reloads the data that the daemon has evicted from the
                    # caches.
                    seconds_of_step(Way(), plain, words)
                    plain_s, full_s = (
                        seconds_of_step(Way(), model, words) for model in (plain, full)
                    )
                    client.flush(600)
                    return full_s - plain_s

                works = [lambda: added(1), lambda: added(2)]
                # The first access to memory is not part of a step's cost.
                medians_in_turn(1, works, lambda: None)
                rounds = 3 * bench.scale.repetitions
                one_s, two_s = medians_in_turn(rounds, works, lambda: None)
                assert client.counters().dropped_count == 0
    finally:
        torch.set_num_threads(threads)
        pin([os.getpid()], allowed)
    return ratio("lower", 1.5, one_s, "the same on two cores, s", two_s)


BENCHMARKS: dict[str, Callable[[Bench], Result]] = {"model.one_core": one_core}
