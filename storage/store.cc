// SPDX-License-Identifier: Apache-2.0
#include "storage/store.h"

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "protos/status/status.h"
#include "storage/store_files.h"
#include "storage/store_impl.h"

namespace msitd::storage {
namespace {

uint64_t RandomStoreId() {
  std::random_device random;
  uint64_t id = 0;
  while (id == 0) id = uint64_t{random()} << 32 | random();
  return id;
}

// Appends instructions on how to repair a damaged index.
absl::Status WithRemedy(const absl::Status& status,
                        const std::string& directory) {
  // RocksDB does not classify a missing file as corruption.
  const bool is_missing_file =
      absl::IsUnavailable(status) &&
      status.message().find("No such file") != std::string_view::npos;
  if (!absl::IsDataLoss(status) && !is_missing_file) return status;
  return absl::Status(
      status.code(),
      fmt::format("{}. To make the index again from the segments, run: "
                  "msitd-inspect rebuild --data-dir {}. To read the store "
                  "first and change nothing, start msitd with --recover",
                  Message(status), directory));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const StoreOptions& options,
                                                   Env& env) {
  const auto open = [&]() -> absl::StatusOr<std::unique_ptr<Store>> {
    const std::string segments = SegmentDirectory(options.directory);
    MSITD_RETURN_IF_ERROR(env.CreateDirectory(options.directory));
    MSITD_ASSIGN_OR_RETURN(
        DirectoryLock lock,
        DirectoryLock::Acquire(options.directory,
                               DirectoryLock::Mode::kExclusive));
    MSITD_RETURN_IF_ERROR(env.CreateDirectory(segments));
    MSITD_RETURN_IF_ERROR(
        env.CreateDirectory(IndexDirectory(options.directory)));
    MSITD_RETURN_IF_ERROR(CheckIndex(options, env));
    std::unique_ptr<Ballast> ballast = MakeBallast(options, env);
    MSITD_ASSIGN_OR_RETURN(std::unique_ptr<ChunkIndex> index,
                           OpenIndex(options, env, *ballast, /*creates=*/true));
    if (index->store_id() == 0) {
      MSITD_RETURN_IF_ERROR(CheckNoSegments(env, segments));
      MSITD_RETURN_IF_ERROR(index->Initialise(RandomStoreId()));
    }
    MSITD_RETURN_IF_ERROR(index->RaiseVersion());
    auto store = std::make_unique<StoreImpl>(
        options, env, std::move(lock), std::move(ballast), std::move(index));
    MSITD_RETURN_IF_ERROR(store->Recover());
    return std::unique_ptr<Store>(std::move(store));
  };
  absl::StatusOr<std::unique_ptr<Store>> store = open();
  if (!store.ok()) {
    return Annotate(WithRemedy(store.status(), options.directory),
                    "open store " + options.directory);
  }
  return store;
}

StoreImpl::StoreImpl(const StoreOptions& options, Env& env, DirectoryLock lock,
                     std::unique_ptr<Ballast> ballast,
                     std::unique_ptr<ChunkIndex> index)
    : lock_(std::move(lock)),
      ballast_(std::move(ballast)),
      index_(std::move(index)),
      reader_(env, SegmentDirectory(options.directory), options.direct_io),
      room_(env, *ballast_, SegmentDirectory(options.directory)),
      appends_(index_),
      runs_(index_, env, room_, appends_,
            [this] { upkeep_.TryEmptyGoneRuns(); }),
      comparisons_(index_, room_),
      attachments_(index_, env, room_),
      readers_(index_, reader_),
      log_(options, env, {index_, reader_, room_, appends_, figures_},
           [this] { return upkeep_.ReopenLostIndex(); }),
      upkeep_(
          options, env,
          {*ballast_, index_, reader_, room_, attachments_, log_, figures_}) {}

StoreImpl::~StoreImpl() = default;

}  // namespace msitd::storage
