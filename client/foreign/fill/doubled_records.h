// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "protos/base/tensor_key.h"

namespace msitd::fill {

// Finds records that occur in two files of one import. If their bytes differ,
// they are conflicts, and the record of the first file stays.
// Thread-compatible.
class DoubledRecords {
 public:
  // Records that are remembered. Later records are compared with these only.
  static constexpr size_t kKeysMax = size_t{1} << 18;
  // Records that are listed.
  static constexpr size_t kListedMax = 20;

  struct Doubled {
    std::string file;
    std::string former;  // The earlier file with the record.
    std::string op;
  };

  // Adds a record of a file.
  void Add(const TensorKey& key, const std::string& file);

  // The first records that were found.
  const std::vector<Doubled>& listed() const { return listed_; }

 private:
  // Indexes into files_, by the hashes of keys.
  std::unordered_map<uint64_t, uint32_t> places_;
  std::vector<std::string> files_;
  std::vector<Doubled> listed_;
};

}  // namespace msitd::fill
