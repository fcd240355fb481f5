// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/streamed_tree.h"

#include <fmt/format.h>

#include <functional>

#include "client/foreign/trees/file_name.h"
#include "client/foreign/watch/disk_prober.h"
#include "client/foreign/watch/min_max.h"
#include "protos/status/status.h"

namespace msitd::watch {
namespace {

// Beyond this, problems may be reported twice.
constexpr size_t kToldMax = 65536;

// Identifies one call of an op, as the readers do: its files have the same
// `group`.
struct Call {
  std::string group;
  std::string time;
};

Call CallOfFile(trees::TreeKind kind, const std::string& file) {
  const size_t slash = file.rfind('/');
  const std::string folder = file.substr(0, slash + 1);
  const std::string name = file.substr(slash + 1);
  if (kind == trees::TreeKind::kFx) {
    const auto parsed = trees::ParseFxFileName(name);
    if (parsed) return {folder + parsed->time, parsed->time};
  } else if (kind != trees::TreeKind::kFiles) {
    const auto parsed = trees::ParseGeFileName(name);
    if (!parsed) return {file, ""};
    const std::string time = std::to_string(parsed->time);
    // A file that was created from a dump belongs to the same call.
    if (parsed->form != trees::GeForm::kArray) {
      return {folder + SourceOfMinMax(name).value_or(name), time};
    }
    return {fmt::format("{}{} {} {}", folder, time, parsed->task,
                        fmt::join(parsed->slice, ".")),
            time};
  }
  return {file, ""};
}

}  // namespace

bool ComesByFile(trees::TreeKind kind) {
  return kind == trees::TreeKind::kGe || kind == trees::TreeKind::kMindie ||
         kind == trees::TreeKind::kFx || kind == trees::TreeKind::kFiles;
}

const trees::TreeEntry* StreamedTree::Next() {
  for (;;) {
    const trees::TreeEntry* const next = tree_->Next();
    if (next == nullptr) return next;
    if (!IsFinal(*next)) continue;
    if (next->file.empty()) return next;
    const bool is_of_round = round_.files.contains(next->file);
    if (!ComesByFile(kind())) {
      // A file of an earlier round may have been removed.
      FileStamp stamp;
      if (is_of_round || ReadStamp(next->file, &stamp)) return next;
      continue;
    }
    if (!is_of_round || !HasRank(*next)) continue;
    entry_ = *next;
    if (rules_.keeps_calls) return &entry_;
    const Call call = CallOfFile(kind(), entry_.file);
    entry_.key.call = book_.CallOf(fill::Renamed(options_, entry_).key,
                                   call.group, call.time);
    return &entry_;
  }
}

bool StreamedTree::HasRank(const trees::TreeEntry& entry) {
  const int32_t rank = fill::Renamed(options_, entry).key.rank;
  if (rules_.world_size == 0 || rank < rules_.world_size) return true;
  round_.problems.push_back(
      {entry.file,
       MakeStatus(absl::StatusCode::kInvalidArgument,
                  "its rank {} is not one of the {} ranks of the run: use "
                  "another run with --world-size",
                  rank, rules_.world_size)});
  return false;
}

bool StreamedTree::IsFinal(const trees::TreeEntry& entry) const {
  return entry.kind != RecordKind::kDocument || !round_.takes_documents ||
         round_.takes_documents(entry.key.token);
}

std::vector<trees::TreeProblem> StreamedTree::TakeProblems() {
  std::vector<trees::TreeProblem> out = std::exchange(round_.problems, {});
  for (trees::TreeProblem& problem : tree_->TakeProblems()) {
    if (round_.is_imported) {
      const bool is_absence = absl::IsNotFound(problem.reason);
      if (!is_absence || !round_.is_imported(problem.file)) {
        out.push_back(std::move(problem));
      }
      continue;
    }
    if (told_.size() >= kToldMax) told_.clear();
    const uint64_t hash = std::hash<std::string>()(
        fmt::format("{} {}", problem.file, Message(problem.reason)));
    const bool is_new = told_.insert(hash).second;
    const bool is_of_round = round_.files.contains(problem.file);
    const bool is_removed = !is_of_round && absl::IsNotFound(problem.reason);
    if (is_of_round || (is_new && !is_removed)) {
      out.push_back(std::move(problem));
    }
  }
  return out;
}

}  // namespace msitd::watch
