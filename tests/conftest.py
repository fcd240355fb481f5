"""Settings of all tests."""

import os


def pytest_configure() -> None:
    """Keeps the tests from starting a personal daemon in the account they run in."""
    os.environ["MSITD_START"] = "0"
