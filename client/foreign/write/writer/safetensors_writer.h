// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/foreign/write/output_folder.h"
#include "msitd/v1/tensor_service.pb.h"

namespace msitd::write {

// Writes a .safetensors file: a header with the offsets of the tensors, and
// their bytes, the largest elements first, so that each one is aligned. The
// header is written last, into space that was reserved for it, because a tensor
// may turn out to be lost. Thread-compatible.
class SafetensorsWriter {
 public:
  using Metadata = std::vector<std::pair<std::string, std::string>>;

  // Borrows `file`, which is empty. `metadata` is additional content of the
  // header.
  SafetensorsWriter(std::vector<v1::Tensor> rows, Metadata metadata,
                    OutputFile& file);

  // The tensors in the order of the file.
  const std::vector<v1::Tensor>& rows() const { return rows_; }

  // Reserves space for the header. The caller then writes the bytes of each
  // tensor to the file, and calls End after each.
  absl::Status Begin();

  // Accepts the written bytes as the next tensor, or discards them.
  absl::Status End(bool is_whole);

  // The type of the last tensor in the file, if it is not its own type.
  const std::string& stored_as() const { return stored_as_; }

  absl::Status Finish();

 private:
  std::string Head() const;

  std::vector<v1::Tensor> rows_;
  const Metadata metadata_;
  OutputFile& file_;
  std::vector<bool> is_whole_;
  uint64_t head_bytes_ = 0;
  std::string stored_as_;
};

}  // namespace msitd::write
