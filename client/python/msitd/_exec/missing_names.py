"""Names of other tools that msitd does not replace, and their alternatives."""

from __future__ import annotations

_GRAPHS = "use get_ge_dump_config or get_fx_dump_config of msitd.llm.torchair_dump"
_COMPARE = "compare runs or folders with `msitctl compare run` or `msit llm compare`"
_ATB = "import the folder with `msitctl run import`, and read it with msitd.query"

# The last part of a name, and what to use.
ALTERNATIVES = {
    "Analyzer": _COMPARE,
    "CaseFilter": _COMPARE,
    "Synthesizer": _COMPARE,
    "TrainerMon": "record the training with msitd.register_hook(gradients=True), and "
    "read the statistics with `msitctl tensor stats`",
    "acl_save": "record the value with msitd.Client.record, outside of the graph",
    "compare": _COMPARE,
    "compare_data": _COMPARE,
    "manual_dump": "record the value with msitd.Client.record",
    "read_atb_data": _ATB,
    "set_fx_dump_config": _GRAPHS,
    "set_ge_dump_config": _GRAPHS,
    "torchair_acc_cmp": _COMPARE,
}

# The distributions that have the packages for which msitd stands, and those of
# packages that msitd names only if they are not installed.
DISTRIBUTIONS = {
    "ait_llm": "ait_llm",
    "atat": "mindstudio-probe",
    "mindietorch": "the package mindietorch of MindIE Torch, which needs CANN",
    "msit_llm": "msit_llm",
    "msprobe": "mindstudio-probe",
    "ptdbg_ascend": "ptdbg_ascend",
}

# The alternatives to whole packages.
PACKAGE_ALTERNATIVES = {
    "mindietorch": "run the torch model itself with `msitctl exec`, and dump MindIE "
    "Torch where it is installed with `msit debug dump`",
    "ptdbg_ascend": "record with PrecisionDebugger of msprobe, which became its "
    "successor and which msitd.probe implements, and compare with `msprobe compare`",
}


def text_of(name: str) -> str:
    """Returns what to use instead of a module, or of a name in a module."""
    package, _, rest = name.partition(".")
    known = [
        ALTERNATIVES[part] for part in reversed(rest.split(".")) if part in ALTERNATIVES
    ]
    if package in PACKAGE_ALTERNATIVES:
        known.append(PACKAGE_ALTERNATIVES[package])
    install = f"install {DISTRIBUTIONS[package]}, to which it belongs"
    advice = f"{known[0]}, or {install}" if known else install
    return f"{name} is not done here: {advice}"
