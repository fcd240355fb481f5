"""Settings of all tests."""

import os


def pytest_configure() -> None:
    """Keeps the tests from starting the personal daemon of whoever runs them."""
    os.environ["MSITD_START"] = "0"
