// SPDX-License-Identifier: Apache-2.0
#include "storage/merge/split_rank_scan.h"

#include <algorithm>
#include <utility>

#include "protos/base/byte_codec.h"
#include "protos/base/record_kind.h"
#include "protos/status/status.h"
#include "storage/merge/share_place.h"

namespace msitd::storage {
namespace {

bool HasTokenOf(const Selector& selector, const TokenSpan& span) {
  return selector.tokens.empty() ||
         std::any_of(selector.tokens.begin(), selector.tokens.end(),
                     [&span](const TokenRange& range) {
                       return range.first <= span.last &&
                              span.first <= range.last;
                     });
}

}  // namespace

SplitRankScan::SplitRankScan(std::span<const RunShare> shares, int32_t rank,
                             const SplitRank& split, Selector selector)
    : shares_(shares), rank_(rank), selector_(std::move(selector)) {
  for (const SplitDevice& device : split.devices) {
    if (selector_.HasDevice(device.name)) devices_.push_back(&device);
  }
}

absl::StatusOr<std::unique_ptr<TensorScan>> SplitRankScan::Begin(
    std::span<const RunShare> shares, int32_t rank, const SplitRank& split,
    Selector selector, std::string_view position) {
  std::unique_ptr<SplitRankScan> out(
      new SplitRankScan(shares, rank, split, std::move(selector)));
  out->BeginDevice();
  if (!position.empty() && !out->SetPosition(position)) {
    return WithReason(MakeStatus(absl::StatusCode::kInvalidArgument,
                                 "the position is of another scan"),
                      ErrorReason::kPageTokenInvalid);
  }
  return std::unique_ptr<TensorScan>(std::move(out));
}

void SplitRankScan::BeginDevice() {
  sources_.clear();
  last_token_ = -1;
  if (device_ == devices_.size()) return;
  for (const TokenSpan& span : devices_[device_]->spans) {
    if (!HasTokenOf(selector_, span)) continue;
    Source& source = sources_.emplace_back();
    source.share = span.share;
    source.token = span.first;
  }
}

SplitRankScan::Source* SplitRankScan::FirstSource() {
  Source* first = nullptr;
  for (Source& source : sources_) {
    if (source.is_over) continue;
    if (first == nullptr || source.token < first->token) first = &source;
  }
  return first;
}

absl::StatusOr<bool> SplitRankScan::Next(TensorInfo& out, StopCheck stop) {
  while (device_ < devices_.size()) {
    Source* const source = FirstSource();
    if (source == nullptr) {
      ++device_;
      BeginDevice();
      continue;
    }
    if (!source->has_next) {
      MSITD_RETURN_IF_ERROR(ReadNext(*source, stop));
      continue;
    }
    bool is_copy = false;
    MSITD_RETURN_IF_ERROR(Check(source->share, source->next, is_copy));
    out = std::move(source->next);
    source->has_next = false;
    source->position = source->scan->position();
    last_token_ = out.key.token;
    last_share_ = source->share;
    if (is_copy) continue;
    MSITD_RETURN_IF_ERROR(ToMergedPlaces(source->share, out));
    return true;
  }
  return false;
}

absl::Status SplitRankScan::ReadNext(Source& source, StopCheck stop) {
  if (source.scan == nullptr) {
    Selector selector = selector_;
    selector.ranks = {rank_};
    selector.devices = {devices_[device_]->name};
    MSITD_ASSIGN_OR_RETURN(
        source.scan, shares_[source.share].reader->Scan(std::move(selector),
                                                        source.position));
  }
  const absl::StatusOr<bool> found = source.scan->Next(source.next, stop);
  if (!found.ok()) {
    source.position = source.scan->position();
    return found.status();
  }
  if (*found) {
    source.has_next = true;
    source.token = source.next.key.token;
    return absl::OkStatus();
  }
  incomplete_count_ += source.scan->incomplete_count();
  source.is_over = true;
  source.scan = nullptr;
  return absl::OkStatus();
}

absl::Status SplitRankScan::Check(size_t share, const TensorInfo& record,
                                  bool& is_copy) {
  const int64_t token = record.key.token;
  const auto& shared_tokens = devices_[device_]->shared_tokens;
  const auto shared = shared_tokens.find(token);
  const bool goes_on =
      last_token_ < token ||
      (last_token_ == token &&
       (last_share_ == share || shared != shared_tokens.end()));
  if (!goes_on) {
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "{}: a record of rank {}, token {} is not where its "
                      "tokens were listed",
                      shares_[share].place, rank_, token);
  }
  is_copy = record.kind == RecordKind::kDocument &&
            shared != shared_tokens.end() &&
            shared->second.contains(ShareDocumentOf(share, record.key));
  return absl::OkStatus();
}

std::string SplitRankScan::position() const {
  std::string position;
  ByteWriter out(position);
  const bool is_end = device_ == devices_.size();
  out.PutByte(is_end ? 0 : 1);
  if (is_end) return position;
  out.PutText(devices_[device_]->name);
  out.PutVarint(static_cast<uint64_t>(last_token_ + 1));
  out.PutVarint(last_share_);
  for (const Source& source : sources_) {
    out.PutVarint(source.share);
    out.PutByte(source.is_over ? 1 : 0);
    out.PutText(source.position);
  }
  return position;
}

bool SplitRankScan::SetPosition(std::string_view position) {
  ByteReader in(position);
  if (in.GetByte() == 0) {
    device_ = devices_.size();
    BeginDevice();
    return in.done();
  }
  const std::string_view name = in.GetText();
  const auto device = std::find_if(
      devices_.begin(), devices_.end(),
      [name](const SplitDevice* one) { return one->name == name; });
  if (device == devices_.end()) return false;
  device_ = static_cast<size_t>(device - devices_.begin());
  BeginDevice();
  last_token_ = static_cast<int64_t>(in.GetVarint()) - 1;
  last_share_ = in.GetVarint();
  for (Source& source : sources_) {
    if (in.GetVarint() != source.share) return false;
    source.is_over = in.GetByte() != 0;
    source.position = in.GetText();
  }
  return in.done();
}

uint64_t SplitRankScan::incomplete_count() const {
  uint64_t out = incomplete_count_;
  for (const Source& source : sources_) {
    if (source.scan != nullptr) out += source.scan->incomplete_count();
  }
  return out;
}

}  // namespace msitd::storage
