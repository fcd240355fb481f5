// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/detect.h"

#include <algorithm>
#include <array>
#include <utility>

#include "client/foreign/formats/tensor_file.h"
#include "client/foreign/trees/atb_tree.h"
#include "client/foreign/trees/files_tree.h"
#include "client/foreign/trees/ge/fx_tree.h"
#include "client/foreign/trees/ge/ge_tree.h"
#include "client/foreign/trees/msit_tree.h"
#include "client/foreign/trees/msprobe/msprobe_layout.h"
#include "client/foreign/trees/msprobe/msprobe_tree.h"
#include "client/foreign/trees/tree_limits.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

// The header of each reader describes the files that it detects.
constexpr auto kReaders = std::to_array<TreeReader>({
    {TreeKind::kGe, &LooksLikeGe, &OpenGeTree},
    {TreeKind::kFx, &LooksLikeFx, &OpenFxTree},
    {TreeKind::kMindie, &LooksLikeMindie, &OpenMindieTree},
    {TreeKind::kMsit, &LooksLikeMsit, &OpenMsitTree},
    {TreeKind::kAtb, &LooksLikeAtb, &OpenAtbTree},
    {TreeKind::kMsprobe, &LooksLikeMsprobe, &OpenMsprobeTree},
    {TreeKind::kFiles, nullptr, &OpenFilesTree},
});

// Returns true if one of the first files of the sample contains tensors.
bool HoldsTensors(const TreeFolder& folder, const TreeSample& sample) {
  int probed = 0;
  for (const SampledFolder& sampled : sample.folders) {
    for (const std::string& name : sampled.files) {
      if (probed++ == kProbedFilesMax) return false;
      const std::string path = folder.PathOf(JoinPath(sampled.path, name));
      if (formats::OpenTensorFile(path, {}).ok()) return true;
    }
  }
  return false;
}

}  // namespace

TreeSample TakeSample(const TreeFolder& folder) {
  TreeSample sample;
  sample.above = folder.above();
  sample.folders.push_back({"", {}, {}});
  for (size_t i = 0; i < sample.folders.size(); ++i) {
    const std::string path = sample.folders[i].path;
    Listing listing = folder.List(path);
    const size_t depth = SplitPath(path).size();
    listing.folders.resize(
        std::min(listing.folders.size(), kSampleSubfoldersMax));
    for (const std::string& name : listing.folders) {
      if (sample.folders.size() == kSampleFoldersMax) break;
      if (depth == kDepthMax) break;
      sample.folders.push_back({JoinPath(path, name), {}, {}});
    }
    listing.files.resize(std::min(listing.files.size(), kSampleFilesMax));
    sample.folders[i].folders = std::move(listing.folders);
    sample.folders[i].files = std::move(listing.files);
  }
  return sample;
}

absl::StatusOr<TreeReader> ReaderOf(TreeKind kind) {
  for (const TreeReader& reader : kReaders) {
    if (reader.kind == kind) return reader;
  }
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "there is no reader for trees of {}", TreeKindName(kind));
}

absl::StatusOr<TreeReader> DetectReader(const TreeFolder& folder) {
  const TreeSample sample = TakeSample(folder);
  std::vector<TreeReader> found;
  std::string names;
  for (const TreeReader& reader : kReaders) {
    if (reader.fits == nullptr || !reader.fits(sample)) continue;
    names += names.empty() ? "" : " or ";
    names += TreeKindName(reader.kind);
    found.push_back(reader);
  }
  if (found.size() == 1) return found[0];
  if (found.size() > 1) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "it could be a tree of {}: select the format, or use a "
                      "folder with only one of them",
                      names);
  }
  if (HoldsTensors(folder, sample)) return ReaderOf(TreeKind::kFiles);
  return absl::InvalidArgumentError(
      "it is not a tree of a known format, and its first files contain no "
      "tensors");
}

}  // namespace msitd::trees
