// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd {

// Label of a run that names the tool whose files it was imported from, as in
// trees::TreeKindName.
inline constexpr char kSourceLabel[] = "source";

// Values for plain files and for dumps of msit and msprobe.
inline constexpr std::string_view kFilesSource = "files";
inline constexpr std::string_view kMsitSource = "msit";
inline constexpr std::string_view kMsprobeSource = "msprobe";

// True if `labels`, a map of strings, have this value.
template <typename Labels>
bool IsFromMsprobe(const Labels& labels) {
  const auto source = labels.find(kSourceLabel);
  return source != labels.end() && source->second == kMsprobeSource;
}

}  // namespace msitd
