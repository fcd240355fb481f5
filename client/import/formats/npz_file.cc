// SPDX-License-Identifier: Apache-2.0
#include "client/import/formats/npz_file.h"

#include <utility>

#include "client/import/formats/npy_file.h"

namespace msitd::formats {
namespace {

constexpr std::string_view kSuffix = ".npy";

}  // namespace

OpenedFile OpenNpz(const std::shared_ptr<ZipArchive>& archive,
                   const OpenOptions& options) {
  std::vector<FileEntry> entries;
  for (size_t i = 0; i < archive->members().size(); ++i) {
    std::string name = archive->members()[i].name;
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
