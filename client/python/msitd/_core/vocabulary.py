"""Words of the package, and the numbers that msit.h defines for them."""

# Numbers of msit_io.
IO_NUMBERS = {
    "input": 1,
    "output": 2,
    "weight": 3,
    "grad_input": 4,
    "grad_output": 5,
    "grad_weight": 6,
    "state": 7,
}

# Numbers of msit_overflow.
OVERFLOW_NUMBERS = {
    "block": 0,
    "drop-newest": 1,
    "drop-oldest-token": 2,
    "degrade": 3,
}

# Numbers of msit_if_exists.
IF_EXISTS_NUMBERS = {"fail": 1, "append": 2, "replace": 3, "new": 4}

# Numbers of msit_kind.
KIND_NUMBERS = {
    "tensor": 0,
    "number": 1,
    "text": 2,
    "none": 3,
    "dtype": 4,
    "other": 5,
    "document": 6,
    "statistics": 7,
}

# Numbers of msit_requires_grad.
REQUIRES_GRAD_NUMBERS = {None: 0, False: 1, True: 2}

# Number of the msit_level that keeps only summaries.
LEVEL_SUMMARY = 1

# The current token of the client.
TOKEN_CURRENT = -1

# Any side of an op, for queries of the capture policy.
IO_ANY = 0

# The next call of the op, as counted by the client.
CALL_AUTO = -1
