"""Checks that the last comparison of a run diverges at the expected op.

usage: msitctl compare list -o json | expect_divergence.py TARGET OP
"""

import json
import sys


def main() -> int:
    target, op = sys.argv[1:]
    comparisons = [
        c for c in json.load(sys.stdin)["comparisons"] if c["target_run"] == target
    ]
    found = comparisons[-1].get("first_divergence", {}).get("op")
    if found != op:
        print(f"first divergence: expected {op}, found {found}", file=sys.stderr)
        return 1
    print(f"\nThe first divergence is the tampered op: {op}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
