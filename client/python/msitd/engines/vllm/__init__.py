"""Records the model in each worker of vLLM.

vLLM finds `register` by its entry point and calls it in every process. With
MSITD_RUN in the environment, the workers record from the first request on:

    MSITD_RUN=golden vllm serve MODEL --enforce-eager

`WorkerExtension` starts and stops the recording in a running engine:

    llm = LLM(MODEL, enforce_eager=True,
              worker_extension_cls="msitd.engines.vllm.WorkerExtension")
    llm.collective_rpc("msitd_start", kwargs={"run": "golden"})
"""

from msitd.engines.vllm.extension import WorkerExtension
from msitd.engines.vllm.plugin import register

__all__ = ["WorkerExtension", "register"]
