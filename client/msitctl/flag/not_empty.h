// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace msitd::msitctl {

// Refuses a text without anything but blanks and commas. Without a flag that
// selects or judges, everything is selected or the default decides. An empty
// value, such as that of a shell variable that is not set, must not mean the
// same.
CLI::Validator NotEmpty();

}  // namespace msitd::msitctl
