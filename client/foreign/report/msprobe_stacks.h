// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msitd/v1/tensor_service.pb.h"
#include "protos/base/tensor_key.h"

namespace msitd::report {

// The stacks of the calls of a run, for a column of the msprobe report.
// Thread-compatible.
class MsprobeStackTable {
 public:
  // Limits for the calls, and for the bytes of distinct stacks.
  static constexpr size_t kCallsMax = size_t{1} << 19;
  static constexpr size_t kStackBytesMax = size_t{64} << 20;

  // Adds the stack of a tensor, if it has one. The first stack of a call is
  // used.
  void Add(const v1::Tensor& tensor);

  bool empty() const { return by_call_.empty(); }

  // Calls beyond the limits.
  int64_t left_out_count() const { return left_out_count_; }

  // Returns the frames of a call in the direction of `key.io`, as a list in
  // Python syntax with msprobe's words: `['File a.py, line 3, in main']`. Empty
  // if there are none.
  std::string Find(const TensorKey& key) const;

 private:
  static std::string CallOf(const TensorKey& key);

  std::vector<std::string> stacks_;
  std::unordered_map<std::string, uint32_t> by_text_;
  std::unordered_map<std::string, uint32_t> by_call_;
  size_t stack_bytes_ = 0;
  int64_t left_out_count_ = 0;
};

// Returns `'a'`, as repr() of Python does.
std::string PythonText(std::string_view text);

}  // namespace msitd::report
