"""What recording costs a rank that has to share its core with the daemon."""

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
    """Lets all threads of the processes run on `cores` alone."""
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            # A thread may end meanwhile.
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), cores)


def one_core(bench: Bench) -> Result:
    """What recording adds to a prefill on one core, against the same on two cores.

    Rank and daemon share the cores, the rank has one thread of torch, and its client
    as much memory as it chooses itself.
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
                    # Brings back what the daemon has put out of the caches.
                    seconds_of_step(Way(), plain, words)
                    plain_s, full_s = (
                        seconds_of_step(Way(), model, words) for model in (plain, full)
                    )
                    client.flush(600)
                    return full_s - plain_s

                works = [lambda: added(1), lambda: added(2)]
                # Memory that is touched for the first time is not what a step costs.
                medians_in_turn(1, works, lambda: None)
                rounds = 3 * bench.scale.repetitions
                one_s, two_s = medians_in_turn(rounds, works, lambda: None)
                assert client.counters().dropped_count == 0
    finally:
        torch.set_num_threads(threads)
        pin([os.getpid()], allowed)
    return ratio("lower", 1.5, one_s, "the same on two cores, s", two_s)


BENCHMARKS: dict[str, Callable[[Bench], Result]] = {"model.one_core": one_core}
