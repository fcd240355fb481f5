// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/foreign/formats/file_entry.h"
#include "client/foreign/formats/ge/ge_names.h"

// What both kinds of dumps of CANN say of a tensor.
namespace msitd::formats {

struct GeTensor {
  CannType type;
  // The type is undefined: it comes as bytes.
  bool has_no_type = false;
  int32_t format = 0;
  int32_t sub_format = 0;
  std::vector<int64_t> shape;
  std::vector<int64_t> original_shape;
  uint64_t size = 0;
  uint64_t address = 0;
};

// Hands the raw bytes behind the head out, one tensor after the other.
class GeRawBytes {
 public:
  // `is_whole`: the file is as long as its head says.
  GeRawBytes(std::shared_ptr<const ByteSource> source, uint64_t begin,
             bool skips_without_address, bool is_whole)
      : source_(std::move(source)),
        at_(begin),
        skips_without_address_(skips_without_address),
        is_whole_(is_whole) {}

  // Where the next `size` bytes lie; none if a tensor at `address` has none.
  StoredTensor Take(uint64_t size, uint64_t address);

  bool is_whole() const { return is_whole_; }

 private:
  const std::shared_ptr<const ByteSource> source_;
  uint64_t at_;
  const bool skips_without_address_;
  const bool is_whole_;
};

// Makes the entry of `tensor`, which has its place in the file already, and
// takes its bytes from `raw`.
FileEntry GeEntry(const GeTensor& from, ForeignTensor tensor, GeRawBytes& raw);

}  // namespace msitd::formats
