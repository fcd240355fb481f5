"""Plug-ins receive small floats with the values that other libraries read."""

import importlib.util
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

RUNNER = Path(__file__).parents[2] / "client/ask/plugin/plugin_runner.py"
BITS = {
    "float8_e4m3fn": 8,
    "float8_e8m0fnu": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2fnuz": 8,
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
}


@pytest.fixture(scope="module")
def arrays():
    spec = importlib.util.spec_from_file_location("plugin_runner", RUNNER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Arrays("numpy")


@pytest.mark.parametrize(("dtype", "bits"), BITS.items())
def test_every_pattern_has_its_value(arrays, dtype, bits):
    codes = np.arange(1 << bits, dtype=np.uint8)
    expected = codes.view(getattr(ml_dtypes, dtype)).astype(np.float32)
    np.testing.assert_array_equal(arrays.of(codes, dtype), expected)


@pytest.mark.parametrize("dtype", ["int2", "int4", "int7", "uint2", "uint3", "uint4"])
def test_small_integers_have_a_byte_each(arrays, dtype):
    low = -(1 << int(dtype[-1]) - 1) if dtype[0] == "i" else 0
    values = np.arange(low, low + (1 << int(dtype[-1])), dtype=np.int8)
    np.testing.assert_array_equal(arrays.of(values.view(np.uint8), dtype), values)


def test_a_half_complex_number_is_two_halves(arrays):
    parts = np.array([1, -2, 0.5, 65504], np.float16)
    expected = np.array([1 - 2j, 0.5 + 65504j], np.complex64)
    np.testing.assert_array_equal(
        arrays.of(parts.view(np.uint8), "complex32"), expected
    )
