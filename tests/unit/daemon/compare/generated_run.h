// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// A run that does not fit into memory, so its data is generated on request.
// Every rank has each op once at every token. Each tensor has this many float32
// elements, which are all equal.
struct GeneratedSpec {
  struct Op {
    std::string name;
    std::vector<int64_t> shape = {4};
    std::string placement = {};
    // Whether the tensor is the same on all ranks.
    bool is_copy = false;
  };

  std::string name;
  int32_t rank_count = 1;
  int64_t token_count = 1;
  int64_t token_step = 1;
  std::vector<Op> ops = {};
  // Values of ops (by number) on single ranks that replace their usual values.
  std::map<std::pair<size_t, int32_t>, float> values = {};
  // Whether the ranks are distributed over eight devices.
  bool has_devices = true;
};

std::unique_ptr<storage::RunReader> MakeGeneratedRun(const GeneratedSpec& spec);

// Opens runs with these specifications.
class GeneratedRuns final : public storage::RunReaders {
 public:
  explicit GeneratedRuns(std::vector<GeneratedSpec> specs)
      : specs_(std::move(specs)) {}

  absl::StatusOr<std::unique_ptr<storage::RunReader>> OpenRun(
      std::string_view name) override;

 private:
  const std::vector<GeneratedSpec> specs_;
};

}  // namespace msitd::compare
