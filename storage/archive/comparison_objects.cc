// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/comparison_objects.h"

#include <algorithm>
#include <utility>

#include "protos/base/byte_codec.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"
#include "storage/archive/archive_url.h"
#include "storage/archive/object_uploader.h"
#include "storage/archive/pack_writer.h"

namespace msitd::storage {
namespace {

constexpr std::string_view kComparisonMagic = "msitd comparison\n";
constexpr uint64_t kComparisonVersion = 1;
constexpr std::string_view kComparisonKind = "comparison";
constexpr std::string_view kRowsKind = "rows";
constexpr size_t kTakenRowsAtOnce = 4096;
constexpr size_t kRowObjectsMax = size_t{1} << 16;

absl::Status NoComparison(std::string_view what) {
  return MakeStatus(absl::StatusCode::kDataLoss, "{}", what);
}

std::string ObjectKey(const std::string& folder, std::string_view object) {
  return fmt::format("{}/{}", folder, object);
}

}  // namespace

std::string EncodeComparison(const ArchivedComparison& comparison) {
  std::string bytes(kComparisonMagic);
  ByteWriter out(bytes);
  out.PutVarint(kComparisonVersion);
  out.PutVarint(comparison.id);
  out.PutText(comparison.document);
  out.PutVarint(comparison.row_count);
  out.PutVarint(comparison.rows.size());
  for (const ArchiveObject& object : comparison.rows) {
    PutArchiveObject(out, object);
  }
  return bytes;
}

absl::StatusOr<ArchivedComparison> DecodeComparison(std::string_view bytes) {
  if (!bytes.starts_with(kComparisonMagic)) {
    return NoComparison("the comparison is none of msitd");
  }
  ByteReader in(bytes.substr(kComparisonMagic.size()));
  const uint64_t version = in.GetVarint();
  if (in.ok() && version > kComparisonVersion) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "the comparison has format {}, made by a later msitd; "
                      "this one reads {}",
                      version, kComparisonVersion);
  }
  ArchivedComparison out;
  out.id = in.GetVarint();
  out.document = in.GetText();
  out.row_count = in.GetVarint();
  const uint64_t count = in.GetVarint();
  if (!in.ok() || version != kComparisonVersion || count > kRowObjectsMax ||
      count > in.left()) {
    return NoComparison("the comparison holds what none has");
  }
  out.rows.resize(count);
  for (ArchiveObject& object : out.rows) {
    if (!GetArchiveObject(in, object)) {
      return NoComparison("the comparison holds what none has");
    }
  }
  if (!in.done()) return NoComparison("the comparison holds what none has");
  return out;
}

absl::StatusOr<uint64_t> WriteComparison(
    ObjectStore& store, std::string_view run, ArchivedComparison comparison,
    absl::FunctionRef<absl::StatusOr<std::vector<std::string>>(uint64_t)> read,
    StopCheck stop) {
  MSITD_ASSIGN_OR_RETURN(const std::string folder, RunFolder(run));
  ObjectUploader uploader(store);
  ObjectPacker rows{std::string(kRowsKind), folder, uploader};
  for (uint64_t row = 0; row < comparison.row_count;) {
    MSITD_RETURN_IF_ERROR(stop());
    MSITD_ASSIGN_OR_RETURN(const std::vector<std::string> page, read(row));
    if (page.empty() || page.size() > comparison.row_count - row) {
      return NoComparison(fmt::format("row {} is not there", row));
    }
    for (const std::string& text : page) {
      std::string piece;
      ByteWriter(piece).PutText(text);
      MSITD_RETURN_IF_ERROR(
          rows.Add(std::as_bytes(std::span(piece)), stop).status());
    }
    row += page.size();
  }
  MSITD_RETURN_IF_ERROR(rows.Finish(stop));
  MSITD_RETURN_IF_ERROR(uploader.Finish(stop));
  comparison.rows = rows.objects();
  std::string bytes = EncodeComparison(comparison);
  if (bytes.size() > kComparisonBytesMax ||
      comparison.rows.size() > kRowObjectsMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "the comparison has {} bytes beside its rows and {} "
                      "objects with rows, at most {} and {} are archived",
                      bytes.size(), comparison.rows.size(), kComparisonBytesMax,
                      kRowObjectsMax);
  }
  const ArchiveObject object = NameObject(kComparisonKind, bytes);
  MSITD_RETURN_IF_ERROR(uploader.Add(folder, object, std::move(bytes), stop));
  MSITD_RETURN_IF_ERROR(uploader.Finish(stop));
  return uploader.sent_bytes();
}

bool IsComparisonObject(std::string_view name) {
  return name.starts_with(kComparisonKind) &&
         name.substr(kComparisonKind.size()).starts_with('-');
}

absl::StatusOr<std::vector<std::string>> ListComparisonObjects(
    ObjectStore& store, std::string_view run) {
  MSITD_ASSIGN_OR_RETURN(const std::string folder, RunFolder(run));
  MSITD_ASSIGN_OR_RETURN(const ObjectList list, store.List(folder));
  std::vector<std::string> out;
  for (const std::string& object : list.objects) {
    if (IsComparisonObject(object)) out.push_back(object);
  }
  std::sort(out.begin(), out.end());
  if (out.size() <= kArchivedComparisonsMax) return out;
  return MakeStatus(absl::StatusCode::kResourceExhausted,
                    "{}/{} has {} comparisons, at most {} are read",
                    store.url(), folder, out.size(), kArchivedComparisonsMax);
}

absl::StatusOr<ArchivedComparison> ReadComparison(ObjectStore& store,
                                                  std::string_view run,
                                                  const std::string& object) {
  MSITD_ASSIGN_OR_RETURN(const std::string folder, RunFolder(run));
  const std::string key = ObjectKey(folder, object);
  MSITD_ASSIGN_OR_RETURN(const std::string bytes,
                         store.Get(key, kComparisonBytesMax));
  if (NameObject(kComparisonKind, bytes).name != object) {
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "{}/{} does not hold the bytes that its name says",
                      store.url(), key);
  }
  absl::StatusOr<ArchivedComparison> out = DecodeComparison(bytes);
  if (!out.ok()) {
    return Annotate(out.status(), fmt::format("{}/{}", store.url(), key));
  }
  return out;
}

absl::Status ReadComparisonRows(
    ObjectStore& store, std::string_view run,
    const ArchivedComparison& comparison,
    absl::FunctionRef<absl::Status(std::span<const std::string>)> take) {
  MSITD_ASSIGN_OR_RETURN(const std::string folder, RunFolder(run));
  uint64_t count = 0;
  std::vector<std::string> rows;
  for (const ArchiveObject& object : comparison.rows) {
    const std::string key = ObjectKey(folder, object.name);
    const auto damaged = [&](std::string_view what) {
      return MakeStatus(absl::StatusCode::kDataLoss, "{}/{}: {}", store.url(),
                        key, what);
    };
    const auto bytes = store.Get(key, object.bytes);
    if (absl::IsNotFound(bytes.status())) return damaged("it is missing");
    MSITD_RETURN_IF_ERROR(bytes.status());
    if (bytes->size() != object.bytes ||
        chunk::HashBytes(std::as_bytes(std::span(*bytes))) != object.hash) {
      return damaged("it does not match the comparison");
    }
    ByteReader in(*bytes);
    while (!in.done()) {
      rows.emplace_back(in.GetText());
      if (!in.ok() || ++count > comparison.row_count) {
        return damaged("it holds what no rows are");
      }
      if (rows.size() < kTakenRowsAtOnce && !in.done()) continue;
      MSITD_RETURN_IF_ERROR(take(rows));
      rows.clear();
    }
  }
  if (count == comparison.row_count) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kDataLoss,
                    "{}/{}: a comparison has {} rows, of {}", store.url(),
                    folder, count, comparison.row_count);
}

}  // namespace msitd::storage
