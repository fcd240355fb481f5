// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msitd::ctl {

// The label of a run that says which tool's files it was imported from, as
// trees::TreeKindName has it.
inline constexpr char kSourceLabel[] = "source";

}  // namespace msitd::ctl
