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

// Converts the dumps of one token to calls of ops, for files and for streams.
namespace msitd::trees {

// Returns the op of a dump. The container has the exact name. The name of the
// file indicates a dump of an overflow. `in_container` may be empty.
std::string GeOpOf(const std::string& in_container, const std::string& in_name);

// Returns the name of the op in a run. If a rank and device has several graphs,
// the name contains the graph.
std::string GeOpInRun(const GePlace& place, const std::string& op,
                      bool has_graphs);

// Orders tasks by time, and tasks of equal time by folder.
std::strong_ordering CompareGeTasks(const GeFileName& a, size_t a_folder,
                                    const GeFileName& b, size_t b_folder);

// Numbers the calls of each op of one token, in the order of the tasks.
// Thread-compatible.
class GeCalls {
 public:
  // Returns the number of the call to which this file belongs. Files of one
  // task with one tensor each belong to one call.
  int32_t Next(const std::string& device, const std::string& op,
               const GeFileName& name, size_t folder);

  // Returns true if the last task that was counted for this op is later than
  // `name`.
  bool IsLate(const std::string& device, const std::string& op,
              const GeFileName& name) const;

  // The number of ops that are remembered.
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
