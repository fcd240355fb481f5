"""The Python interface of msprobe for torch.

from msitd.probe import PrecisionDebugger

debugger = PrecisionDebugger(dump_path="dump", task="statistics", level="mix")
debugger.start(model)
...
debugger.stop()
debugger.step()
"""

from msitd.probe.debugger import PrecisionDebugger
from msitd.probe.graph_dumper import AclGraphDumper
from msitd.probe.module_dumps import module_dump, module_dump_end
from msitd.probe.random_saving import random_save, random_save_end
from msitd.probe.seeding import seed_all

__all__ = [
    "AclGraphDumper",
    "PrecisionDebugger",
    "module_dump",
    "module_dump_end",
    "random_save",
    "random_save_end",
    "seed_all",
]
