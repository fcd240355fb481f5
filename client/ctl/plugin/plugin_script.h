// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msitd::ctl {

// The program of the interpreters of plug-ins, plugin_runner.py. Lives as long
// as the process.
const char* PluginScript();

}  // namespace msitd::ctl
