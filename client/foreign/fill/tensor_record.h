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

// Tells a key from any other one.
std::string TextOf(const TensorKey& key);

// The same as a number.
uint64_t HashOf(const TensorKey& key);

// Where a tensor of a file belongs. What the entry leaves open, the file says:
// which input or output of the op it is. If the file does not say it either, it
// is output 0, and its name in the file is part of the op.
TensorKey KeyOf(const trees::TreeEntry& entry,
                const formats::ForeignTensor& tensor);

// A record of `key` with what `entry` knows of it: no type, no shape and no
// elements. Borrows both.
libmsit::TensorView ViewOf(const TensorKey& key, const trees::TreeEntry& entry);

// The text of the record that the statistics of a tensor become: those of its
// attributes that have a name of kKnownStatistics and a number.
std::string StatisticsOf(const formats::ForeignTensor& tensor);

// The record that a tensor of a file becomes, or that its statistics become.
// Thread-compatible.
class TensorRecord {
 public:
  // Borrows all of them.
  TensorRecord(const trees::TreeEntry& entry,
               const formats::ForeignTensor& tensor,
               libmsit::TensorSource& bytes);
  TensorRecord(const TensorRecord&) = delete;
  TensorRecord& operator=(const TensorRecord&) = delete;

  // Why it becomes none.
  const absl::Status& problem() const { return problem_; }

  const TensorKey& key() const { return key_; }
  // Valid as long as this is.
  const libmsit::TensorView& view() const { return view_; }

 private:
  const TensorKey key_;
  std::string statistics_;
  libmsit::TensorView view_;
  absl::Status problem_;
};

// Which records the tensors of one file have become. Thread-compatible.
class RecordsOfFile {
 public:
  // Why `tensor` becomes no record: it has no bytes, or the file has another
  // one with its key.
  absl::Status Add(const trees::TreeEntry& entry,
                   const formats::ForeignTensor& tensor);

 private:
  std::optional<TensorKey> first_;
  std::set<std::string> keys_;  // Of all others.
};

}  // namespace msitd::fill
