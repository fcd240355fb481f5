// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/archived_run.h"

#include <string_view>

namespace msitd::msitctl {
namespace {

constexpr std::string_view kSchemeEnd = "://";

}  // namespace

std::vector<ArchivedRunName> ReadingsOf(const std::string& text) {
  std::vector<ArchivedRunName> out;
  // The name of a run has neither a scheme nor a comma that follows a URL.
  const size_t scheme = text.rfind(kSchemeEnd);
  if (scheme == std::string::npos || text.ends_with('/')) return out;
  const size_t first = scheme + kSchemeEnd.size();
  for (size_t slash = text.rfind('/');
       slash != std::string::npos && slash > first;
       slash = text.rfind('/', slash - 1)) {
    out.push_back({text.substr(0, slash), text.substr(slash + 1)});
  }
  return out;
}

bool IsUrl(const std::string& text) {
  return text.find(kSchemeEnd) != std::string::npos;
}

}  // namespace msitd::msitctl
