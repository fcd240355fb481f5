// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/foreign/formats/file_entry.h"
#include "client/foreign/formats/ge/ge_names.h"

// The properties of a tensor in both kinds of CANN dumps.
namespace msitd::formats {

struct GeTensor {
  CannType type;
  // The type is undefined, so the tensor is delivered as bytes.
  bool has_no_type = false;
  int32_t format = 0;
  int32_t sub_format = 0;
  std::vector<int64_t> shape;
  std::vector<int64_t> original_shape;
  uint64_t size = 0;
  uint64_t address = 0;
};

// Assigns the raw bytes that follow the header to the tensors, one after
// another.
class GeRawBytes {
 public:
  // `is_whole`: the file is as long as its header states.
  GeRawBytes(std::shared_ptr<const ByteSource> source, uint64_t begin,
             bool skips_without_address, bool is_whole)
      : source_(std::move(source)),
        at_(begin),
        skips_without_address_(skips_without_address),
        is_whole_(is_whole) {}

  // Returns the location of the next `size` bytes; none if a tensor at
  // `address` has no bytes.
  StoredTensor Take(uint64_t size, uint64_t address);

  bool is_whole() const { return is_whole_; }

 private:
  const std::shared_ptr<const ByteSource> source_;
  uint64_t at_;
  const bool skips_without_address_;
  const bool is_whole_;
};

// Returns the entry of `tensor`, whose location in the file is set. Takes its
// bytes from `raw`.
FileEntry GeEntry(const GeTensor& from, ForeignTensor tensor, GeRawBytes& raw);

}  // namespace msitd::formats
