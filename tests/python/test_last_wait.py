"""The end of a client whose daemon is gone."""

import time

import pytest
from msitd._core import last_wait


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_wait, "GONE_S", 0.2)
    monkeypatch.setattr(last_wait, "_SLICE_S", 0.02)


def waits(seconds: float) -> bool:
    time.sleep(seconds)
    return False


GONE = "UNAVAILABLE: connect to /run/x/ingest.sock: Connection refused"


def test_daemon_that_is_gone_is_not_waited_for() -> None:
    begin = time.monotonic()
    assert last_wait.wait_unless_gone(waits, lambda: GONE, 30.0) == 0
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    "error", ["", "RESOURCE_EXHAUSTED: the disk is full", "UNAVAILABLE: too busy"]
)
def test_slow_daemon_has_the_whole_time(error: str) -> None:
    begin = time.monotonic()
    assert last_wait.wait_unless_gone(waits, lambda: error, 0.6) == 0
    assert time.monotonic() - begin >= 0.6


def test_daemon_that_returns_has_the_rest_of_the_time() -> None:
    errors = [GONE] * 3 + [""] * 3
    begin = time.monotonic()

    def flush(seconds: float) -> bool:
        time.sleep(seconds)
        return not errors

    def error() -> str:
        return errors.pop(0) if errors else ""

    left = last_wait.wait_unless_gone(flush, error, 30.0)
    assert 25 < left <= 30.0 - (time.monotonic() - begin) + 0.1


@pytest.mark.parametrize("raised", [KeyboardInterrupt, RuntimeError])
def test_native_client_is_closed_in_any_case(raised: type[BaseException]) -> None:
    closed: list[int] = []

    class Native:
        def flush(self, _: int) -> int:
            raise raised

        def stream_error(self) -> str:
            return ""

        def close(self, timeout_us: int) -> int:
            closed.append(timeout_us)
            return 0

    with pytest.raises(raised):
        last_wait.close_native(Native(), 30.0, gives_up=True)  # type: ignore[arg-type]
    assert closed == [0]
