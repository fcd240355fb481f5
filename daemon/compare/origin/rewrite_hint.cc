// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/rewrite_hint.h"

#include <fmt/format.h>

#include <set>
#include <string>

namespace msitd::compare {
namespace {

// The names of the unmatched parts of an op, without the name of the op, such
// as `.a.b`.
using Parts = std::set<std::string, std::less<>>;

void AddPart(std::string_view op, std::string_view whole, Parts& parts) {
  if (op.size() > whole.size() + 1 && op[whole.size()] == '.' &&
      op.starts_with(whole)) {
    parts.emplace(op.substr(whole.size()));
  }
}

// Returns the prefix, such as `.0`, that turns each part in `plain` into one in
// `wrapped`; empty if there is none.
std::string WrapperOf(const Parts& plain, const Parts& wrapped) {
  if (plain.empty()) return "";
  for (const std::string& candidate : wrapped) {
    const size_t dot = candidate.find('.', 1);
    if (dot == std::string::npos || candidate.substr(dot) != *plain.begin()) {
      continue;
    }
    const std::string wrapper = candidate.substr(0, dot);
    bool has_all = true;
    for (const std::string& part : plain) {
      has_all = has_all && wrapped.contains(wrapper + part);
    }
    if (has_all) return wrapper;
  }
  return "";
}

std::string Escaped(std::string_view op) {
  std::string out;
  for (const char c : op) {
    const bool is_plain = c == '_' || (c >= '0' && c <= '9') ||
                          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_plain) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string RewriteHint(const std::vector<TensorPair>& pairs,
                        std::string_view op) {
  // In a shell, a quote would end the text. A backslash would refer to a group.
  if (op.find_first_of("'\\") != std::string_view::npos) return "";
  Parts golden;
  Parts target;
  for (const TensorPair& pair : pairs) {
    if (pair.target == nullptr) AddPart(pair.golden->key.op, op, golden);
    if (pair.golden == nullptr) AddPart(pair.target->key.op, op, target);
  }
  const std::string target_wrapper = WrapperOf(golden, target);
  if (!target_wrapper.empty()) {
    return fmt::format("--rewrite '^{}{}=>{}'", Escaped(op),
                       Escaped(target_wrapper), op);
  }
  const std::string golden_wrapper = WrapperOf(target, golden);
  if (golden_wrapper.empty()) return "";
  return fmt::format("--rewrite '^{}\\.=>{}{}.'", Escaped(op), op,
                     golden_wrapper);
}

}  // namespace msitd::compare
