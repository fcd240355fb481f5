// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/msprobe/msprobe_tree.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "client/foreign/formats/byte_source.h"
#include "client/foreign/names/msprobe_names.h"
#include "client/foreign/trees/json/json_value.h"
#include "client/foreign/trees/msprobe/msprobe_layout.h"
#include "client/foreign/trees/msprobe/msprobe_record.h"
#include "client/foreign/trees/msprobe/msprobe_records.h"
#include "client/foreign/trees/msprobe/msprobe_stacks.h"
#include "client/foreign/trees/tree_base.h"
#include "client/foreign/trees/tree_limits.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

bool HasRecords(std::string_view name) {
  return name == names::kMsprobeDump || name == names::kMsprobeDebug;
}

bool IsDocument(std::string_view name) {
  return HasRecords(name) || name == names::kMsprobeStack ||
         name == names::kMsprobeConstruct || name == "dump_error_info.log";
}

class MsprobeTree final : public TreeBase {
 public:
  MsprobeTree(const TreeFolder& folder, MsprobeLayout layout,
              std::string record_file)
      : TreeBase(TreeKind::kMsprobe, folder),
        places_(std::move(layout.places)),
        record_file_(std::move(record_file)) {
    std::set<int32_t> ranks;
    for (const MsprobePlace& place : places_) ranks.insert(place.rank);
    set_ranks({ranks.begin(), ranks.end()});
    for (TreeAttachment& attachment : layout.attachments) {
      AddAttachment(std::move(attachment));
    }
    AddProblems(std::move(layout.problems));
    set_has_known_order(std::none_of(
        places_.begin(), places_.end(),
        [this](const MsprobePlace& place) { return IsUnordered(place); }));
  }

  const TreeEntry* Next() override {
    for (;;) {
      if (next_entry_ < entries_.size()) return &entries_[next_entry_++];
      entries_.clear();
      next_entry_ = 0;
      if (!documents_.empty()) {
        TakeDocument();
      } else if (records_ != nullptr) {
        TakeRecord();
      } else if (!record_files_.empty()) {
        OpenRecords();
      } else {
        ClosePlace();
        if (next_place_ == places_.size()) return nullptr;
        OpenPlace(places_[next_place_++]);
      }
    }
  }

 private:
  // Returns true for a file of records that the options exclude.
  bool IsExcluded(std::string_view name) const {
    return !record_file_.empty() && HasRecords(name) && name != record_file_;
  }

  bool IsUnordered(const MsprobePlace& place) const {
    const std::string path =
        root().PathOf(JoinPath(place.path, names::kMsprobeDump));
    auto file = formats::FileSource::Open(path);
    return file.ok() && MsprobeRecords(*std::move(file)).IsUnordered();
  }

  std::string PathIn(std::string_view name) const {
    return root().PathOf(JoinPath(path_, name));
  }

  void OpenPlace(const MsprobePlace& place) {
    path_ = place.path;
    key_ = TensorKey();
    key_.rank = place.rank;
    key_.token = place.token;
    stacks_ = MsprobeStacks();
    seen_.clear();
    has_excluded_ = false;
    Listing listing = root().List(path_);
    AddProblems(std::move(listing.problems));
    // The names are used from the end.
    for (auto name = listing.files.rbegin(); name != listing.files.rend();
         ++name) {
      if (IsExcluded(*name)) {
        has_excluded_ = true;
        continue;
      }
      if (!IsDocument(*name)) {
        AddProblem(PathIn(*name), absl::InvalidArgumentError(
                                      "not a dump: msprobe writes no such "
                                      "file here"));
        continue;
      }
      documents_.push_back(*name);
      if (HasRecords(*name)) record_files_.push_back(*name);
      if (*name == names::kMsprobeStack) ReadStacks();
    }
    for (const std::string& name : listing.folders) {
      if (name != names::kMsprobeTensors) {
        AddProblem(PathIn(name),
                   absl::InvalidArgumentError(
                       "not a dump: it is not a folder of tensors"));
        continue;
      }
      Listing tensors = root().List(JoinPath(path_, name));
      AddProblems(std::move(tensors.problems));
      for (std::string& file : tensors.files) {
        tensor_files_.emplace(std::move(file), false);
      }
      for (const std::string& folder : tensors.folders) {
        AddProblem(PathIn(JoinPath(name, folder)),
                   absl::InvalidArgumentError("not a dump: it is a folder"));
      }
    }
  }

  void ClosePlace() {
    for (const auto& [name, is_named] : std::exchange(tensor_files_, {})) {
      // An entry of the excluded file may name it.
      if (is_named || has_excluded_) continue;
      AddProblem(PathIn(JoinPath(names::kMsprobeTensors, name)),
                 absl::NotFoundError("no entry names it"));
    }
  }

  absl::Status ReadStacksOf(const std::string& path) {
    MSITD_ASSIGN_OR_RETURN(const auto file, formats::FileSource::Open(path));
    return stacks_.Read(*file);
  }

  void ReadStacks() {
    const std::string path = PathIn(names::kMsprobeStack);
    const absl::Status read = ReadStacksOf(path);
    if (!read.ok()) AddProblem(path, read);
  }

  absl::StatusOr<std::string> ReadDocument(const std::string& path) {
    MSITD_ASSIGN_OR_RETURN(const auto file, formats::FileSource::Open(path));
    if (file->size() > kDocumentBytesMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "it has {} bytes, more than the maximum of {} for a "
                        "document. Its entries are imported anyway",
                        file->size(), kDocumentBytesMax);
    }
    MSITD_ASSIGN_OR_RETURN(std::string text, file->ReadText(0, file->size()));
    if (!IsValidUtf8(text)) {
      return absl::InvalidArgumentError("it is not a document: not UTF-8");
    }
    return text;
  }

  void TakeDocument() {
    TreeEntry entry;
    entry.key = key_;
    entry.key.op = documents_.back();
    entry.key.io = Io::kState;
    documents_.pop_back();
    entry.kind = RecordKind::kDocument;
    const std::string path = PathIn(entry.key.op);
    auto text = ReadDocument(path);
    if (!text.ok()) {
      AddProblem(path, text.status());
      return;
    }
    entry.text = *std::move(text);
    entries_.push_back(std::move(entry));
  }

  void OpenRecords() {
    record_path_ = PathIn(record_files_.back());
    record_files_.pop_back();
    auto file = formats::FileSource::Open(record_path_);
    if (file.ok()) {
      records_ = std::make_unique<MsprobeRecords>(*std::move(file));
    } else {
      AddProblem(record_path_, file.status());
    }
  }

  void TakeRecord() {
    const auto has_next = records_->Next();
    if (!has_next.ok()) AddProblem(record_path_, has_next.status());
    if (!has_next.ok() || !*has_next) {
      records_ = nullptr;
      return;
    }
    const std::string name = records_->name();
    bool is_broken = false;
    const auto record = records_->Read(&is_broken);
    if (is_broken) {
      AddProblem(record_path_, record.status());
      records_ = nullptr;
      return;
    }
    if (!record.ok()) {
      AddProblem(record_path_, Annotate(record.status(), name));
    } else if (seen_.size() == kMsprobeRecordsMax) {
      AddProblem(record_path_,
                 MakeStatus(absl::StatusCode::kResourceExhausted,
                            "{}: only the first {} records are read", name,
                            kMsprobeRecordsMax));
      records_ = nullptr;
    } else if (!seen_.insert(name).second) {
      AddProblem(record_path_,
                 MakeStatus(absl::StatusCode::kAlreadyExists,
                            "{}: there is another record of that name", name));
    } else {
      TakeLeaves(name, *record);
    }
  }

  void TakeLeaves(const std::string& name, const JsonValue& record) {
    MsprobeLeaves found = LeavesOfMsprobe(name, record);
    for (const absl::Status& problem : found.problems) {
      AddProblem(record_path_, Annotate(problem, name));
    }
    const std::string stack(stacks_.Find(name));
    std::set<std::pair<Io, std::string>> taken;
    for (MsprobeLeaf& leaf : found.leaves) {
      const auto key = KeyOfMsprobe(leaf.name);
      if (!key || !taken.emplace(key->io, key->index).second) {
        AddProblem(record_path_,
                   MakeStatus(absl::StatusCode::kInvalidArgument,
                              "{}: its name is invalid or not unique",
                              MsprobeFileName(leaf.name)));
        continue;
      }
      TreeEntry entry;
      entry.key = key_;
      entry.key.op = key->op;
      entry.key.call = key->call;
      entry.key.io = key->io;
      entry.key.index = key->index;
      if (!CheckKey(entry.key, record_path_)) continue;
      entry.requires_grad = leaf.requires_grad;
      entry.stack = stack;
      TakeLeaf(std::move(leaf), entry);
      entries_.push_back(std::move(entry));
    }
  }

  // Sets the properties of the entry.
  void TakeLeaf(MsprobeLeaf leaf, TreeEntry& entry) {
    if (!leaf.file.empty()) {
      const std::string path =
          PathIn(JoinPath(names::kMsprobeTensors, leaf.file));
      const auto file = tensor_files_.find(leaf.file);
      if (file != tensor_files_.end()) {
        file->second = true;
        entry.file = path;
        return;
      }
      AddProblem(path, absl::NotFoundError(
                           "an entry names it, but it does not exist"));
      entry.is_substitute = true;
    }
    entry.kind = leaf.kind;
    entry.text = std::move(leaf.text);
    entry.dtype = leaf.dtype;
    entry.shape = std::move(leaf.shape);
  }

  const std::vector<MsprobePlace> places_;
  // As in TreeOptions.
  const std::string record_file_;
  size_t next_place_ = 0;

  // The place that is being read. The documents and files of records that are
  // left are in reverse order.
  std::string path_;
  TensorKey key_;
  MsprobeStacks stacks_;
  std::vector<std::string> documents_;
  std::vector<std::string> record_files_;
  // Whether an entry names each file.
  std::unordered_map<std::string, bool> tensor_files_;
  bool has_excluded_ = false;
  std::unordered_set<std::string> seen_;

  std::string record_path_;
  std::unique_ptr<MsprobeRecords> records_;
  std::vector<TreeEntry> entries_;
  size_t next_entry_ = 0;
};

}  // namespace

OpenedTree OpenMsprobeTree(const TreeFolder& folder,
                           const TreeOptions& options) {
  std::optional<TreeFolder> whole = folder;
  if (!folder.is_part()) {
    // A file dump.json represents the folder that contains it.
    MSITD_ASSIGN_OR_RETURN(whole, TreeFolder::Open(folder.PathOf("")));
  }
  MSITD_ASSIGN_OR_RETURN(MsprobeLayout layout, LayOutMsprobe(*whole));
  return std::make_unique<MsprobeTree>(*whole, std::move(layout),
                                       options.record_file);
}

}  // namespace msitd::trees
