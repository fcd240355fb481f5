"""Features of msprobe that msitd does not support, and their alternatives."""

from __future__ import annotations

REFUSED_TASKS = {
    "nan_check": "use the task overflow_check, or dump statistics and ask `msitctl "
    "tensor find --where 'nan_count > 0 or inf_count > 0'`",
    "diff_check": "dump tensors, and follow them with `msitctl compare run --follow`",
    "acc_check": "dump tensors, and compare the run with one that was made on a CPU",
    "run_ut": "dump tensors, and compare the run with one that was made on a CPU",
    "free_benchmark": "compare the run with one that was made with other kernels",
    "grad_probe": "dump level L0, and look at the gradients of parameters "
    "(grad_weight) with `msitctl tensor stats`",
    "exception_dump": "records of a program that ended are in the run anyway",
}

_ONLINE = "tensors go to a daemon anyway: set MSITD_ENDPOINT"

REFUSED_KEYS = {
    "L2": "it needs the kernels of an NPU; `libmsit_acl.so` brings their dumps into a "
    "run",
    "acl_config": "it belongs to level L2, which needs the kernels of an NPU",
    "backward_input": "it belongs to level L2, which needs the kernels of an NPU",
    "file_format": "files are .pt; `msitctl run export --format npy` writes others",
    "bench_path": "compare the runs with `msitctl compare run --follow`",
    "online_run_ut": _ONLINE,
    "nfs_path": _ONLINE,
    "host": _ONLINE,
    "port": _ONLINE,
    "tls_path": "tensors go to a daemon anyway: set MSITD_ENDPOINT and MSITD_CA_FILE",
    "check_mode": "aicore and atomic need the registers of an NPU; NaN and infinities "
    "are what overflow_check looks for here",
}
