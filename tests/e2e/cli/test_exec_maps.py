"""msitctl exec --map-device and --map-path: scripts for unavailable devices and
paths.
"""

import sys
from pathlib import Path

import pytest
from executing import execute, places, script

from daemon import Daemon

pytestmark = pytest.mark.usefixtures("place")

NPU = ("--map-device", "npu=cpu")
X = "x = torch.ones(2, 4)\n"


SCRIPT = """
import torch_npu
import torch_npu.npu.utils

x = torch.ones(2, 4)

# Devices.
assert model.to("npu:0").fc.weight.device.type == "cpu"
assert model.npu(1).to(device="npu").fc.weight.device.type == "cpu"
with torch.device("npu:1"): assert torch.ones(1).device.type == "cpu"
torch.randn(2, generator=torch.Generator(device="npu"), device="npu")
assert isinstance(torch.default_generator, torch.Generator)

from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(2) as threads:
    made = threads.submit(lambda: torch.ones(2, device="npu").npu().device.type)
    assert made.result() == "cpu"

# Mixed precision.
with torch.autocast("npu", dtype=torch.bfloat16):
    assert model.fc(x).dtype == torch.bfloat16
with torch.npu.amp.autocast(dtype=torch.bfloat16):
    assert model.fc(x).dtype == torch.bfloat16
torch.npu.amp.GradScaler().scale(model.fc(x).sum()).backward()
assert model.fc.weight.grad.abs().sum() > 0

# Checkpoints.
torch.save(model.state_dict(), "file.pt")
for where in ("npu:0", torch.device("npu"), {"cpu": "npu:0"}):
    torch.load("file.pt", map_location=where)

# What has no meaning here.
torch.npu.Event(enable_timing=True).record()
torch.npu.current_stream().synchronize()
free, total = torch.npu.mem_get_info()
with torch.npu.stream(torch.npu.Stream()): pass
torch_npu.npu.set_compile_mode(jit_compile=False)
torch_npu.npu.config.allow_internal_format = False
assert torch_npu.npu_format_cast(x, 29) is x

# Compilers, which ask for devices.
torch.compile(model.npu(), backend="aot_eager")(x)
torch.set_default_device("npu")
assert torch.ones(1).device.type == "cpu"
try:
    torch_npu.npu_rms_norm(x, x)
except NotImplementedError as error:
    assert "torch_npu.npu_rms_norm is not here" in str(error)
else:
    raise AssertionError
"""


def test_a_script_for_an_npu_runs_without_one() -> None:
    script(SCRIPT, *NPU)


def test_ranks_of_an_npu_speak_by_gloo() -> None:
    script(
        "import torch.distributed as dist\n"
        "for backend in ('hccl', 'cpu:gloo,npu:hccl'):\n"
        "    dist.init_process_group(backend, init_method='tcp://127.0.0.1:0',"
        " rank=0, world_size=1)\n"
        "    x = torch.ones(2, device='npu')\n"
        "    dist.all_reduce(x)\n"
        "    assert dist.get_backend() == 'gloo'\n"
        "    dist.all_reduce(x, group=dist.new_group([0], backend='hccl'))\n"
        "    dist.destroy_process_group()\n",
        *NPU,
    )


def test_what_has_cuda_mean_npu_has_it_mean_the_mapped_one(daemon: Daemon) -> None:
    script(
        "import torch_npu\n"
        "from torch_npu.contrib import transfer_to_npu\n"
        "torch.cuda.set_device(0)\n"
        "torch.cuda.synchronize()\n"
        "model.cuda()(torch.ones(2, 4, device='cuda'))\n",
        *NPU,
    )
    assert (0, 0, "root.fc", "output 0") in places(daemon)


@pytest.mark.parametrize("ids", ["", "device_ids=[0]", "device_ids=[0, 1, 2, 3]"])
def test_replicas_on_devices_that_are_mapped_are_the_model(
    ids: str, daemon: Daemon
) -> None:
    script(
        "import torch_npu\n"
        + X
        + f"replicas = torch.nn.DataParallel(model.npu(), {ids}).npu()\n"
        + "assert replicas.module is model\n"
        + "assert replicas(x.npu()).equal(model(x))\n"
        + "called = torch.nn.parallel.data_parallel(model, x.npu(), [0, 1])\n"
        + "assert called.equal(model(x))\n",
        *NPU,
    )
    found = {op for _, _, op, place in places(daemon) if place == "output 0"}
    assert {"root", "root.fc"} <= found


def test_paths_are_mapped(place: Path) -> None:
    (place / "here/deep").mkdir(parents=True)
    (place / "here/a.txt").write_text("text")
    text = """
import os, pathlib, torch
assert open("/no/such/a.txt").read() == "text"
assert pathlib.Path("/no/such/a.txt").read_text() == "text"
assert os.path.isdir("/no/such/deep") and sorted(os.listdir("/no/such")) == ["a.txt", "deep"]
os.makedirs("/no/such/made/more", exist_ok=True)
torch.save(torch.ones(2), "/no/such/made/t.pt")
assert torch.load("/no/such/made/t.pt").sum() == 2
assert not os.path.exists("/no/suchlike")
with open(file="/no/such/b.txt", mode="w") as file: file.write("b")
os.rename("/no/such/b.txt", "/no/such/c.txt")
"""
    (place / "paths.py").write_text(text)
    execute(sys.executable, "paths.py", flags=("--map-path", "/no/such=here"))
    assert {path.name for path in (place / "here").iterdir()} == {
        "a.txt",
        "c.txt",
        "deep",
        "made",
    }


def test_cuda_can_be_mapped(daemon: Daemon) -> None:
    script(
        "model = model.to('cuda')\n"
        "x = torch.ones(2, 4, device=torch.device('cuda', 1)).cuda()\n"
        "assert x.device.type == 'cpu'\n"
        "model(x)\n",
        "--map-device",
        "cuda=cpu",
    )
    assert (0, 0, "root.fc", "output 0") in places(daemon)
    done = script("pass", "--map-device", "npu=nonsense")
    assert "nothing is recorded: --map-device" in done.stderr


SAFETENSORS = '''
"""As that package: what opens files, and its functions, is not Python's."""
import posix

class safe_open:
    def __init__(self, filename, framework, device="cpu"):
        posix.close(posix.open(filename, posix.O_RDONLY))

def serialize_file(tensors, filename, metadata=None):
    posix.close(posix.open(filename, posix.O_CREAT | posix.O_WRONLY))
'''

TOKENIZERS = """
import posix

class Tokenizer:
    @staticmethod
    def from_file(path):
        posix.close(posix.open(path, posix.O_RDONLY))
        return 7
"""


def test_packages_that_open_files_themselves_find_them(place: Path) -> None:
    (place / "here").mkdir()
    (place / "here/a.safetensors").write_text("")
    (place / "safetensors.py").write_text(SAFETENSORS)
    (place / "tokenizers.py").write_text(TOKENIZERS)
    (place / "here/tokenizer.json").write_text("")
    text = """
from safetensors import safe_open, serialize_file
from tokenizers import Tokenizer
safe_open("/no/such/a.safetensors", framework="pt")
serialize_file({}, filename="/no/such/b.safetensors")
assert Tokenizer.from_file("/no/such/tokenizer.json") == 7
"""
    (place / "load.py").write_text(text)
    execute(sys.executable, "load.py", flags=("--map-path", "/no/such=here"))
    assert (place / "here/b.safetensors").exists()


def test_a_path_stays_mapped_in_another_folder(place: Path) -> None:
    (place / "here/deep").mkdir(parents=True)
    (place / "here/a.txt").write_text("text")
    text = """
import os, shutil, subprocess, sys
os.chdir("/")
assert open("/no/such/a.txt").read() == "text"
child = "assert open('/no/such/a.txt').read() == 'text'"
subprocess.run([sys.executable, "-c", child], check=True)
shutil.copytree("/no/such", "/no/such2")
shutil.rmtree("/no/such/deep")
assert os.stat in os.supports_dir_fd
"""
    (place / "move.py").write_text(text)
    maps = ("--map-path", "/no/such=here", "--map-path", "/no/such2=there")
    execute(sys.executable, "move.py", flags=maps)
    assert {path.name for path in (place / "here").iterdir()} == {"a.txt"}
    assert {path.name for path in (place / "there").iterdir()} == {"a.txt", "deep"}


TORCHAIR = """
import torch_npu
import torchair
from msit_llm.dump import torchair_dump
from torch_npu.dynamo import torchair as inner
import torch_npu.dynamo.torchair as same
assert inner.CompilerConfig is same.CompilerConfig is torchair.CompilerConfig

config = torchair.CompilerConfig()
config.experimental_config.frozen_parameter = True
assert torchair_dump.get_ge_dump_config(dump_path="dump", compiler_config=config) is config
assert config.dump_config.enable_dump is True
assert config.debug.graph_dump.type == "txt"
config = torchair_dump.get_fx_dump_config(dump_path="dump")
backend = torchair.get_npu_backend(compiler_config=config)
compiled = torch.compile(model.npu(), backend=backend, dynamic=False, fullgraph=True)
x = torch.ones(2, 4, device="npu:0")
with torch.no_grad():
    assert compiled(x).equal(torch.relu(model.fc(x)))
"""


def test_scripts_for_torchair_run_up_to_what_a_device_dumps(place: Path) -> None:
    done = script(TORCHAIR, *NPU)
    assert done.stderr.count("TorchAir needs a device: graphs run as torch") == 1
    assert {path.name for path in Path("dump").iterdir()} == {
        "msit_fx_dump",
        "msit_ge_dump",
    }


def test_without_a_map_there_is_no_torchair(place: Path) -> None:
    done = script("import torchair\n", expect=1)
    assert "No module named 'torchair'" in done.stderr
