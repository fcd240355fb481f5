// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/archive/archive_url.h"
#include "storage/archive/object_store.h"
#include "storage/archive/s3_objects.h"
#include "storage/run_sources.h"

namespace msitd::storage {

// The folders of runs that may be used: those in the configuration, and folders
// below them. Thread-safe.
class ArchivePlaces {
 public:
  struct Options {
    std::vector<std::string> urls;
    S3Options s3;  // S3 is not available without an endpoint.
  };

  // Errors: INVALID_ARGUMENT for an invalid URL of an archive, for S3 without
  // an endpoint, and for an endpoint that may not be used.
  static absl::StatusOr<std::unique_ptr<ArchivePlaces>> Create(Options options);

  // Opens the objects of a folder, without a request to a server. Later
  // requests wait as long as `wait` permits.
  //
  // Errors: those of ParseArchiveUrl; PERMISSION_DENIED for a folder that is
  // not allowed.
  absl::StatusOr<std::shared_ptr<ObjectStore>> Open(std::string_view url,
                                                    WaitCheck wait = {});

  // Ends all waits for a server with CANCELLED.
  void Stop() { stops_ = true; }

 private:
  explicit ArchivePlaces(Options options)
      : options_(std::move(options)), connections_(MakeS3Connections()) {
    options_.s3.stops = &stops_;
  }

  std::atomic<bool> stops_ = false;
  // Constant after Create.
  Options options_;
  std::vector<ArchiveUrl> urls_;
  const std::shared_ptr<S3Connections> connections_;
};

// Opens runs of archives. Any source that contains `://` is treated as an
// archive, so that a URL with a secret is not passed on. Thread-safe.
class ArchiveSource final : public RunSource {
 public:
  // `places` must outlive this object.
  explicit ArchiveSource(ArchivePlaces& places) : places_(places) {}

  bool Takes(std::string_view source) const override { return IsUrl(source); }
  absl::StatusOr<std::unique_ptr<RunReader>> Open(
      const RunAddress& run, const WaitCheck& wait) override;

 private:
  ArchivePlaces& places_;
};

}  // namespace msitd::storage
