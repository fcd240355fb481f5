// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/unit/client/foreign/formats/ge_dump.pb.h"
#include "tests/unit/client/foreign/formats/read_all.h"

namespace msitd::formats {

// Returns a GE dump with this head, followed by these bytes.
inline std::string GeDumpOf(const ge::DumpData& head, const std::string& raw) {
  const std::string text = head.SerializeAsString();
  return BytesOf<uint64_t>({text.size()}) + text + raw;
}

// Returns a tagged value of a CANN nano dump.
inline std::string NanoValue(uint32_t tag, const std::string& bytes) {
  return BytesOf<uint32_t>({tag, static_cast<uint32_t>(bytes.size())}) + bytes;
}

// Returns an input of a CANN nano dump with an ACL type and some tagged values.
inline std::string NanoInput(int32_t type, int32_t format, uint64_t size,
                             const std::string& values) {
  return BytesOf<int32_t>({type, format, 0}) +
         BytesOf<uint64_t>({0x1000, 0, size}) +
         BytesOf<uint32_t>({static_cast<uint32_t>(values.size())}) + values;
}

// Returns a CANN nano dump with these tagged values in its head.
inline std::string NanoDumpOf(const std::string& values,
                              const std::string& raw) {
  const std::string head = BytesOf<uint32_t>({0x5a5a5a5a, 1}) + values;
  return BytesOf<uint64_t>({head.size()}) + head + raw;
}

// Sets the fields that inputs and outputs have in common.
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
