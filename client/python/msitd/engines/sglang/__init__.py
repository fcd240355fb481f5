"""A replacement for SGLang's `dumper` that records into a run.

    from msitd.engines.sglang import dumper

    dumper.dump("hidden_states", hidden_states, layer_id=3)
    dumper.step()

`import_dumps` imports the files of SGLang's own dumper into a run, as does
`python -m msitd.engines.sglang FOLDER --run R`.
"""

from msitd.engines.sglang.config import DumperConfig
from msitd.engines.sglang.dumper import Dumper, dumper
from msitd.engines.sglang.plugin import register
from msitd.engines.sglang.reader import Imported, import_dumps

__all__ = [
    "Dumper",
    "DumperConfig",
    "Imported",
    "dumper",
    "import_dumps",
    "register",
]
