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

// What the run has of a tree: a file, a tensor of one, or values between two
// files.
struct LedgerEntry {
  // Below the folder that was imported. Empty for values.
  std::string path = {};
  // The tensor of a file whose other tensors have entries of their own.
  std::string tensor = {};
  // Of the file, before it was read. Another time or size is another file.
  uint64_t bytes = 0;
  int64_t mtime_ns = 0;
  // The hash of the values, as text. Empty for a file.
  std::string values = {};
  // A hash of the key that the tree gave it; 0 if it is not known, as in
  // ledgers that were written before there was one.
  uint64_t key = 0;
  // The records that it became.
  uint64_t record_count = 0;
  // Why it became fewer than it has; empty if it did not. The same bytes will
  // never become more.
  std::string problem = {};
};

// Returns what LedgerEntry::key is of a record with this key.
uint64_t LedgerKeyOf(const TensorKey& key);

// Remembers what of a tree the run has, so that a second import of the tree
// sends nothing twice. It is kept with the run as attachments of JSON lines,
// which hold entries only once the daemon has acknowledged their records:
//
//   {"msitd_import_ledger": 1, "source": "ge"}
//   {"file": "a/b.npy", "bytes": 8320, "mtime_ns": 1756699200000001,
//    "key": "9ae16a3b2f90404f", "records": 1}
//   {"values": "1b4f0e98...", "records": 17}
//
// A line that is not understood is passed over: its file is sent again.
// Thread-compatible.
class ImportLedger {
 public:
  // A part is written anew with each save, so it is small; then the next part
  // begins.
  static constexpr size_t kPartBytesMax = size_t{4} << 20;
  static constexpr size_t kPartsMax = 200;
  static constexpr std::string_view kOtherKey =
      "it was imported as another tensor; import into a new run";

  // `source` is that of the run.
  explicit ImportLedger(std::string source) : source_(std::move(source)) {}

  // Returns "import-ledger.jsonl", "import-ledger-2.jsonl", ...
  static std::string PartName(size_t index);

  // Takes a part that the run has, the first one first.
  void Load(std::string_view text);

  // The source of the parts that were loaded; empty if none says it.
  const std::string& loaded_source() const { return loaded_source_; }

  // For a job that imports again and again: what settles is known at once, and
  // HasKey and HasPath answer. 80 bytes more for each entry. Before Load.
  void StayCurrent() { is_current_ = true; }

  // Entries are made under `scope` from now on, and found under the same one
  // only: what the user says of the tree, such as its rank.
  void SetScope(std::string scope) { scope_ = std::move(scope); }

  // Returns whether the run has it. If so, `problem` gets that of the entry; or
  // kOtherKey, if the run has it under other keys only.
  bool Has(const LedgerEntry& entry, std::string& problem) const;

  // Whether an entry has this key, or this path, of any size and time.
  bool HasKey(uint64_t key) const { return keys_.contains(key); }
  bool HasPath(const std::string& path) const;

  // An entry whose records are on their way.
  void Add(const LedgerEntry& entry);

  // Those that were added so far are let go of: Settle says that they have
  // arrived. Marks come one at a time.
  void Mark();
  bool has_mark() const { return !marked_.empty(); }
  bool has_added() const { return !added_.empty(); }
  // RESOURCE_EXHAUSTED beyond kPartsMax.
  absl::Status Settle();
  // Lets go of what was added and did not settle: it has to be sent again.
  void Forget();

  // The part that has to be written next; nothing if all is written. Borrowed
  // until Settle.
  struct Part {
    std::string name;
    std::string_view text;
  };
  std::optional<Part> Unsaved() const;
  // The part that Unsaved returned is written.
  void SetSaved();

 private:
  struct Hasher {
    size_t operator()(const ContentHash& hash) const {
      return static_cast<size_t>(hash.low);
    }
  };

  // An entry that is not settled, as StayCurrent needs it.
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
  // The keys of each. A file that the tree has twice has two.
  std::unordered_multimap<ContentHash, uint64_t, Hasher> known_;
  // Of those known that have one.
  std::unordered_map<ContentHash, std::string, Hasher> problems_;
  // With StayCurrent.
  std::unordered_set<uint64_t> keys_;
  std::unordered_set<uint64_t> paths_;
  std::vector<Unsettled> unsettled_;
  // Lines that were added since the last mark, and before it.
  std::string added_;
  std::string marked_;
  // The parts that are not full, or not written; the first of them is part
  // `first_part_`. Full ones that are written are gone.
  std::vector<std::string> parts_;
  size_t first_part_ = 0;
  size_t loaded_count_ = 0;
  bool is_saved_ = true;
};

}  // namespace msitd::fill
