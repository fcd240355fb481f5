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

// Encodes index entries for use outside the store: the data of each tensor and
// the locations of its parts. A batch is self-contained and has each name and
// each shape only once (docs/format/entry_batch.md).
namespace msitd::storage {

// A batch is full when it reaches one of these limits. The last entry may
// exceed the limit of bytes by the parts of one tensor.
inline constexpr size_t kBatchEntriesMax = 8192;
inline constexpr size_t kBatchFullBytes = size_t{1} << 20;
// Maximum size of a batch.
inline constexpr size_t kEntryBatchBytesMax = size_t{16} << 20;

// Builds batches. Thread-compatible; reuses its memory for each batch.
class EntryBatchWriter {
 public:
  EntryBatchWriter();

  // Adds a tensor of the run of the batch; `key.run` is not stored. The batch
  // must not be full.
  void Add(const TensorInfo& tensor);

  size_t entry_count() const { return entry_count_; }
  bool is_full() const {
    return entry_count_ >= kBatchEntriesMax ||
           texts_.size() + entries_.size() >= kBatchFullBytes;
  }

  // Returns the batch, and begins another one.
  std::string Finish();

 private:
  // Returns the number of a text in the batch, which is added if it is new.
  // `last` is the text in the same field of the previous entry.
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

// Reads the entries of one batch. The batch is untrusted: each entry is checked
// like the records of a producer. Thread-compatible.
class EntryBatchReader {
 public:
  // Takes ownership of the batch. `run` becomes the run of each key.
  //
  // Errors: DATA_LOSS for bytes that are not a batch, or for a later version.
  static absl::StatusOr<EntryBatchReader> Open(std::string batch,
                                               std::string run);

  size_t entry_count() const { return entry_count_; }
  // Number of bytes of the batch that were read. After the last entry of a
  // valid batch, this is its size.
  size_t read_bytes() const { return at_; }

  // Reads the next entry into `out`, whose memory is reused; false after the
  // last entry.
  //
  // Errors: DATA_LOSS with a description of the fault; nothing more can be read
  // after that.
  absl::StatusOr<bool> Next(TensorInfo& out);

 private:
  // Texts are stored as positions in `batch_`, so that the reader can be moved.
  struct TextPlace {
    size_t begin = 0;
    size_t size = 0;
    bool is_name = false;  // UTF-8 without NUL; checked at its first use.
  };
  // Requirements on a name.
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
  // Reads the number of a name. Returns DATA_LOSS if the text does not exist or
  // is not a valid name.
  absl::Status ReadName(ByteReader& in, const NameRule& rule, std::string& out);
  absl::StatusOr<std::string_view> FindText(uint64_t number) const;

  std::string batch_;
  std::string run_;
  std::vector<TextPlace> texts_;
  size_t at_ = 0;  // Position of the next entry.
  size_t entry_count_ = 0;
  size_t read_count_ = 0;
  std::vector<ContentHash> hashes_;
};

// Returns a hash over all data of the entry that a comparison uses: everything
// except the run and the locations of its parts. Equal entries of two runs have
// equal hashes, regardless of the store.
class EntryHasher {
 public:
  ContentHash Hash(const TensorInfo& tensor);

 private:
  std::string bytes_;
};

}  // namespace msitd::storage
