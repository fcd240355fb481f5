"""Stubs of the API, generated from protos/."""

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]


def make_stubs(folder: Path) -> None:
    """Generates the stubs in `folder` and makes them importable."""
    protos = ROOT / "protos"
    files = [*protos.glob("msitd/v1/*.proto"), *protos.glob("google/rpc/*.proto")]
    well_known = Path(protoc.__file__).parent / "_proto"
    status = protoc.main(
        [
            "protoc",
            f"-I{protos}",
            f"-I{well_known}",
            f"--python_out={folder}",
            f"--grpc_python_out={folder}",
            *map(str, files),
        ]
    )
    assert status == 0
    sys.path.insert(0, str(folder))
    # The stubs are msitd.v1 and the Python package is msitd; both must be
    # importable.
    import msitd

    msitd.__path__.append(str(folder / "msitd"))
