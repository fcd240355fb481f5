// SPDX-License-Identifier: Apache-2.0
#include "client/import/formats/npz_file.h"

#include <algorithm>
#include <utility>

#include "client/import/formats/npy_file.h"

namespace msitd::formats {
namespace {

constexpr std::string_view kSuffix = ".npy";

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
                                      std::move(entries));
}

}  // namespace msitd::formats
