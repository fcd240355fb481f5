// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

// Checks of numbers on the command line. An error says briefly what is wrong
// and repeats what was typed; CLI11 puts the flag before it.
namespace msitd::msitctl {

// Takes decimal numbers from `min` to `max`.
CLI::Validator WholeNumber(int64_t min = 0, int64_t max = INT64_MAX);

// Takes what ParseSize takes, and turns it into a number of bytes.
CLI::Validator SizeValue();

// Takes finite numbers such as -1.5 or 1e-3.
CLI::Validator RealNumber();

}  // namespace msitd::msitctl
