"""One rank of a small model of generated numbers, recorded to one daemon.

usage: fleet_rank.py RUN RANK WORLD SOCKET_FOLDER [--tamper]
"""

import argparse

import msitd
import numpy as np

TOKENS, LAYERS, WIDTH = 20, 12, 256
# Position of the changed value in a tampered run.
TOKEN, LAYER = 7, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("rank", type=int)
    parser.add_argument("world", type=int)
    parser.add_argument("sockets")
    parser.add_argument("--tamper", action="store_true")
    flags = parser.parse_args()
    weights = np.random.default_rng(flags.rank).standard_normal(
        (LAYERS, WIDTH, WIDTH), dtype=np.float32
    ) / np.float32(WIDTH**0.5)
    with msitd.Client(
        flags.run,
        rank=flags.rank,
        world_size=flags.world,
        endpoint=f"unix:{flags.sockets}",
    ) as client:
        for token in range(TOKENS):
            state = np.full(WIDTH, 1 + token, np.float32)
            for layer in range(LAYERS):
                place = {"op": f"layers.{layer}", "token": token, "call": 0}
                client.record(state, io="input", **place)
                state = np.tanh(weights[layer] @ state)
                if flags.tamper and (token, layer) == (TOKEN, LAYER):
                    state[3] += np.float32(0.25)
                client.record(state, io="output", **place)


if __name__ == "__main__":
    main()
