// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

// Checks of numbers on the command line. An error describes the problem briefly
// and repeats the typed text. CLI11 puts the flag before it.
namespace msitd::msitctl {

// Accepts decimal numbers from `min` to `max`.
CLI::Validator WholeNumber(int64_t min = 0, int64_t max = INT64_MAX);

// Accepts the texts that ParseSize accepts, and converts them to a number of
// bytes.
CLI::Validator SizeValue();

// Accepts finite numbers such as -1.5 or 1e-3.
CLI::Validator RealNumber();

}  // namespace msitd::msitctl
