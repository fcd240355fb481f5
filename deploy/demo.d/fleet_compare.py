"""Compares two archived runs with two workers, and checks the first divergence.

usage: fleet_compare.py GOLDEN_PLACES TARGET_PLACES FOLDER
"""

import importlib.util
import os
import sys

from fleet_rank import LAYER, TOKEN
from msitd import fleet


def main() -> int:
    golden, target, folder = sys.argv[1:]
    has_ray = importlib.util.find_spec("ray") is not None
    if not has_ray:
        print("ray is not installed, so the workers are local processes")
    done = fleet.compare(
        golden="reference",
        target="target",
        golden_source=golden,
        target_source=target,
        engine="ray" if has_ray else "processes",
        workers=2,
        out=folder,
        task_groups=5,
    )
    compared = done.comparison
    first = compared.first_divergence
    print(
        f"{compared.pass_count} pass, {compared.fail_count} fail, "
        f"{len(done.tasks)} tasks"
    )
    if first is None or (first.token, first.op) != (TOKEN, f"layers.{LAYER}"):
        print(f"unexpected first divergence: {first}")
        return 1
    print(f"first divergence: {first.op}, rank {first.rank}, token {first.token}")
    rows = fleet.read_rows(folder, ["op", "verdict", "metrics.nl2"])
    print(f"{rows.num_rows} rows in {os.path.relpath(folder)}/rows/*.parquet")
    return 0


if __name__ == "__main__":
    sys.exit(main())
