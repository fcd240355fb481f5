// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msitd::ask {

// Returns plugin_runner.py, the program that runs in the interpreters. Valid
// for the lifetime of the process.
const char* PluginScript();

}  // namespace msitd::ask
