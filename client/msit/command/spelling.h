// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace msitd::msit_command {

// The spellings of flags that Python's argparse accepts and CLI11 does not:
// long names after one dash, such as `-gp`, and unique prefixes of a name.
class Spelling {
 public:
  // `short_name` ("-gp") may be empty.
  void Add(const std::string& long_name, const std::string& short_name);

  // Returns `words`, which follow the verb, with flags replaced by their long
  // names. Words after `--` and words that are not flags stay as they are.
  std::vector<std::string> Rewrite(const std::vector<std::string>& words) const;

 private:
  std::string LongNameOf(const std::string& flag) const;

  std::map<std::string, std::string> long_names_;  // Keyed by full name.
};

}  // namespace msitd::msit_command
