// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace msitd::ctl {

// Takes decimal numbers from 0 to the largest int64, and says what is wrong
// with others in few words.
CLI::Validator WholeNumber();

}  // namespace msitd::ctl
