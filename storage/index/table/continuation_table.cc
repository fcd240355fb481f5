// SPDX-License-Identifier: Apache-2.0
#include "storage/index/table/continuation_table.h"

#include <rocksdb/write_batch.h>

#include <optional>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"
#include "storage/index/db/index_key.h"
#include "storage/index/db/index_value.h"

namespace msitd::storage {
namespace {

constexpr uint8_t kContinuationVersion = 1;

std::string RankKey(RunId run, int32_t rank) {
  const std::string number = BigEndianKey(static_cast<uint64_t>(rank));
  return RunPrefix(kRankContinuationTag, static_cast<uint64_t>(run)) +
         number.substr(4);
}

}  // namespace

absl::StatusOr<RunContinuations> ContinuationTable::Get(RunId run,
                                                        int32_t rank) {
  RunContinuations out;
  MSITD_ASSIGN_OR_RETURN(
      const std::optional<std::string> jobs,
      db_.Get(Table::kRun,
              RunPrefix(kContinuationsTag, static_cast<uint64_t>(run))));
  if (jobs.has_value() && !DecodeContinuations(*jobs, out.jobs)) {
    return IndexCorrupt("run");
  }
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> own,
                         db_.Get(Table::kRun, RankKey(run, rank)));
  if (own.has_value() && !DecodeRankContinuation(*own, out.rank.emplace())) {
    return IndexCorrupt("run");
  }
  return out;
}

void ContinuationTable::AppendTo(rocksdb::WriteBatch& batch, RunId run,
                                 const std::vector<Continuation>& jobs) const {
  db_.Put(batch, Table::kRun,
          RunPrefix(kContinuationsTag, static_cast<uint64_t>(run)),
          EncodeContinuations(jobs));
}

void ContinuationTable::AppendTo(rocksdb::WriteBatch& batch, RunId run,
                                 int32_t rank,
                                 const RankContinuation& continuation) const {
  db_.Put(batch, Table::kRun, RankKey(run, rank),
          EncodeRankContinuation(continuation));
}

void ContinuationTable::AppendRemovalTo(rocksdb::WriteBatch& batch,
                                        RunId run) const {
  const auto id = static_cast<uint64_t>(run);
  for (const char tag : {kContinuationsTag, kRankContinuationTag}) {
    db_.DeleteRange(batch, Table::kRun, RunPrefix(tag, id),
                    RunPrefix(tag, id + 1));
  }
}

std::string EncodeContinuations(const std::vector<Continuation>& jobs) {
  std::string out;
  ByteWriter writer(out);
  writer.PutByte(kContinuationVersion);
  writer.PutVarint(jobs.size());
  for (const Continuation& each : jobs) {
    writer.PutText(each.job);
    writer.PutVarint(each.number);
    writer.PutVarint(static_cast<uint64_t>(each.first_token));
  }
  return out;
}

bool DecodeContinuations(std::string_view bytes,
                         std::vector<Continuation>& out) {
  ByteReader reader(bytes);
  if (reader.GetByte() != kContinuationVersion) return false;
  out.clear();
  for (uint64_t left = reader.GetVarint(); left > 0 && reader.ok(); --left) {
    Continuation& each = out.emplace_back();
    each.job = reader.GetText();
    each.number = reader.GetVarint();
    each.first_token = static_cast<int64_t>(reader.GetVarint());
  }
  return reader.done();
}

std::string EncodeRankContinuation(const RankContinuation& continuation) {
  std::string out;
  ByteWriter writer(out);
  writer.PutByte(kContinuationVersion);
  writer.PutVarint(continuation.number);
  writer.PutFixed64(continuation.stream_id);
  return out;
}

bool DecodeRankContinuation(std::string_view bytes, RankContinuation& out) {
  ByteReader reader(bytes);
  if (reader.GetByte() != kContinuationVersion) return false;
  out.number = reader.GetVarint();
  out.stream_id = reader.GetFixed64();
  return reader.done();
}

}  // namespace msitd::storage
