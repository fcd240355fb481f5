// SPDX-License-Identifier: Apache-2.0
#include "client/ask/fanout/comparison_names.h"

#include <algorithm>
#include <cstddef>

#include "protos/status/status.h"

namespace msitd::ask {

std::string JoinNames(const std::vector<NodeComparison>& comparisons) {
  std::string out;
  const std::string* before = nullptr;
  for (const auto& [name, node] : comparisons) {
    if (before != nullptr) out += ',';
    if (before == nullptr || *before != name) out += name + "@";
    out += node;
    before = &name;
  }
  return out;
}

absl::StatusOr<std::vector<NodeComparison>> SplitNames(std::string_view text) {
  std::vector<NodeComparison> out;
  std::string name;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string_view part = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t at = part.find('@');
    if (at != std::string_view::npos) {
      name = part.substr(0, at);
      part.remove_prefix(at + 1);
    }
    if (name.empty() || part.empty()) {
      return MakeStatus(
          absl::StatusCode::kInvalidArgument,
          "\"{}\" is not a comparison of several daemons, such as "
          "c-000001@node1:7741,node2:7741; to list them: msitctl compare list",
          text);
    }
    out.push_back({name, std::string(part)});
  }
  return out;
}

}  // namespace msitd::ask
