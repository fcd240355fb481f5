"""A vLLM engine on CPUs, with the Python that MSITD_VLLM_PYTHON names.

PyPI has only builds by third parties, so nothing installs one. Its
site-packages must contain msitd with the entry point.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
import released
from engine_places import places
from msitd import query

from daemon import ROOT, Daemon

PYTHON = os.environ.get("MSITD_VLLM_PYTHON", "")
TIMEOUT_S = 300
PROMPTS = ([5, 6, 7, 8, 9], [10, 11, 12])
SCRIPT = f"""
import sys, torch
from transformers import LlamaConfig, LlamaForCausalLM
from vllm import LLM, SamplingParams
if __name__ == "__main__":
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=96,
        num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
        max_position_embeddings=128)
    LlamaForCausalLM(config).save_pretrained("tiny")
    llm = LLM("tiny", enforce_eager=True, skip_tokenizer_init=True, dtype="float32",
        max_model_len=64, max_num_seqs=4, tensor_parallel_size=int(sys.argv[1]),
        worker_extension_cls="msitd.engines.vllm.WorkerExtension")
    params = SamplingParams(max_tokens=4, temperature=0, ignore_eos=True,
        detokenize=False)
    def texts():
        prompts = [{{"prompt_token_ids": ids}} for ids in {PROMPTS}]
        done = llm.generate(prompts, params, use_tqdm=False)
        return [list(each.outputs[0].token_ids) for each in done]
    recorded = texts()
    print("STOPPED", llm.collective_rpc("msitd_stop")[0]["run"])
    assert texts() == recorded
    print("STARTED", llm.collective_rpc("msitd_start",
        kwargs={{"run": "live", "op_pattern": "*mlp*"}})[0]["run"])
    assert texts() == recorded
    assert llm.collective_rpc("msitd_status")[0]["dropped"] == 0
"""

pytestmark = pytest.mark.skipif(
    not PYTHON, reason="MSITD_VLLM_PYTHON names no Python that has vLLM"
)


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_engine_records_and_generates_what_it_does_without(
    ranks: int, daemon: Daemon, tmp_path: Path
) -> None:
    (tmp_path / "serve.py").write_text(SCRIPT)
    done = subprocess.run(
        [PYTHON, "serve.py", str(ranks)],
        cwd=tmp_path,
        env={
            **os.environ,
            "MSITD_RUN": "plugin",
            "MSITD_ENDPOINT": f"unix:{daemon.socket_dir}",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    for run, part in (("plugin", "self_attn.qkv_proj"), ("live", "mlp.down_proj")):
        found = places(daemon, run, "--io", "output", "--ranks", str(ranks - 1))
        ops = {op for _, _, op, _ in found}
        assert {f"root.model.layers.{layer}.{part}" for layer in (0, 1)} <= ops
    with query.connect(f"unix:{daemon.socket_dir}/msitd.sock") as asked:
        chosen = query.select(
            ops="root.model.layers.0.mlp", io="output", requests="1", ranks=0
        )
        rows = [
            next(each.rows for each in tensor.requests if each.id == "1")
            for tensor in asked.tensors.list("plugin", chosen)
        ]
    lengths = [int(end) - int(begin) for begin, end in (r.split(":") for r in rows)]
    assert lengths == [len(PROMPTS[1]), 1, 1, 1]


def test_the_golden_file_is_that_of_this_version() -> None:
    golden = json.loads((ROOT / "tests/golden/engines/vllm.json").read_text())
    where = "import vllm; print(vllm.__version__, vllm.__path__[0])"
    said = subprocess.run(
        [PYTHON, "-c", where], capture_output=True, text=True, check=True
    ).stdout
    version, folder = said.splitlines()[-1].split(" ", 1)
    assert golden["version"] == version
    v1 = Path(folder) / "v1"
    files = {
        "WorkerWrapperBase": [("worker/worker_base.py", "WorkerWrapperBase")],
        "Worker": [
            ("worker/worker_base.py", "WorkerBase"),
            ("worker/gpu_worker.py", "Worker"),
        ],
        "GPUModelRunner": [("worker/gpu_model_runner.py", "GPUModelRunner")],
        "GPUModelRunnerV2": [("worker/gpu/model_runner.py", "GPUModelRunner")],
    }
    for name, methods in golden["classes"].items():
        found: dict[str, list[str]] = {}
        for file, kind in files[name]:
            found |= released.signatures(v1 / file, kind)
        for method, parameters in methods.items():
            assert found[method] == parameters, (name, method)
