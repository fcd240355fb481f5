// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace msitd::msitctl {

// Rejects a text that contains only blanks and commas. Without a flag that
// selects or judges, everything is selected or the default applies. An empty
// value, such as that of an unset shell variable, must not have this effect.
CLI::Validator NotEmpty();

}  // namespace msitd::msitctl
