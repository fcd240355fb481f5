// SPDX-License-Identifier: Apache-2.0
#include "daemon/archive/comparison_copier.h"

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/compare/job/comparison_copy.h"
#include "daemon/compare/job/comparison_name.h"
#include "protos/status/status.h"
#include "storage/archive/comparison_objects.h"

namespace msitd::archive {
namespace {

constexpr size_t kCopiedRowsAtOnce = 1024;
constexpr size_t kComparisonsAtOnce = 256;
constexpr size_t kProblemsMax = 8;

// Returns whether the comparison was written damaged, so that retrying cannot
// help.
bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsFailedPrecondition(status) ||
         absl::IsNotFound(status);
}

void Leave(CopiedComparisons& out, std::string_view name,
           const absl::Status& status) {
  ++out.left_count;
  if (out.problems.size() == kProblemsMax) return;
  out.problems.push_back(
      fmt::format("comparison {} is not restored: {}", name, Message(status)));
}

class ComparisonRestorer {
 public:
  ComparisonRestorer(const RestoredPlace& place,
                     storage::Comparisons& comparisons, storage::StopCheck stop)
      : place_(place), comparisons_(comparisons), stop_(stop) {}

  absl::StatusOr<CopiedComparisons> Restore() {
    MSITD_ASSIGN_OR_RETURN(
        const std::vector<std::string> objects,
        storage::ListComparisonObjects(place_.store, place_.archived_run));
    MSITD_RETURN_IF_ERROR(Choose(objects));
    for (const auto& [key, version] : newest_) {
      MSITD_RETURN_IF_ERROR(stop_());
      const std::string name = compare::FormatComparisonName(key.first);
      const absl::Status status = RestoreOne(version.object, name);
      if (status.ok()) {
        ++out_.count;
      } else if (IsDamage(status) || absl::IsResourceExhausted(status)) {
        // A run is worth restoring even without the comparisons that do not
        // fit.
        Leave(out_, name, status);
      } else {
        return status;
      }
    }
    return std::move(out_);
  }

 private:
  struct Version {
    std::string object;
    int custom_metric_count = -1;
  };

  // Metrics may have been added to a comparison since it was archived. Of
  // several versions, the one with the most metrics is used.
  absl::Status Choose(const std::vector<std::string>& objects) {
    for (const std::string& object : objects) {
      MSITD_RETURN_IF_ERROR(stop_());
      const auto read =
          storage::ReadComparison(place_.store, place_.archived_run, object);
      absl::StatusOr<compare::ComparisonBrief> brief =
          read.ok() ? compare::BriefOfComparison(read->document)
                    : absl::StatusOr<compare::ComparisonBrief>(read.status());
      if (!brief.ok()) {
        if (!IsDamage(brief.status())) return brief.status();
        Leave(out_, object, brief.status());
        continue;
      }
      Version& version = newest_[{read->id, brief->create_time_ns}];
      if (brief->custom_metric_count > version.custom_metric_count) {
        version = {object, brief->custom_metric_count};
      }
    }
    return absl::OkStatus();
  }

  // Returns whether the comparison still exists here and will stay. This is the
  // case if only the target was deleted: the golden run keeps the comparison.
  absl::StatusOr<bool> IsHere(uint64_t id,
                              const compare::ComparisonBrief& brief) {
    const auto document = comparisons_.GetComparison(id);
    if (absl::IsNotFound(document.status())) return false;
    MSITD_RETURN_IF_ERROR(document.status());
    MSITD_ASSIGN_OR_RETURN(const compare::ComparisonBrief here,
                           compare::BriefOfComparison(*document));
    if (here.create_time_ns != brief.create_time_ns ||
        here.golden_run != brief.golden_run || here.target_run != place_.run ||
        !here.is_target_local || here.row_count != brief.row_count ||
        here.golden_run == place_.run) {
      return false;
    }
    const auto kept =
        comparisons_.ListComparisonsOf(here.golden_run, id - 1, 1);
    if (absl::IsNotFound(kept.status())) return false;
    MSITD_RETURN_IF_ERROR(kept.status());
    return !kept->empty() && kept->front() == id;
  }

  absl::Status RestoreOne(const std::string& object, std::string_view name) {
    MSITD_ASSIGN_OR_RETURN(
        const storage::ArchivedComparison archived,
        storage::ReadComparison(place_.store, place_.archived_run, object));
    MSITD_ASSIGN_OR_RETURN(const compare::ComparisonBrief brief,
                           compare::BriefOfComparison(archived.document));
    MSITD_ASSIGN_OR_RETURN(const bool is_here, IsHere(archived.id, brief));
    if (is_here) return absl::OkStatus();
    const compare::ComparisonMove move{
        place_.run, place_.caller.name,
        fmt::format("{}/{} {}", place_.store.url(), place_.archived_run, name)};
    MSITD_ASSIGN_OR_RETURN(
        const std::string document,
        compare::MoveComparison(archived.document, place_.archived_run, move));
    if (brief.row_count != archived.row_count) {
      return MakeStatus(absl::StatusCode::kDataLoss,
                        "it counts {} rows and has {}", brief.row_count,
                        archived.row_count);
    }
    MSITD_ASSIGN_OR_RETURN(const std::string held,
                           compare::HoldComparison(document));
    const std::string runs[] = {place_.run};
    MSITD_ASSIGN_OR_RETURN(const uint64_t id, comparisons_.CreateComparisonAs(
                                                  archived.id, held, runs));
    const absl::Status status = CopyRows(archived, brief, move, id);
    if (status.ok()) return comparisons_.PutComparison(id, document);
    MSITD_RETURN_IF_ERROR(comparisons_.DeleteComparison(id));
    return status;
  }

  absl::Status CopyRows(const storage::ArchivedComparison& archived,
                        const compare::ComparisonBrief& brief,
                        const compare::ComparisonMove& move, uint64_t id) {
    uint64_t row = 0;
    return storage::ReadComparisonRows(
        place_.store, place_.archived_run, archived,
        [&](std::span<const std::string> rows) -> absl::Status {
          MSITD_RETURN_IF_ERROR(stop_());
          std::vector<std::string> moved;
          for (const std::string& bytes : rows) {
            MSITD_ASSIGN_OR_RETURN(std::string copy,
                                   compare::MoveComparisonRow(
                                       bytes, row + moved.size(), brief, move));
            moved.push_back(std::move(copy));
          }
          MSITD_RETURN_IF_ERROR(comparisons_.PutComparisonRows(id, row, moved));
          row += moved.size();
          return absl::OkStatus();
        });
  }

  const RestoredPlace& place_;
  storage::Comparisons& comparisons_;
  const storage::StopCheck stop_;
  // Keyed by number and time, so that comparisons are restored in the order of
  // their numbers.
  std::map<std::pair<uint64_t, int64_t>, Version> newest_;
  CopiedComparisons out_;
};

}  // namespace

absl::StatusOr<CopiedComparisons> ArchiveComparisons(
    storage::Comparisons& comparisons, storage::ObjectStore& store,
    const std::string& run, storage::StopCheck stop) {
  CopiedComparisons out;
  uint64_t after = 0;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(
        const std::vector<uint64_t> ids,
        comparisons.ListComparisonsOf(run, after, kComparisonsAtOnce));
    if (ids.empty()) return out;
    for (const uint64_t id : ids) {
      after = id;
      MSITD_RETURN_IF_ERROR(stop());
      const auto document = comparisons.GetComparison(id);
      if (absl::IsNotFound(document.status())) continue;
      MSITD_RETURN_IF_ERROR(document.status());
      MSITD_ASSIGN_OR_RETURN(const compare::ComparisonBrief brief,
                             compare::BriefOfComparison(*document));
      if (brief.target_run != run || !brief.is_target_local) continue;
      if (!brief.has_ended ||
          document->size() > storage::kComparisonBytesMax / 2) {
        ++out.left_count;
        continue;
      }
      absl::Status read_status;
      const auto read = [&](uint64_t row) {
        auto rows = comparisons.GetComparisonRows(
            id, row,
            std::min<uint64_t>(kCopiedRowsAtOnce, brief.row_count - row));
        if (rows.ok() && rows->empty()) {
          rows = MakeStatus(absl::StatusCode::kDataLoss, "row {} is not there",
                            row);
        }
        read_status = rows.status();
        return rows;
      };
      const absl::StatusOr<uint64_t> sent = storage::WriteComparison(
          store, run, {id, *document, brief.row_count, {}}, read, stop);
      // Rows that cannot be read now will never be readable. Continue with the
      // other comparisons.
      if (!read_status.ok()) {
        ++out.left_count;
        continue;
      }
      MSITD_RETURN_IF_ERROR(sent.status());
      out.sent_bytes += *sent;
      ++out.count;
    }
  }
}

absl::StatusOr<CopiedComparisons> RestoreComparisons(
    const RestoredPlace& place, storage::Comparisons& comparisons,
    storage::StopCheck stop) {
  return ComparisonRestorer(place, comparisons, stop).Restore();
}

}  // namespace msitd::archive
