// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/base/byte_codec.h"
#include "protos/base/summary.h"
#include "storage/face/types.h"

// Entries of the index as bytes that leave the store: what the index knows of
// each tensor, and where its parts lie. A batch stands for itself; it has each
// name and each shape once (docs/format/entry_batch.md).
namespace msitd::storage {

// A batch is full once it has this many of one of them. The last entry may go
// beyond the bytes, by the parts of one tensor.
inline constexpr size_t kBatchEntriesMax = 8192;
inline constexpr size_t kBatchFullBytes = size_t{1} << 20;
// No batch is larger.
inline constexpr size_t kEntryBatchBytesMax = size_t{16} << 20;

// Makes batches. Thread-compatible; keeps its memory from batch to batch.
class EntryBatchWriter {
 public:
  EntryBatchWriter();

  // Takes a tensor of the run that the batch is of; `key.run` is not kept. The
  // batch must not be full.
  void Add(const TensorInfo& tensor);

  size_t entry_count() const { return entry_count_; }
  bool is_full() const {
    return entry_count_ >= kBatchEntriesMax ||
           texts_.size() + entries_.size() >= kBatchFullBytes;
  }

  // Returns the batch, and begins another one.
  std::string Finish();

 private:
  // Returns the number of a text in the batch, which it gets if it is new.
  // `last` has the text before it in the same place of an entry.
  struct LastText {
    std::string text;
    uint64_t number = 0;
  };
  uint64_t NumberOf(std::string_view text);
  uint64_t NumberOf(std::string_view text, LastText& last);
  void PutShape(const std::vector<int64_t>& shape);
  void PutParts(const TensorInfo& tensor, bool is_mixed);
  void PutExtras(const TensorInfo& tensor);

  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };

  std::unordered_map<std::string, uint64_t, TextHash, std::equal_to<>> numbers_;
  std::string texts_;
  std::string entries_;
  ByteWriter out_{entries_};
  size_t entry_count_ = 0;
  LastText device_;
  LastText op_;
  LastText index_;
  LastText shape_;
  std::string shape_bytes_;
};

// Reads the entries of one batch, which may come from anybody: each is checked
// as the records of a producer are. Thread-compatible.
class EntryBatchReader {
 public:
  // Takes a private copy. `run` becomes the run of each key.
  //
  // Errors: DATA_LOSS for bytes that are no batch, or of a later version.
  static absl::StatusOr<EntryBatchReader> Open(std::string batch,
                                               std::string run);

  size_t entry_count() const { return entry_count_; }
  // How many bytes of the batch were read: after the last entry, all that a
  // sound batch has.
  size_t read_bytes() const { return at_; }

  // Reads the next entry into `out`, whose memory is used again; false behind
  // the last one.
  //
  // Errors: DATA_LOSS that says what is wrong; nothing can be read then.
  absl::StatusOr<bool> Next(TensorInfo& out);

 private:
  // Texts as places in `batch_`, so that the reader can be moved.
  struct TextPlace {
    size_t begin = 0;
    size_t size = 0;
    bool is_name = false;  // UTF-8 without NUL; not looked at before its use.
  };
  // What a name may be.
  struct NameRule {
    std::string_view what;
    size_t bytes_min;
    size_t bytes_max;
  };

  EntryBatchReader(std::string batch, std::string run)
      : batch_(std::move(batch)), run_(std::move(run)) {}

  absl::Status ReadTexts();
  absl::Status ReadEntry(ByteReader& in, TensorInfo& out);
  absl::Status ReadKey(ByteReader& in, TensorKey& key);
  absl::Status ReadShape(ByteReader& in, TensorInfo& out);
  absl::Status ReadParts(ByteReader& in, uint64_t bits, TensorInfo& out);
  absl::Status ReadExtras(ByteReader& in, uint64_t bits, TensorInfo& out);
  // Reads the number of a name. DATA_LOSS if there is no such text, or if it is
  // no such name.
  absl::Status ReadName(ByteReader& in, const NameRule& rule, std::string& out);
  absl::StatusOr<std::string_view> FindText(uint64_t number) const;

  std::string batch_;
  std::string run_;
  std::vector<TextPlace> texts_;
  size_t at_ = 0;  // Where the next entry begins.
  size_t entry_count_ = 0;
  size_t read_count_ = 0;
  std::vector<ContentHash> hashes_;
};

// Returns a hash over all that a comparison can see of the entry: everything
// but the run and the places of its parts. Equal entries of two runs have equal
// hashes, whatever store they lie in.
class EntryHasher {
 public:
  ContentHash Hash(const TensorInfo& tensor);

 private:
  std::string bytes_;
};

}  // namespace msitd::storage
