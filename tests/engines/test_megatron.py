"""Ranks of Megatron-core name layers as in the whole model, and record their
placements.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from engine_places import places

from daemon import Daemon

STAGES = 2


def record(
    run: str, world_size: int, daemon: Daemon, folder: Path, *extra: str
) -> None:
    rank = Path(__file__).with_name("megatron_rank.py")
    environment = {
        **os.environ,
        "MSITD_RUN": run,
        "MSITD_ENDPOINT": f"unix:{daemon.socket_dir}",
        "OMP_NUM_THREADS": "1",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, rank, str(each), str(world_size), folder / run, *extra],
            env=environment,
        )
        for each in range(world_size)
    ]
    assert [each.wait(180) for each in ranks] == [0] * world_size


@pytest.fixture
def recorded(daemon: Daemon, tmp_path: Path) -> Daemon:
    record("whole", 1, daemon, tmp_path)
    record("stages", STAGES, daemon, tmp_path)
    return daemon


def test_stages_have_the_ops_of_the_whole_model(recorded: Daemon) -> None:
    def layers(run: str, *flags: str) -> set[tuple[int, str]]:
        found = places(recorded, run, "--io", "output", *flags)
        return {(token, op) for token, _, op, _ in found if ".layers." in op}

    whole = layers("whole")
    assert {token for token, _ in whole} == {0, 1}
    assert layers("stages") == whole
    last = {op.split(".")[3] for _, op in layers("stages", "--ranks", "1")}
    assert last == {"2", "3"}


def test_parts_of_layers_are_joined(daemon: Daemon, tmp_path: Path) -> None:
    record("whole", 1, daemon, tmp_path, "tensor")
    record("parts", 2, daemon, tmp_path, "tensor")
    flags = ("--preset", "torch", "--rule", "*: max_abs <= 1e-4")
    said = daemon.ctl("compare", "run", "whole", "parts", *flags, expect=None)
    assert said.returncode in (0, 1, 4), said.stderr
    listed = daemon.ctl_json("compare", "rows", "c-000001", "--limit", "0")["rows"]
    rows = {
        (
            row["op"].removeprefix("root.decoder.layers.0."),
            row["io"].removeprefix("IO_"),
            row["index"],
        ): row
        for row in listed
        if row.get("token", "0") == "0"
    }
    layouts = {
        ("self_attention.linear_qkv", "WEIGHT", "weight"): "concat(0)",
        ("self_attention.linear_qkv", "WEIGHT", "bias"): "concat(0)",
        ("self_attention.linear_qkv", "INPUT", "0"): "replicated",
        ("self_attention.linear_qkv", "OUTPUT", "0"): "concat(2)",
        ("self_attention.linear_qkv", "GRAD_WEIGHT", "weight"): "concat(0)",
        ("self_attention.linear_qkv", "GRAD_OUTPUT", "0"): "concat(2)",
        ("self_attention.linear_proj", "WEIGHT", "weight"): "concat(1)",
        ("self_attention.linear_proj", "WEIGHT", "bias"): "replicated",
        ("self_attention.linear_proj", "INPUT", "0"): "concat(2)",
        ("self_attention.linear_proj", "OUTPUT", "0"): "replicated",
        ("mlp.linear_fc1", "OUTPUT", "0"): "concat(2)",
        ("mlp.linear_fc1", "OUTPUT", "1"): "concat(0)",
        ("mlp.linear_fc2", "INPUT", "0"): "concat(2)",
        ("mlp.linear_fc2", "GRAD_WEIGHT", "weight"): "concat(1)",
        ("root.embedding.word_embeddings", "WEIGHT", "weight"): "concat(0)",
        ("root.embedding.word_embeddings", "OUTPUT", "0"): "replicated",
        ("root.decoder.final_layernorm", "WEIGHT", "weight"): "replicated",
    }
    found = {
        place: (row["verdict"], row["target"].get("layout", ""))
        for place, row in rows.items()
        if place in layouts
    }
    assert found == {place: ("PASS", layout) for place, layout in layouts.items()}
