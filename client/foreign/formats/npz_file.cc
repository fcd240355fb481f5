// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/npz_file.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "client/foreign/formats/format_limits.h"
#include "client/foreign/formats/npy_file.h"

namespace msitd::formats {
namespace {

constexpr std::string_view kSuffix = ".npy";

// Returns which arguments of an op the array with this name contains, in a file
// that a script creates from a GE dump; nothing for other names.
Io SideOf(std::string_view name) {
  if (name == "inputs") return Io::kInput;
  return name == "outputs" ? Io::kOutput : Io::kUnspecified;
}

// Returns true if the array has a row with the smallest and largest element for
// each tensor, or no rows.
bool HasMinMaxRows(const ForeignTensor& tensor) {
  const std::vector<int64_t>& shape = tensor.shape;
  if (!tensor.problem.ok() || !IsValid(SideOf(tensor.name))) return false;
  if (shape.size() == 1) return shape[0] == 0;
  return shape.size() == 2 && shape[1] == 2 &&
         static_cast<uint64_t>(shape[0]) <= kTensorsMax / 2;
}

// Creates a tensor from each row, if the archive contains only such arrays.
std::vector<FileEntry> SplitMinMax(std::vector<FileEntry> entries) {
  const bool is_min_max =
      entries.size() == 2 && entries[0].tensor.name != entries[1].tensor.name &&
      HasMinMaxRows(entries[0].tensor) && HasMinMaxRows(entries[1].tensor);
  if (!is_min_max) return entries;
  std::vector<FileEntry> rows;
  for (const FileEntry& entry : entries) {
    for (int64_t row = 0; row < entry.tensor.shape[0]; ++row) {
      ForeignTensor tensor = entry.tensor;
      tensor.name.clear();
      tensor.io = SideOf(entry.tensor.name);
      tensor.index = std::to_string(row);
      tensor.shape = {2};
      tensor.stored_shape = {2};
      StoredTensor stored = entry.stored;
      stored.first_element +=
          static_cast<uint64_t>(row) * stored.axes[0].stride;
      stored.axes.erase(stored.axes.begin());
      rows.push_back(MakeEntry(std::move(tensor), std::move(stored)));
    }
  }
  return rows;
}

}  // namespace

OpenedFile OpenNpz(const std::shared_ptr<ZipArchive>& archive,
                   const OpenOptions& options) {
  const auto& members = archive->members();
  const bool has_arrays = std::any_of(members.begin(), members.end(),
                                      [](const ZipArchive::Member& member) {
                                        return member.name.ends_with(kSuffix);
                                      });
  if (!members.empty() && !has_arrays) {
    return absl::InvalidArgumentError("npz: the archive has no arrays");
  }
  std::vector<FileEntry> entries;
  for (size_t i = 0; i < members.size(); ++i) {
    std::string name = members[i].name;
    if (name.ends_with('/')) continue;
    if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
    auto entry = ReadNpyEntry(ZipArchive::BytesOf(archive, i), options);
    if (!entry.ok()) entry = MakeProblem(ForeignTensor(), entry.status());
    entry->tensor.name = std::move(name);
    entries.push_back(*std::move(entry));
  }
  return std::make_unique<TensorFile>(FileKind::kNpz, Attributes(),
                                      SplitMinMax(std::move(entries)));
}

}  // namespace msitd::formats
