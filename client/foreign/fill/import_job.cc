// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/import_job.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <span>
#include <utility>

#include "client/foreign/fill/scalar_text.h"
#include "client/foreign/fill/tensor_record.h"
#include "client/foreign/formats/byte_source.h"
#include "client/foreign/formats/tensor_file.h"
#include "client/foreign/trees/json/numbers.h"
#include "protos/base/attachment_limits.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::fill {
namespace {

// Values are sent and remembered in blocks of this size.
constexpr size_t kBlockValuesMax = 1024;
constexpr uint64_t kBlockBytesMax = uint64_t{1} << 20;

// Smaller files are read quickly enough without reading ahead.
constexpr uint64_t kReadAheadBytesMin = uint64_t{256} << 10;

// Reads the properties that distinguish a file from another version of it.
absl::Status Describe(const std::string& path, LedgerEntry& entry) {
  struct stat about = {};
  if (::stat(path.c_str(), &about) != 0) return ErrnoStatus(errno, "stat");
  entry.bytes = static_cast<uint64_t>(about.st_size);
  entry.mtime_ns =
      about.st_mtim.tv_sec * int64_t{1'000'000'000} + about.st_mtim.tv_nsec;
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadAttachmentFile(const std::string& path) {
  MSITD_ASSIGN_OR_RETURN(const auto file, formats::FileSource::Open(path));
  if (file->size() > kAttachmentBytesMax) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "the maximum size of an attachment is {} bytes",
                      kAttachmentBytesMax);
  }
  return file->ReadText(0, file->size());
}

void AddToHash(const trees::TreeEntry& value, std::string& text) {
  const TensorKey& key = value.key;
  text += fmt::format(
      "{} {} {} {} {} {} {} {} {}{} {}{} {}{} {}{} {}{}\n", key.rank, key.token,
      key.call, static_cast<int>(key.io), static_cast<int>(value.kind),
      static_cast<int>(value.dtype),
      value.requires_grad.has_value() ? static_cast<int>(*value.requires_grad)
                                      : -1,
      fmt::join(value.shape, ","), key.device.size(), key.device, key.op.size(),
      key.op, key.index.size(), key.index, value.text.size(), value.text,
      value.stack.size(), value.stack);
}

// Returns one ledger entry for all of `values`.
LedgerEntry EntryOf(const std::vector<trees::TreeEntry>& values) {
  std::string text;
  for (const trees::TreeEntry& value : values) AddToHash(value, text);
  LedgerEntry entry;
  entry.values = HashText(chunk::HashBytes(std::as_bytes(std::span(text))));
  entry.record_count = values.size();
  return entry;
}

std::string NameOf(const trees::TreeEntry& entry) {
  return fmt::format("{} of {}", RecordKindName(entry.kind), entry.key.op);
}

// Returns the name of the tensor in its file; empty if the file has no name.
std::string NameOf(const formats::ForeignTensor& tensor) {
  if (!tensor.name.empty() || tensor.io == Io::kUnspecified) return tensor.name;
  return fmt::format("{}{}{} {}", tensor.op, tensor.op.empty() ? "" : " ",
                     IoName(tensor.io), tensor.index);
}

// The tensors of one file that were not imported, by reason.
class LostTensors {
 public:
  void Add(const std::string& name, const absl::Status& why) {
    if (ImportProblems::MayPass(why)) passing_ = why.code();
    for (Reason& reason : reasons_) {
      if (reason.status == why) {
        ++reason.count;
        return;
      }
    }
    if (reasons_.size() < kReasonsMax) {
      reasons_.push_back({name, why, 1});
    } else {
      ++other_count_;
    }
  }

  // Returns OK if no tensor was lost. Otherwise the message names the first
  // tensor with each reason and counts the others. The code is that of a
  // problem that may pass, if there is one, because the file has to be read
  // again then.
  absl::Status ToStatus() const {
    if (reasons_.empty()) return absl::OkStatus();
    std::string text;
    for (const Reason& reason : reasons_) {
      const absl::Status named = reason.name.empty()
                                     ? reason.status
                                     : Annotate(reason.status, reason.name);
      text += fmt::format("{}{}", text.empty() ? "" : "; ", Message(named));
      if (reason.count > 1)
        text += fmt::format(" (and {} more)", reason.count - 1);
    }
    if (other_count_ > 0) {
      text += fmt::format("; {} more for other reasons", other_count_);
    }
    return absl::Status(passing_.value_or(reasons_.front().status.code()),
                        text);
  }

 private:
  static constexpr size_t kReasonsMax = 8;
  struct Reason {
    std::string name;  // Empty if the file has no name for the tensor.
    absl::Status status;
    int64_t count = 0;
  };

  std::vector<Reason> reasons_;
  int64_t other_count_ = 0;
  std::optional<absl::StatusCode> passing_;
};

std::string ScopeOf(const ImportOptions& options) {
  std::string scope;
  if (options.rank) scope += fmt::format("rank {} ", *options.rank);
  if (options.token) scope += fmt::format("token {} ", *options.token);
  if (!options.device.empty()) scope += "device " + options.device + " ";
  if (!options.prefix.empty()) scope += "prefix " + options.prefix + " ";
  if (options.deriver != nullptr) {
    scope += fmt::format("keep {} ", options.deriver->id());
  }
  if (!scope.empty()) scope.pop_back();
  return scope;
}

}  // namespace

ImportJob::ImportJob(ImportOptions options, ImportTarget& target,
                     ImportLedger& ledger)
    : options_(std::move(options)), target_(target), ledger_(ledger) {
  ledger_.SetScope(ScopeOf(options_));
}

ImportJob::~ImportJob() = default;

absl::Status ImportJob::Import(trees::Tree& tree, const std::string& root) {
  if (options_.rank && tree.ranks().size() > 1) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{} has {} ranks, so a rank cannot be set", root,
                      tree.ranks().size());
  }
  root_ = root;
  absl::Status status = ImportAttachments(tree);
  if (status.ok()) status = ImportEntries(tree);
  if (status.ok()) status = SendValues();
  if (status.ok()) status = options_.keeps_streams ? SettleKept() : CloseRank();
  if (status.ok()) status = SaveLedger(/*must=*/true);
  if (!status.ok() && options_.keeps_streams) {
    EndStreams();
  } else if (!status.ok()) {
    SalvageRank(/*waits=*/absl::IsCancelled(status));
  }
  values_ = {};
  TakeProblems(tree);
  return status;
}

absl::Status ImportJob::ImportEntries(trees::Tree& tree) {
  // The disk reads the next file while this one is sent.
  std::optional<trees::TreeEntry> here;
  for (const trees::TreeEntry* next = tree.Next();; next = tree.Next()) {
    std::optional<trees::TreeEntry> there;
    if (next != nullptr) {
      there = Renamed(options_, *next);
      ReadAhead(*there);
    }
    if (here) MSITD_RETURN_IF_ERROR(ImportEntry(*std::move(here)));
    MSITD_RETURN_IF_ERROR(SaveInTime());
    TakeProblems(tree);
    if (next == nullptr) return absl::OkStatus();
    here = std::move(there);
  }
}

absl::Status ImportJob::ImportAttachments(const trees::Tree& tree) {
  for (const trees::TreeAttachment& attachment : tree.attachments()) {
    LedgerEntry in_ledger{.path = Below(attachment.file),
                          .tensor = "attachment " + attachment.name};
    std::string former;
    absl::Status problem = Describe(attachment.file, in_ledger);
    if (problem.ok() && Has(in_ledger, former)) {
      ++counts_.skipped_file_count;
      continue;
    }
    absl::StatusOr<std::string> bytes = std::string();
    if (problem.ok()) {
      bytes = ReadAttachmentFile(attachment.file);
    } else {
      bytes = problem;
    }
    if (!bytes.ok()) {
      problems_.Add(attachment.file, bytes.status());
      continue;
    }
    if (!options_.is_dry_run) {
      MSITD_RETURN_IF_ERROR(
          target_.Attach(attachment.name, attachment.media_type, *bytes));
      Remember(in_ledger);
    }
    ++counts_.attachment_count;
  }
  // The daemon has all records.
  ledger_.Mark();
  return ledger_.Settle();
}

trees::TreeEntry Renamed(const ImportOptions& options, trees::TreeEntry entry) {
  if (options.rank) entry.key.rank = *options.rank;
  if (options.token) entry.key.token = *options.token;
  if (entry.key.device.empty()) entry.key.device = options.device;
  if (entry.kind != RecordKind::kDocument) {
    entry.key.op = options.prefix + entry.key.op;
  }
  return entry;
}

void ImportJob::ReadAhead(const trees::TreeEntry& entry) const {
  if (entry.file.empty() || options_.is_dry_run) return;
  if (!options_.keeps_ledger) {
    // Files of a tree are usually similar, and a query for the size of each one
    // takes time.
    if (last_tensor_bytes_ >= kReadAheadBytesMin) {
      FileFeed::ReadAhead(entry.file);
    }
    return;
  }
  LedgerEntry in_ledger{.tensor = entry.tensor};
  if (!Describe(entry.file, in_ledger).ok() ||
      in_ledger.bytes < kReadAheadBytesMin) {
    return;
  }
  in_ledger.path = Below(entry.file);
  std::string former;
  if (!Has(in_ledger, former)) FileFeed::ReadAhead(entry.file);
}

bool ImportJob::Has(const LedgerEntry& entry, std::string& problem) const {
  return options_.keeps_ledger && ledger_.Has(entry, problem);
}

void ImportJob::Remember(const LedgerEntry& entry) {
  if (options_.keeps_ledger && !options_.is_dry_run) ledger_.Add(entry);
}

absl::Status ImportJob::ImportEntry(trees::TreeEntry entry) {
  if (entry.is_substitute && !options_.takes_substitutes) {
    return absl::OkStatus();
  }
  if (!entry.file.empty() || (!values_.entries.empty() &&
                              values_.entries[0].key.rank != entry.key.rank)) {
    MSITD_RETURN_IF_ERROR(SendValues());
  }
  // The ledger must describe the file as it was before it is read.
  if (options_.keeps_ledger) entry.opened.reset();
  if (!entry.file.empty()) return ImportFile(entry);
  values_.bytes += entry.text.size() + entry.stack.size();
  values_.entries.push_back(std::move(entry));
  const bool is_full = values_.entries.size() >= kBlockValuesMax ||
                       values_.bytes >= kBlockBytesMax;
  return is_full ? SendValues() : absl::OkStatus();
}

absl::Status ImportJob::ImportFile(const trees::TreeEntry& entry) {
  LedgerEntry in_ledger;
  absl::Status problem;
  if (options_.keeps_ledger) {
    in_ledger = {.path = Below(entry.file),
                 .tensor = entry.tensor,
                 .key = LedgerKeyOf(entry.key)};
    problem = Describe(entry.file, in_ledger);
  }
  std::string former;
  if (problem.ok() && !options_.is_dry_run && Has(in_ledger, former)) {
    if (IsNextFile(entry)) ++counts_.skipped_file_count;
    if (!former.empty()) {
      problems_.Add(entry.file, absl::InvalidArgumentError(former));
    }
    return absl::OkStatus();
  }
  if (problem.ok()) problem = feed_.Open(entry);
  if (problem.ok()) {
    if (entry.tensor.empty()) CountObjects(entry.file);
    MSITD_RETURN_IF_ERROR(SendTensors(entry, in_ledger, problem));
  }
  if (!problem.ok()) {
    problems_.Add(entry.file, problem);
    in_ledger.problem = std::string(Message(problem));
  }
  // Nothing may be kept of a file that has no problem; it is entered then too.
  if (in_ledger.record_count == 0 && !problem.ok()) return absl::OkStatus();
  if (IsNextFile(entry)) ++counts_.file_count;
  const bool may_come_again = !problem.ok() && ImportProblems::MayPass(problem);
  if (!may_come_again) Remember(in_ledger);
  return absl::OkStatus();
}

void ImportJob::CountObjects(const std::string& file) {
  const formats::Attributes& attributes = feed_.attributes();
  const auto count = attributes.find(formats::kObjectsAttribute);
  const auto first = attributes.find(formats::kFirstObjectsAttribute);
  // Attributes of other kinds can have any name.
  if (feed_.kind() != formats::FileKind::kTorch || count == attributes.end() ||
      first == attributes.end()) {
    return;
  }
  counts_.object_count += trees::ParseNumber(count->second).value_or(0);
  if (first_objects_.size() == kObjectFilesMax) return;
  first_objects_.push_back(file + ": " + first->second);
}

bool ImportJob::IsNextFile(const trees::TreeEntry& entry) {
  const bool is_next = entry.tensor.empty() || entry.file != counted_file_;
  counted_file_ = entry.file;
  return is_next;
}

absl::Status ImportJob::SendTensors(const trees::TreeEntry& entry,
                                    LedgerEntry& in_ledger,
                                    absl::Status& problem) {
  bool has_any = false;
  RecordsOfFile records;
  LostTensors lost;
  while (const formats::ForeignTensor* tensor = feed_.Next(entry)) {
    has_any = true;
    absl::Status why = records.Add(entry, *tensor);
    if (why.ok()) {
      MSITD_RETURN_IF_ERROR(SendTensor(entry, *tensor, in_ledger, why));
    }
    if (!why.ok()) lost.Add(NameOf(*tensor), why);
    if (!entry.tensor.empty()) break;
  }
  problem = lost.ToStatus();
  if (!has_any) {
    problem = entry.tensor.empty()
                  ? absl::InvalidArgumentError("it has no tensors")
                  : MakeStatus(absl::StatusCode::kInvalidArgument,
                               "it has no tensor {}", entry.tensor);
  }
  return absl::OkStatus();
}

absl::Status ImportJob::SendTensor(const trees::TreeEntry& entry,
                                   const formats::ForeignTensor& tensor,
                                   LedgerEntry& in_ledger,
                                   absl::Status& problem) {
  const TensorRecord record(entry, tensor, feed_.source());
  problem = record.problem();
  if (!problem.ok()) return absl::OkStatus();
  if (options_.deriver != nullptr && !tensor.is_statistics) {
    return SendDerived(entry, tensor, record.key(), in_ledger, problem);
  }
  if (!options_.is_dry_run) {
    MSITD_RETURN_IF_ERROR(Send(record.key().rank, record.view(), problem));
  }
  if (!problem.ok()) return absl::OkStatus();
  ++in_ledger.record_count;
  doubled_.Add(record.key(), entry.file);
  if (tensor.is_statistics) {
    ++counts_.statistics_count;
    return absl::OkStatus();
  }
  ++counts_.tensor_count;
  counts_.size_bytes += static_cast<int64_t>(tensor.bytes);
  last_tensor_bytes_ = tensor.bytes;
  return absl::OkStatus();
}

absl::Status ImportJob::SendValues() {
  const ValueBlock block = std::exchange(values_, {});
  if (block.entries.empty()) return absl::OkStatus();
  LedgerEntry in_ledger;
  if (options_.keeps_ledger) in_ledger = EntryOf(block.entries);
  std::string former;
  if (!options_.is_dry_run && Has(in_ledger, former)) {
    if (!former.empty()) {
      problems_.Add("values", absl::InvalidArgumentError(former));
    }
    return absl::OkStatus();
  }
  size_t lost_count = 0;
  for (const trees::TreeEntry& value : block.entries) {
    absl::Status problem;
    MSITD_RETURN_IF_ERROR(SendValue(value, problem));
    if (problem.ok()) continue;
    problems_.Add(NameOf(value), problem);
    if (lost_count++ > 0) continue;
    in_ledger.problem = fmt::format("{}: {}", NameOf(value), Message(problem));
  }
  if (lost_count > 1) {
    in_ledger.problem += fmt::format(" (and {} more)", lost_count - 1);
  }
  Remember(in_ledger);
  return absl::OkStatus();
}

absl::Status ImportJob::SendValue(const trees::TreeEntry& value,
                                  absl::Status& problem) {
  libmsit::TensorView record = ViewOf(value.key, value);
  record.dtype = value.dtype;
  record.dims = value.shape;
  record.kind = value.kind;
  record.value = value.text;
  std::optional<Scalar> scalar;
  const auto text_bytes = static_cast<int64_t>(value.text.size());
  if (value.kind == RecordKind::kNumber) {
    scalar = ParseScalar(value.text);
    // The text is kept in any case.
    record.kind = scalar ? RecordKind::kNumber : RecordKind::kOther;
    if (scalar) record.dtype = scalar->dtype;
    if (scalar) record.data = scalar->bytes.data();
  } else if (value.kind == RecordKind::kDocument) {
    record.value = {};
    record.dims = {&text_bytes, 1};
    record.data = reinterpret_cast<const std::byte*>(value.text.data());
  }
  if (value.kind == RecordKind::kTensor) {
    problem = absl::InvalidArgumentError("it has no file");
  } else if (!options_.is_dry_run) {
    MSITD_RETURN_IF_ERROR(Send(value.key.rank, record, problem));
  }
  if (!problem.ok()) return absl::OkStatus();
  if (value.kind == RecordKind::kDocument) {
    ++counts_.document_count;
    counts_.size_bytes += text_bytes;
  } else if (value.kind == RecordKind::kStatistics) {
    ++counts_.statistics_count;
  } else {
    ++counts_.value_count;
  }
  return absl::OkStatus();
}

void ImportJob::TakeProblems(trees::Tree& tree) {
  for (trees::TreeProblem& problem : tree.TakeProblems()) {
    problems_.Add(std::move(problem.file), problem.reason);
  }
}

std::string ImportJob::Below(const std::string& file) const {
  if (file.starts_with(root_)) {
    std::string_view below = std::string_view(file).substr(root_.size());
    while (below.starts_with('/')) below.remove_prefix(1);
    if (!below.empty()) return std::string(below);
  }
  return std::filesystem::path(file).filename().string();
}

}  // namespace msitd::fill
