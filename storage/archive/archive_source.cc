// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/archive_source.h"

#include <utility>

#include "protos/status/status.h"
#include "storage/archive/archive_reader.h"
#include "storage/archive/file_objects.h"

namespace msitd::storage {

absl::StatusOr<std::unique_ptr<ArchivePlaces>> ArchivePlaces::Create(
    Options options) {
  auto out = std::unique_ptr<ArchivePlaces>(new ArchivePlaces(options));
  for (size_t i = 0; i < options.urls.size(); ++i) {
    absl::StatusOr<ArchiveUrl> url = ParseArchiveUrl(options.urls[i]);
    if (!url.ok()) {
      return Annotate(url.status(), fmt::format("archives[{}]", i));
    }
    if (url->is_s3) {
      if (options.s3.endpoint.empty()) {
        return MakeStatus(absl::StatusCode::kInvalidArgument,
                          "archives[{}] is in S3, which needs "
                          "archive_s3_endpoint",
                          i);
      }
      if (const absl::Status status = CheckS3Endpoint(options.s3.endpoint);
          !status.ok()) {
        return Annotate(status, "archive_s3_endpoint");
      }
    }
    out->urls_.push_back(*std::move(url));
  }
  return out;
}

absl::StatusOr<std::shared_ptr<ObjectStore>> ArchivePlaces::Open(
    std::string_view text, WaitCheck wait) {
  MSITD_ASSIGN_OR_RETURN(const ArchiveUrl url, ParseArchiveUrl(text));
  for (const ArchiveUrl& top : urls_) {
    if (!url.IsWithin(top)) continue;
    if (!url.is_s3) return OpenFileObjects(top.path, url.Below(top));
    S3Options options = options_.s3;
    options.wait = std::move(wait);
    return OpenS3Objects(options, connections_, url.bucket, url.path);
  }
  return MakeStatus(absl::StatusCode::kPermissionDenied,
                    "{} is not allowed by the configuration of the daemon: its "
                    "key `archives` names the archives that may be used, and "
                    "there {}",
                    url.ToString(),
                    urls_.empty() ? "is none" : "is none that holds this one");
}

absl::StatusOr<std::unique_ptr<RunReader>> ArchiveSource::Open(
    const RunAddress& run, const WaitCheck& wait) {
  MSITD_ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store,
                         places_.Open(run.source, wait));
  return OpenArchivedRun(std::move(store), run.name);
}

}  // namespace msitd::storage
