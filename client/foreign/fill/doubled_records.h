// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "protos/base/tensor_key.h"

namespace msitd::fill {

// Finds records of one import that two of its files have: if their bytes
// differ, these are conflicts, and those of the first file stay.
// Thread-compatible.
class DoubledRecords {
 public:
  // Records that are remembered. Later ones are found beside these alone.
  static constexpr size_t kKeysMax = size_t{1} << 18;
  // Those that are listed.
  static constexpr size_t kListedMax = 20;

  struct Doubled {
    std::string file;
    std::string former;  // The file that had it before.
    std::string op;
  };

  // Takes the record of a file.
  void Add(const TensorKey& key, const std::string& file);

  // The first ones.
  const std::vector<Doubled>& listed() const { return listed_; }

 private:
  // Places in files_, by the hashes of keys.
  std::unordered_map<uint64_t, uint32_t> places_;
  std::vector<std::string> files_;
  std::vector<Doubled> listed_;
};

}  // namespace msitd::fill
