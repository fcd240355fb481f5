// SPDX-License-Identifier: Apache-2.0
#include "storage/merge/merged_scan.h"

#include <algorithm>
#include <utility>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"
#include "storage/merge/share_place.h"
#include "storage/merge/split_rank_scan.h"

namespace msitd::storage {
namespace {

// A position consists of the first rank of a stretch and the position in its
// scan. The end is a rank that no stretch has.
constexpr uint64_t kEndRank = uint64_t{1} << 32;

absl::Status PositionInvalid() {
  return WithReason(MakeStatus(absl::StatusCode::kInvalidArgument,
                               "the position is of another scan"),
                    ErrorReason::kPageTokenInvalid);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorScan>> MergedScan::Begin(
    std::span<const RunShare> shares, std::vector<RankStretch> stretches,
    Selector selector, std::string_view position) {
  auto out = std::unique_ptr<MergedScan>(
      new MergedScan(shares, std::move(stretches), std::move(selector)));
  std::string_view inner;
  if (!position.empty()) {
    ByteReader in(position);
    const uint64_t rank = in.GetVarint();
    inner = in.GetText();
    if (!in.done()) return PositionInvalid();
    const auto stretch =
        std::find_if(out->stretches_.begin(), out->stretches_.end(),
                     [rank](const RankStretch& s) {
                       return static_cast<uint64_t>(s.ranks.front()) == rank;
                     });
    if (stretch == out->stretches_.end() && rank != kEndRank) {
      return PositionInvalid();
    }
    out->at_ = static_cast<size_t>(stretch - out->stretches_.begin());
  }
  MSITD_RETURN_IF_ERROR(out->BeginStretch(inner));
  return out;
}

absl::Status MergedScan::BeginStretch(std::string_view position) {
  scan_.reset();
  if (at_ == stretches_.size()) return absl::OkStatus();
  const RankStretch& stretch = stretches_[at_];
  if (stretch.split != nullptr) {
    MSITD_ASSIGN_OR_RETURN(
        scan_, SplitRankScan::Begin(shares_, stretch.ranks.front(),
                                    *stretch.split, selector_, position));
    return absl::OkStatus();
  }
  Selector selector = selector_;
  selector.ranks = stretch.ranks;
  MSITD_ASSIGN_OR_RETURN(scan_, shares_[stretch.share].reader->Scan(
                                    std::move(selector), position));
  return absl::OkStatus();
}

absl::StatusOr<bool> MergedScan::Next(TensorInfo& out, StopCheck stop) {
  while (scan_ != nullptr) {
    MSITD_ASSIGN_OR_RETURN(const bool found, scan_->Next(out, stop));
    if (found) {
      const RankStretch& stretch = stretches_[at_];
      // The scan of a split rank has converted the locations.
      if (stretch.split == nullptr) {
        MSITD_RETURN_IF_ERROR(ToMergedPlaces(stretch.share, out));
      }
      return true;
    }
    incomplete_count_ += scan_->incomplete_count();
    ++at_;
    MSITD_RETURN_IF_ERROR(BeginStretch(""));
  }
  return false;
}

std::string MergedScan::position() const {
  std::string position;
  ByteWriter out(position);
  const bool is_end = scan_ == nullptr;
  out.PutVarint(is_end ? kEndRank
                       : static_cast<uint64_t>(stretches_[at_].ranks.front()));
  out.PutText(is_end ? std::string() : scan_->position());
  return position;
}

uint64_t MergedScan::incomplete_count() const {
  return incomplete_count_ + (scan_ == nullptr ? 0 : scan_->incomplete_count());
}

}  // namespace msitd::storage
