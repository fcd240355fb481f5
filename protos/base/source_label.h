// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd {

// The label of a run that says which tool's files it was imported from, as
// trees::TreeKindName has it.
inline constexpr char kSourceLabel[] = "source";

// What it says of plain files, and of dumps of msit and msprobe.
inline constexpr std::string_view kFilesSource = "files";
inline constexpr std::string_view kMsitSource = "msit";
inline constexpr std::string_view kMsprobeSource = "msprobe";

// True if `labels`, a map of strings, say so of their run.
template <typename Labels>
bool IsFromMsprobe(const Labels& labels) {
  const auto source = labels.find(kSourceLabel);
  return source != labels.end() && source->second == kMsprobeSource;
}

}  // namespace msitd
