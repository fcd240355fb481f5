// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace msitd::msit_command {

// The ways in which Python's argparse lets flags of one verb be written, and
// CLI11 does not: long names behind one dash, such as `-gp`, and the beginning
// of a name.
class Spelling {
 public:
  // `short_name` ("-gp") may be empty.
  void Add(const std::string& long_name, const std::string& short_name);

  // Returns `words`, behind the verb, with flags by their long names. Words
  // behind `--` stay as they are, and so do those that are no flag.
  std::vector<std::string> Rewrite(const std::vector<std::string>& words) const;

 private:
  std::string LongNameOf(const std::string& flag) const;

  std::map<std::string, std::string> long_names_;  // By any full name.
};

}  // namespace msitd::msit_command
