// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/archive_pruner.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "protos/status/status.h"
#include "storage/archive/archive_reader.h"
#include "storage/archive/archive_url.h"
#include "storage/archive/comparison_objects.h"
#include "storage/archive/file_objects.h"

namespace msitd::storage {
namespace {

constexpr size_t kProblemsMax = 16;
// Digits of the hash that ends the name of an object.
constexpr size_t kHashDigits = 32;
constexpr std::array<std::string_view, 5> kKinds = {
    "pack-", "index-", "directory-", "attachment-", "rows-"};

// True for the name of an object that a manifest or a comparison could name.
bool IsNamedObject(std::string_view name) {
  const bool is_kind = std::any_of(
      kKinds.begin(), kKinds.end(),
      [&](std::string_view kind) { return name.starts_with(kind); });
  if (!is_kind || name.size() <= kHashDigits) return false;
  const std::string_view hash = name.substr(name.size() - kHashDigits);
  return name[name.size() - kHashDigits - 1] == '-' &&
         hash.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

class Pruner {
 public:
  Pruner(const PruneRequest& request, StopCheck stop)
      : store_(*request.store),
        before_s_(request.modified_before_s),
        stop_(stop) {}

  absl::StatusOr<PrunedObjects> PruneOne(const std::string& run) {
    MSITD_ASSIGN_OR_RETURN(const std::string folder, RunFolder(run));
    MSITD_ASSIGN_OR_RETURN(const ObjectList list, store_.List(folder));
    if (list.objects.empty() && list.folders.empty()) {
      return WithReason(
          MakeStatus(absl::StatusCode::kNotFound,
                     "there is no folder of run '{}' in {}", run, store_.url()),
          ErrorReason::kRunNotFound);
    }
    MSITD_RETURN_IF_ERROR(PruneFolder(run, folder, list));
    return std::move(out_);
  }

  absl::StatusOr<PrunedObjects> PruneAll() {
    MSITD_ASSIGN_OR_RETURN(const ObjectList top, store_.List(""));
    for (const std::string& object : top.objects) {
      if (object.starts_with(kProbePrefix) ||
          object.starts_with(kTemporaryPrefix)) {
        MSITD_RETURN_IF_ERROR(
            RemoveAll({object}, [] { return absl::OkStatus(); }));
      }
    }
    MSITD_ASSIGN_OR_RETURN(const std::vector<std::string> runs,
                           ListArchivedRuns(store_));
    for (const std::string& run : runs) {
      MSITD_RETURN_IF_ERROR(stop_());
      MSITD_ASSIGN_OR_RETURN(const std::string folder, RunFolder(run));
      const absl::StatusOr<ObjectList> list = store_.List(folder);
      // The other folders are pruned even if one cannot be read.
      if (!list.ok() && !absl::IsUnavailable(list.status()) &&
          !absl::IsCancelled(list.status())) {
        Leave(run, list.status());
        continue;
      }
      MSITD_RETURN_IF_ERROR(list.status());
      MSITD_RETURN_IF_ERROR(PruneFolder(run, folder, *list));
    }
    return std::move(out_);
  }

 private:
  absl::Status PruneFolder(const std::string& run, const std::string& folder,
                           const ObjectList& list) {
    std::set<std::string> named;
    MSITD_ASSIGN_OR_RETURN(const ObjectStat manifest, StatManifest(folder));
    const absl::Status status = FindNamed(run, list, named);
    if (absl::IsDataLoss(status) || absl::IsFailedPrecondition(status) ||
        absl::IsPermissionDenied(status)) {
      Leave(run, status);
      return absl::OkStatus();
    }
    MSITD_RETURN_IF_ERROR(status);
    std::vector<std::string> keys;
    for (const std::string& object : list.objects) {
      const bool is_rest = object.starts_with(kTemporaryPrefix) ||
                           (IsNamedObject(object) && !named.contains(object));
      if (is_rest) keys.push_back(folder + "/" + object);
    }
    // A run whose archiving has just ended has a manifest that names these
    // objects.
    const absl::Status removed = RemoveAll(keys, [&]() -> absl::Status {
      MSITD_ASSIGN_OR_RETURN(const ObjectStat now, StatManifest(folder));
      if (now.bytes == manifest.bytes &&
          now.modify_time_s == manifest.modify_time_s) {
        return absl::OkStatus();
      }
      return MakeStatus(absl::StatusCode::kAborted,
                        "its manifest was written just now");
    });
    if (!absl::IsAborted(removed)) return removed;
    Leave(run, removed);
    return absl::OkStatus();
  }

  // Returns zeros if there is no manifest.
  absl::StatusOr<ObjectStat> StatManifest(const std::string& folder) {
    absl::StatusOr<ObjectStat> stat =
        store_.Stat(fmt::format("{}/{}", folder, kManifestName));
    if (absl::IsNotFound(stat.status())) return ObjectStat();
    return stat;
  }

  // Adds the objects of the folder that the manifest and comparisons name.
  absl::Status FindNamed(const std::string& run, const ObjectList& list,
                         std::set<std::string>& named) {
    const auto manifest = ReadManifest(store_, run);
    if (manifest.ok()) {
      for (const ArchiveObject& object : manifest->Objects()) {
        named.insert(object.name);
      }
    } else if (!HasReason(manifest.status(), ErrorReason::kRunNotFound)) {
      return manifest.status();
    }
    for (const std::string& object : list.objects) {
      if (!IsComparisonObject(object)) continue;
      MSITD_RETURN_IF_ERROR(stop_());
      MSITD_ASSIGN_OR_RETURN(const ArchivedComparison comparison,
                             ReadComparison(store_, run, object));
      for (const ArchiveObject& rows : comparison.rows) {
        named.insert(rows.name);
      }
    }
    return absl::OkStatus();
  }

  // Removes objects that belong together, unless one of them is young. In that
  // case the others may be the older objects of a run that is still being
  // written. `check` is called before each removal, and its error ends the
  // loop.
  absl::Status RemoveAll(const std::vector<std::string>& keys,
                         absl::FunctionRef<absl::Status()> check) {
    std::vector<std::pair<std::string, uint64_t>> found;
    for (const std::string& key : keys) {
      MSITD_RETURN_IF_ERROR(stop_());
      const absl::StatusOr<ObjectStat> stat = store_.Stat(key);
      if (absl::IsNotFound(stat.status())) continue;
      MSITD_RETURN_IF_ERROR(stat.status());
      // An object without a time may have been written just now.
      if (stat->modify_time_s == 0 || stat->modify_time_s > before_s_) {
        return absl::OkStatus();
      }
      found.emplace_back(key, stat->bytes);
    }
    for (const auto& [key, bytes] : found) {
      MSITD_RETURN_IF_ERROR(stop_());
      MSITD_RETURN_IF_ERROR(check());
      MSITD_RETURN_IF_ERROR(store_.Delete(key));
      ++out_.object_count;
      out_.bytes += bytes;
    }
    return absl::OkStatus();
  }

  void Leave(const std::string& run, const absl::Status& status) {
    if (out_.problems.size() == kProblemsMax) return;
    out_.problems.push_back(fmt::format("folder of run {} is left alone: {}",
                                        run, Message(status)));
  }

  ObjectStore& store_;
  const int64_t before_s_;
  const StopCheck stop_;
  PrunedObjects out_;
};

}  // namespace

absl::StatusOr<PrunedObjects> PruneArchive(const PruneRequest& request,
                                           StopCheck stop) {
  Pruner pruner(request, stop);
  return request.run.empty() ? pruner.PruneAll() : pruner.PruneOne(request.run);
}

}  // namespace msitd::storage
