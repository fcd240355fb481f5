// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/foreign/trees/file_name.h"
#include "client/foreign/trees/ge/ge_place.h"

// What the dumps of one token become, however they come.
namespace msitd::trees {

// The op of a dump. The container has its name as it is, the name of the file
// says whether it is a dump of an overflow. `in_container` may be empty.
std::string GeOpOf(const std::string& in_container, const std::string& in_name);

// The op as a run names it. Ops of several graphs of a rank and device are told
// apart by their graph.
std::string GeOpInRun(const GePlace& place, const std::string& op,
                      bool has_graphs);

// Orders tasks by their time. Of two of one time, `folder` comes first.
std::strong_ordering CompareGeTasks(const GeFileName& a, size_t a_folder,
                                    const GeFileName& b, size_t b_folder);

// Counts the calls of each op of one token, in the order of the tasks.
// Thread-compatible.
class GeCalls {
 public:
  // Returns the number of the call that this file belongs to. Files of one task
  // with one tensor each are one call.
  int32_t Next(const std::string& device, const std::string& op,
               const GeFileName& name, size_t folder);

  // True if the task that was counted last for this op is later than `name`.
  bool IsLate(const std::string& device, const std::string& op,
              const GeFileName& name) const;

  // How many ops it remembers.
  size_t size() const { return calls_.size(); }

 private:
  struct Last {
    int32_t call = -1;
    GeForm form = GeForm::kDump;
    int64_t time = 0;
    int64_t task = 0;
    std::vector<int64_t> slice;
    size_t folder = 0;
  };

  std::map<std::pair<std::string, std::string>, Last> calls_;
};

}  // namespace msitd::trees
