// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/flag/archived_run.h"

#include <string_view>

namespace msitd::ctl {
namespace {

constexpr std::string_view kSchemeEnd = "://";

}  // namespace

bool PartUrl(const std::string& text, std::string& url, std::string& run) {
  const size_t scheme = text.find(kSchemeEnd);
  const size_t slash = text.rfind('/');
  if (scheme == std::string::npos || slash == std::string::npos ||
      slash <= scheme + kSchemeEnd.size() || slash + 1 == text.size()) {
    return false;
  }
  url = text.substr(0, slash);
  run = text.substr(slash + 1);
  return true;
}

bool IsUrl(const std::string& text) {
  return text.find(kSchemeEnd) != std::string::npos;
}

}  // namespace msitd::ctl
