// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "client/import/formats/ge_dump.pb.h"
#include "tests/unit/client/import/formats/read_all.h"

namespace msitd::formats {

// A GE dump with this head and, behind it, these bytes.
inline std::string GeDumpOf(const ge::DumpData& head, const std::string& raw) {
  const std::string text = head.SerializeAsString();
  return BytesOf<uint64_t>({text.size()}) + text + raw;
}

// Sets what inputs and outputs have in common.
template <typename Message>
void SetTensor(int type, int format, const std::vector<uint64_t>& shape,
               const std::vector<uint64_t>& original, uint64_t size,
               Message& tensor) {
  tensor.set_data_type(type);
  tensor.set_format(format);
  for (const uint64_t dim : shape) tensor.mutable_shape()->add_dim(dim);
  for (const uint64_t dim : original) {
    tensor.mutable_original_shape()->add_dim(dim);
  }
  tensor.set_size(size);
  tensor.set_address(0x1000);
}

}  // namespace msitd::formats
