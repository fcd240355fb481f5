// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/summary.h"
#include "protos/base/tensor_key.h"
#include "protos/chunk/chunk_format.h"
#include "protos/os/aligned_buffer.h"
#include "storage/store.h"

namespace msitd::compare {

// A tensor to record. A `sequence` of -1 selects the next one of the rank.
struct RecordedTensor {
  std::string op = "op";
  std::string bytes;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  int32_t rank = 0;
  int64_t token = 0;
  int64_t sequence = -1;
  int32_t call = 0;
  Io io = Io::kOutput;
  std::string index = "0";
  std::string device = "cpu:0";
  std::string placement = "";
  uint32_t chunk_flags = 0;  // Determines how much of the tensor is kept.
  RecordKind kind = RecordKind::kTensor;
  std::optional<std::string> value = {};
  // The digest that the rank sends in place of the bytes, if any. The tensor
  // then has one part.
  std::optional<Digest> claim = {};
};

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  std::string out(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

// Returns a vector of float32 values.
RecordedTensor Floats(std::string_view op, const std::vector<float>& values);

// Returns the values as truncated bfloat16, which is exact if their mantissas
// are short.
RecordedTensor Bfloats(std::string_view op, const std::vector<float>& values);

// Writes one run to a store as the daemon does: as chunks whose records have
// hashes and summaries.
class RunRecorder {
 public:
  // Creates the run. The store must outlive the recorder.
  RunRecorder(storage::Store& store, std::string run,
              std::map<std::string, std::string> labels = {});

  void Record(const RecordedTensor& tensor);

  TensorKey KeyOf(const RecordedTensor& tensor) const;

 private:
  storage::Store& store_;
  const std::string run_;
  const uint64_t stream_id_;
  AlignedBuffer buffer_;
  uint64_t chunk_count_ = 0;
  std::map<int32_t, uint64_t> next_sequence_;  // By rank.
};

}  // namespace msitd::compare
