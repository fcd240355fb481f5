"""The package against a daemon that was built, if there is one."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

import msitd
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
MSITD = Path(os.environ.get("MSITD_BIN_DIR", ROOT / "build/release/bin")) / "msitd"

pytestmark = pytest.mark.skipif(not MSITD.exists(), reason="no daemon is built")


@pytest.fixture
def endpoints(tmp_path):
    """Starts a daemon and returns where it listens: a socket and a port."""
    with tempfile.TemporaryDirectory(prefix="msitd-") as sockets:
        process = subprocess.Popen(
            [
                MSITD,
                "--data-dir",
                tmp_path / "data",
                "--socket-dir",
                sockets,
                "--listen",
                "127.0.0.1:0",
            ]
        )
        file = Path(sockets) / "endpoint"
        deadline = time.monotonic() + 30
        while not (file.exists() and file.read_text().strip()):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield file.read_text().split()
        process.terminate()
        process.wait(60)


def test_every_endpoint_takes_records(endpoints):
    for rank, endpoint in enumerate(endpoints):
        with msitd.Client("run", rank, len(endpoints), endpoint) as client:
            for i in range(100):
                assert client.record(torch.full((1000,), float(i)), op=f"op{i}")
            assert client.record(torch.zeros(3_000_000), op="large")
        counters = client.counters()
        assert counters.acknowledged_count == 101
        assert counters.dropped_count == 0


def test_second_stream_of_a_rank_is_refused_while_the_first_is_open(endpoints):
    with (
        msitd.Client("run", 0, 1, endpoints[0]),
        pytest.raises(msitd.MsitError, match="RANK_BUSY"),
    ):
        msitd.Client("run", 0, 1, endpoints[0], open_timeout=0.3)


def test_rank_may_come_back_after_it_closed(endpoints):
    for _ in range(3):
        with msitd.Client("run", 0, 1, endpoints[0]) as client:
            client.record(torch.zeros(3), op="op", call=0)
            client.next_token()


def test_another_world_size_is_refused(endpoints):
    with msitd.Client("run", 0, 2, endpoints[0]):
        pass
    with pytest.raises(msitd.MsitError, match="RUN_EXISTS"):
        msitd.Client("run", 0, 3, endpoints[0])
