// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "protos/base/summary.h"
#include "protos/base/tensor_key.h"

namespace msitd::fill {

// A part of a tree that the run has: a file, a tensor of a file, or the values
// between two files.
struct LedgerEntry {
  // Relative to the imported folder. Empty for values.
  std::string path = {};
  // Set if other tensors of the file have entries of their own.
  std::string tensor = {};
  // Size and time of the file before it was read. A file with another size or
  // time is a different file.
  uint64_t bytes = 0;
  int64_t mtime_ns = 0;
  // The hash of the values, as text. Empty for a file.
  std::string values = {};
  // The hash of the key that the tree assigned to it. 0 if it is not known, as
  // in ledgers of older versions.
  uint64_t key = 0;
  // The number of records created from it.
  uint64_t record_count = 0;
  // Why some of its records are missing; empty if none are. Importing the same
  // bytes again would not add any.
  std::string problem = {};
};

// Returns LedgerEntry::key for a record with this key.
uint64_t LedgerKeyOf(const TensorKey& key);

// Remembers which parts of a tree the run has, so that a second import of the
// tree sends nothing twice. The ledger is stored with the run as attachments of
// JSON lines. They contain an entry only once the daemon has acknowledged its
// records:
//
//   {"msitd_import_ledger": 1, "source": "ge"}
//   {"file": "a/b.npy", "bytes": 8320, "mtime_ns": 1756699200000001,
//    "key": "9ae16a3b2f90404f", "records": 1}
//   {"values": "1b4f0e98...", "records": 17}
//
// A line that cannot be parsed is ignored, so its file is sent again.
// Thread-compatible.
class ImportLedger {
 public:
  // Each save rewrites a whole part, so a part is small. When it is full, the
  // next part begins.
  static constexpr size_t kPartBytesMax = size_t{4} << 20;
  static constexpr size_t kPartsMax = 200;
  static constexpr std::string_view kOtherKey =
      "it was already imported as a different tensor; import into a new run";

  // `source` is that of the run.
  explicit ImportLedger(std::string source) : source_(std::move(source)) {}

  // Returns "import-ledger.jsonl", "import-ledger-2.jsonl", ...
  static std::string PartName(size_t index);

  // Loads a part from the run. Parts must be loaded in order.
  void Load(std::string_view text);

  // The source of the loaded parts; empty if none of them has one.
  const std::string& loaded_source() const { return loaded_source_; }

  // For a job that imports repeatedly: settled entries are available
  // immediately, and HasKey and HasPath can be used. Takes 80 more bytes for
  // each entry. Call it before Load.
  void StayCurrent() { is_current_ = true; }

  // Sets the scope of entries: the user's settings for the tree, such as its
  // rank. Entries are only found under the scope in which they were added.
  void SetScope(std::string scope) { scope_ = std::move(scope); }

  // Returns whether the run has the entry. If so, `problem` receives the
  // problem of the entry, or kOtherKey if the run has it only under other keys.
  bool Has(const LedgerEntry& entry, std::string& problem) const;

  // Return whether an entry has this key, or this path with any size and time.
  bool HasKey(uint64_t key) const { return keys_.contains(key); }
  bool HasPath(const std::string& path) const;

  // Adds an entry whose records have been sent.
  void Add(const LedgerEntry& entry);

  // Marks the entries that were added so far; Settle confirms that they have
  // arrived. There is at most one mark at a time.
  void Mark();
  bool has_mark() const { return !marked_.empty(); }
  bool has_added() const { return !added_.empty(); }
  // Returns RESOURCE_EXHAUSTED beyond kPartsMax.
  absl::Status Settle();
  // Removes entries that were added and not settled. They have to be sent
  // again.
  void Forget();

  // Returns the part that has to be written next; nothing if all parts are
  // written. Borrowed until Settle.
  struct LedgerPart {
    std::string name;
    std::string_view text;
  };
  std::optional<LedgerPart> Unsaved() const;
  // Reports that the part returned by Unsaved has been written.
  void SetSaved();

 private:
  struct Hasher {
    size_t operator()(const ContentHash& hash) const {
      return static_cast<size_t>(hash.low);
    }
  };

  // An entry that is not settled, for StayCurrent.
  struct Unsettled {
    LedgerEntry entry;
    bool is_marked = false;
  };

  ContentHash KeyOf(const LedgerEntry& entry, std::string_view scope) const;
  uint64_t PathHash(const std::string& path, std::string_view scope) const;
  void Know(const LedgerEntry& entry, std::string_view scope);
  std::string LineOf(const LedgerEntry& entry) const;
  void LoadLine(std::string_view line);

  const std::string source_;
  bool is_current_ = false;
  std::string loaded_source_;
  std::string scope_;
  // The keys of each entry. A file that occurs twice in the tree has two.
  std::unordered_multimap<ContentHash, uint64_t, Hasher> known_;
  // The problems of known entries.
  std::unordered_map<ContentHash, std::string, Hasher> problems_;
  // With StayCurrent.
  std::unordered_set<uint64_t> keys_;
  std::unordered_set<uint64_t> paths_;
  std::vector<Unsettled> unsettled_;
  // Lines that were added after the last mark, and before it.
  std::string added_;
  std::string marked_;
  // The parts that are not full or not written. The first of them is part
  // `first_part_`. Full parts that are written are removed.
  std::vector<std::string> parts_;
  size_t first_part_ = 0;
  size_t loaded_count_ = 0;
  bool is_saved_ = true;
};

}  // namespace msitd::fill
