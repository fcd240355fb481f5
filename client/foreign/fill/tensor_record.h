// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "client/foreign/formats/tensor_file.h"
#include "client/foreign/trees/tree.h"
#include "client/libmsit/core/tensor_view.h"

namespace msitd::fill {

// Returns a text that identifies a key.
std::string TextOf(const TensorKey& key);

// Returns a hash that identifies a key.
uint64_t HashOf(const TensorKey& key);

// Returns the key of a tensor in a file. The file specifies what the entry
// leaves open: which input or output of the op the tensor is. If the file does
// not specify it either, the tensor is output 0, and its name in the file
// becomes part of the op.
TensorKey KeyOf(const trees::TreeEntry& entry,
                const formats::ForeignTensor& tensor);

// Returns a record of `key` with the properties that `entry` has: no type, no
// shape and no elements. Borrows both.
libmsit::TensorView ViewOf(const TensorKey& key, const trees::TreeEntry& entry);

// Returns the text of the statistics record of a tensor. It contains the
// attributes of the tensor that have a name of kKnownStatistics and a number.
std::string StatisticsOf(const formats::ForeignTensor& tensor);

// The record that is created from a tensor of a file or from its statistics.
// Thread-compatible.
class TensorRecord {
 public:
  // Borrows all arguments.
  TensorRecord(const trees::TreeEntry& entry,
               const formats::ForeignTensor& tensor,
               libmsit::TensorSource& bytes);
  TensorRecord(const TensorRecord&) = delete;
  TensorRecord& operator=(const TensorRecord&) = delete;

  // Why there is no record; OK if there is one.
  const absl::Status& problem() const { return problem_; }

  const TensorKey& key() const { return key_; }
  // Valid during the lifetime of this object.
  const libmsit::TensorView& view() const { return view_; }

 private:
  const TensorKey key_;
  std::string statistics_;
  libmsit::TensorView view_;
  absl::Status problem_;
};

// The records created from the tensors of one file. Thread-compatible.
class RecordsOfFile {
 public:
  // Adds a tensor. Returns an error if `tensor` cannot become a record: it has
  // no bytes, or the file has another tensor with the same key.
  absl::Status Add(const trees::TreeEntry& entry,
                   const formats::ForeignTensor& tensor);

 private:
  std::optional<TensorKey> first_;
  std::set<std::string> keys_;  // The keys of all other tensors.
};

}  // namespace msitd::fill
