"""Fixtures: a report of msitctl."""

import pytest

_template: list[str] = []


@pytest.fixture
def template(request: pytest.FixtureRequest) -> str:
    """The page of a report that msitctl wrote. Tests replace its data."""
    # The stubs that they import do not exist yet when this module is loaded.
    from chunk_bytes import Chunk, Record, float32
    from wire import write

    if not _template:
        daemon = request.getfixturevalue("daemon")
        for run_name in ("g", "t"):
            chunk = Chunk(run_name, [Record("op", float32(1.0), [1])])
            write(daemon.channel(), run_name, [chunk.pack()])
        daemon.ctl("compare", "run", "g", "t")
        folder = request.getfixturevalue("tmp_path")
        out = folder / "template.html"
        daemon.ctl("compare", "report", "c-000001", "--out", str(out))
        _template.append(out.read_text())
    return _template[0]
