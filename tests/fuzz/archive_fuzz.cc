// SPDX-License-Identifier: Apache-2.0
// Manifests, directories, comparisons, S3 listings and URLs, as received from
// an object store or a caller. Data that can be parsed is serialized, and can
// then be parsed again.
#include <span>
#include <utility>

#include "protos/base/check.h"
#include "protos/chunk/chunk.h"
#include "storage/archive/archive_format.h"
#include "storage/archive/archive_url.h"
#include "storage/archive/comparison_objects.h"
#include "storage/archive/s3_answer.h"
#include "tests/fuzz/fuzz_target.h"

namespace msitd::storage {
namespace {

ArchiveManifest SeedManifest() {
  ArchiveManifest out;
  out.run.spec = {"run", 2, {{"model", "minilm"}}, "job", "uid:1"};
  out.run.id = RunId{7};
  out.coverage = {{.rank = 0, .stream_count = 1, .total = {5, 1, 1, 1, 1}},
                  {.rank = 1, .stream_count = 1, .total = {}}};
  out.directory = {"directory-1", 100, {1, 2}};
  out.indexes = {{"index-000000-1", 1000, {3, 4}}};
  out.packs = {{"pack-000000-1", 5000, {5, 6}}};
  out.attachments.push_back({{}, {"attachment-1", 5, {7, 8}}});
  out.attachments[0].info.name = "graph";
  out.entry_count = 5;
  return out;
}

std::string SeedDirectory() {
  ArchiveDirectory out;
  out.devices = {"npu:0", "npu:1"};
  out.placements = {"0+2/1:S(0)"};
  out.groups = {{0, 0, {{0, 2}, {3, 1}}}, {1, 1, {{0, 2}}}};
  out.blocks = {{0, 0, 500, {1, 2}, 3, {4, 9}}, {0, 500, 500, {3, 4}, 2, {4}}};
  return EncodeDirectory(out);
}

std::string SeedComparison() {
  return EncodeComparison({7, "document", 3, {{"rows-000000-1", 50, {1, 2}}}});
}

void Try(std::string_view input) {
  const auto comparison = DecodeComparison(input);
  if (comparison.ok()) {
    const auto again = DecodeComparison(EncodeComparison(*comparison));
    MSITD_CHECK(again.ok() && again->document == comparison->document &&
                again->rows == comparison->rows);
  }
  const ContentHash hash = chunk::HashBytes(std::as_bytes(std::span(input)));
  const auto manifest = DecodeManifest(
      std::string(input) + fuzz::BytesOf(hash.low) + fuzz::BytesOf(hash.high));
  if (manifest.ok()) {
    const auto again = DecodeManifest(EncodeManifest(*manifest));
    MSITD_CHECK(again.ok() && ContentOf(*again) == ContentOf(*manifest));
  }
  const ArchiveManifest whole = SeedManifest();
  const auto directory = DecodeDirectory(input, whole);
  if (directory.ok()) {
    MSITD_CHECK(DecodeDirectory(EncodeDirectory(*directory), whole).ok());
  }
  ObjectList list;
  std::string next;
  (void)ReadS3List(input, "p/", list, next);
  for (const std::string& name : list.objects) MSITD_CHECK(IsObjectKey(name));
  for (const std::string& name : list.folders) MSITD_CHECK(IsObjectKey(name));
  const auto url = ParseArchiveUrl(input);
  if (url.ok()) {
    const auto again = ParseArchiveUrl(url->ToString());
    MSITD_CHECK(again.ok() && *again == *url);
  }
  const std::string run = RunOfFolder(input);
  if (!run.empty()) MSITD_CHECK(*RunFolder(run) == input);
}

}  // namespace
}  // namespace msitd::storage

namespace msitd::fuzz {

std::vector<std::string> Seeds() {
  std::string manifest = storage::EncodeManifest(storage::SeedManifest());
  // Removes the hash, because no mutation would produce a valid one.
  manifest.resize(manifest.size() - 16);
  return {std::move(manifest),
          storage::SeedDirectory(),
          storage::SeedComparison(),
          "<ListBucketResult><IsTruncated>true</IsTruncated>"
          "<NextContinuationToken>a&amp;b</NextContinuationToken>"
          "<Contents><Key>p/one</Key></Contents>"
          "<CommonPrefixes><Prefix>p/two/</Prefix></CommonPrefixes>"
          "</ListBucketResult>",
          "s3://bucket/some/prefix",
          "file:///srv/runs",
          "a_x5Fxb"};
}

}  // namespace msitd::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  msitd::storage::Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
