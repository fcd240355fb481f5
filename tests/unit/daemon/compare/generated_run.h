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

// A run that no memory holds: what is asked of it is made on the spot. Every
// rank has every op once at every token: so many float32, all of one value.
struct GeneratedSpec {
  struct Op {
    std::string name;
    std::vector<int64_t> shape = {4};
    std::string placement = {};
    // The same on all ranks.
    bool is_copy = false;
  };

  std::string name;
  int32_t rank_count = 1;
  int64_t token_count = 1;
  int64_t token_step = 1;
  std::vector<Op> ops = {};
  // What an op (by number) is on a rank in place of its usual value.
  std::map<std::pair<size_t, int32_t>, float> values = {};
  // Ranks are on eight devices by turns.
  bool has_devices = true;
};

std::unique_ptr<storage::RunReader> MakeGeneratedRun(const GeneratedSpec& spec);

// Opens runs of these specs.
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
