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

                def work(model: torch.nn.Module, count: int) -> Callable[[], float]:
                    def run() -> float:
                        pin(pids, allowed[:count])
                        return seconds_of_step(Way(), model, words)

                    return run

                works = [work(model, n) for n in (1, 2) for model in (plain, full)]
                # Memory that is touched for the first time is not what a step costs.
                medians_in_turn(1, works, lambda: client.flush(600))
                rounds = 3 * bench.scale.repetitions
                seconds = medians_in_turn(rounds, works, lambda: client.flush(600))
                assert client.counters().dropped_count == 0
    finally:
        torch.set_num_threads(threads)
        pin([os.getpid()], allowed)
    plain_one, full_one, plain_two, full_two = seconds
    baseline = "the same on two cores, s"
    return ratio("lower", 1.5, full_one - plain_one, baseline, full_two - plain_two)


BENCHMARKS: dict[str, Callable[[Bench], Result]] = {"model.one_core": one_core}
