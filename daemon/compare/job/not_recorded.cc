// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/not_recorded.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "protos/base/limits.h"
#include "protos/base/utf8.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

constexpr std::string_view kOtherReasons = "other reasons";

int64_t Sum(int64_t a, int64_t b) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return a > kMax - b ? kMax : a + b;
}

// Adds `from` to the reasons of a rank, or its count to the same reason.
void Add(v1::NotRecorded from, NotRecorded& rank) {
  from.set_count(std::max<int64_t>(from.count(), 0));
  for (std::string* text :
       {from.mutable_reason(), from.mutable_op(), from.mutable_index()}) {
    text->resize(Utf8Prefix(*text, kNotRecordedTextBytesMax).size());
  }
  if (!from.is_harmless()) rank.count = Sum(rank.count, from.count());
  auto& reasons = rank.reasons;
  const auto find = [&reasons, &from](std::string_view reason) {
    return std::find_if(reasons.begin(), reasons.end(), [&](const auto& known) {
      return known.reason() == reason &&
             known.is_harmless() == from.is_harmless();
    });
  };
  auto known = find(from.reason());
  if (known == reasons.end() && reasons.size() >= kNotRecordedReasonsMax - 2) {
    from.set_reason(std::string(kOtherReasons));
    known = find(kOtherReasons);
  }
  if (known == reasons.end()) {
    reasons.push_back(std::move(from));
  } else {
    known->set_count(Sum(known->count(), from.count()));
  }
}

// Adds a reason why it is unknown what a client did not record.
void AddUnknown(const std::string& name, const std::string& reason,
                NotRecorded& rank) {
  v1::NotRecorded unknown;
  unknown.set_reason(reason);
  unknown.set_op(name);
  Add(std::move(unknown), rank);
}

std::optional<v1::NotRecordedDocument> Parse(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size());
  if (!IsValidUtf8(text)) return std::nullopt;
  v1::NotRecordedDocument document;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), &document,
      options);
  return parsed.ok() ? std::optional(std::move(document)) : std::nullopt;
}

void AddUncalled(const v1::NotRecordedDocument& document, NotRecorded& rank) {
  for (const std::string& op : document.uncalled()) {
    if (rank.uncalled.size() == kUncalledOpsMax) break;
    rank.uncalled.push_back(op);
  }
  std::sort(rank.uncalled.begin(), rank.uncalled.end());
}

void AddDocument(v1::NotRecordedDocument document, NotRecorded& rank) {
  for (v1::NotRecorded& skipped : *document.mutable_skipped()) {
    Add(std::move(skipped), rank);
  }
  if (document.uncalled().empty()) return;
  v1::NotRecorded uncalled;
  uncalled.set_reason("an op of which no call was seen");
  // Older clients do not report a count.
  uncalled.set_count(
      std::max<int64_t>(document.uncalled_count(), document.uncalled_size()));
  uncalled.set_op(document.uncalled(0));
  uncalled.set_is_harmless(true);
  Add(std::move(uncalled), rank);
  AddUncalled(document, rank);
}

// The newest document of each client of one rank.
class RankDocuments {
 public:
  // Adds a document. Those of a client must be added in the order of their
  // versions.
  void Take(const storage::TensorInfo& document) {
    const TensorKey& key = document.key;
    // Older clients have no versions. Each of their documents has other
    // contents.
    const int32_t number = key.op == kOldNotRecordedName ? key.call : 0;
    const Client client(key.device, key.op, number);
    if (newest_.size() >= kNotRecordedClientsMax && !newest_.contains(client)) {
      has_more_ = true;
      return;
    }
    newest_.insert_or_assign(client, document);
  }

  absl::StatusOr<NotRecorded> Read(storage::RunReader& run,
                                   AlignedBuffer& buffer,
                                   storage::StopCheck stop) const {
    NotRecorded out;
    for (const auto& [client, document] : newest_) {
      MSITD_RETURN_IF_ERROR(stop());
      MSITD_RETURN_IF_ERROR(ReadOne(run, document, buffer, out));
    }
    if (has_more_) {
      AddUnknown("",
                 fmt::format("more than {} clients of the rank told of it",
                             kNotRecordedClientsMax),
                 out);
    }
    return out;
  }

 private:
  using Client = std::tuple<std::string, std::string, int32_t>;

  static absl::Status ReadOne(storage::RunReader& run,
                              const storage::TensorInfo& document,
                              AlignedBuffer& buffer, NotRecorded& out) {
    const std::string& name = document.key.op;
    if (document.tensor_bytes > kPartBytes || document.parts.size() != 1) {
      AddUnknown(name, "the document that says so is too long", out);
      return absl::OkStatus();
    }
    if (!document.has_bytes) {
      AddUnknown(name, "the document that says so has been given up", out);
      return absl::OkStatus();
    }
    const auto bytes = run.ReadPart(document.parts[0], buffer);
    if (absl::IsUnavailable(bytes.status()) ||
        HasReason(bytes.status(), ErrorReason::kSourceFailed)) {
      return bytes.status();
    }
    auto parsed = bytes.ok() ? Parse(*bytes) : std::nullopt;
    if (!parsed.has_value()) {
      AddUnknown(name, "the document that says so is damaged", out);
      return absl::OkStatus();
    }
    AddDocument(*std::move(parsed), out);
    return absl::OkStatus();
  }

  std::map<Client, storage::TensorInfo> newest_;
  bool has_more_ = false;
};

}  // namespace

absl::StatusOr<std::map<int32_t, NotRecorded>> FindNotRecorded(
    storage::RunReader& run, const std::vector<int32_t>& selected,
    storage::StopCheck stop) {
  Selector documents;
  documents.ranks = selected;
  documents.tokens = {{0, 0}};
  documents.op_patterns = {std::string(kNotRecordedNames),
                           std::string(kOldNotRecordedName)};
  documents.ios = {Io::kState};
  documents.kinds = {RecordKind::kDocument};
  MSITD_ASSIGN_OR_RETURN(const auto scan, run.Scan(documents, ""));
  std::map<int32_t, NotRecorded> out;
  AlignedBuffer buffer;
  std::optional<int32_t> rank;
  RankDocuments newest;
  const auto read = [&]() -> absl::Status {
    if (!rank.has_value()) return absl::OkStatus();
    MSITD_ASSIGN_OR_RETURN(out[*rank], newest.Read(run, buffer, stop));
    newest = RankDocuments();
    return absl::OkStatus();
  };
  storage::TensorInfo document;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool found, scan->Next(document, stop));
    if (!found) break;
    if (rank != document.key.rank) {
      MSITD_RETURN_IF_ERROR(read());
      rank = document.key.rank;
    }
    newest.Take(document);
  }
  MSITD_RETURN_IF_ERROR(read());
  return out;
}

int64_t CountOf(const std::map<int32_t, NotRecorded>& ranks) {
  int64_t count = 0;
  for (const auto& [number, rank] : ranks) count = Sum(count, rank.count);
  return count;
}

}  // namespace msitd::compare
