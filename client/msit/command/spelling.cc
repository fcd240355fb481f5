// SPDX-License-Identifier: Apache-2.0
#include "client/msit/command/spelling.h"

#include <set>

namespace msitd::msit_command {

void Spelling::Add(const std::string& long_name,
                   const std::string& short_name) {
  long_names_[long_name] = long_name;
  if (!short_name.empty()) long_names_[short_name] = long_name;
}

std::vector<std::string> Spelling::Rewrite(
    const std::vector<std::string>& words) const {
  std::vector<std::string> out;
  bool is_behind = false;
  for (const std::string& word : words) {
    is_behind = is_behind || word == "--";
    if (is_behind || !word.starts_with('-')) {
      out.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = LongNameOf(word.substr(0, equals));
    out.push_back(equals == std::string::npos ? name
                                              : name + word.substr(equals));
  }
  return out;
}

std::string Spelling::LongNameOf(const std::string& flag) const {
  if (const auto found = long_names_.find(flag); found != long_names_.end()) {
    return found->second;
  }
  if (!flag.starts_with("--") || flag.size() == 2) return flag;
  std::set<std::string> meant;
  for (const auto& [name, long_name] : long_names_) {
    if (name.starts_with(flag)) meant.insert(long_name);
  }
  return meant.size() == 1 ? *meant.begin() : flag;
}

}  // namespace msitd::msit_command
