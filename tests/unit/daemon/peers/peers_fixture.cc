// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/daemon/peers/peers_fixture.h"

#include <utility>

#include "protos/base/limits.h"
#include "protos/base/resource_name.h"
#include "protos/status/status.h"
#include "storage/batch/entry_batch.h"

namespace msitd::peers {

std::string EntriesOf(storage::RunReader& run, const Selector& selector,
                      bool with_places) {
  auto scan = run.Scan(selector, "");
  if (!scan.ok()) return std::string(Message(scan.status()));
  storage::EntryBatchWriter writer;
  std::string out;
  storage::TensorInfo entry;
  while (true) {
    const auto found = (*scan)->Next(entry);
    if (!found.ok()) return std::string(Message(found.status()));
    if (!*found) break;
    EXPECT_EQ(entry.key.run, run.name());
    if (!with_places) {
      for (storage::PartInfo& part : entry.parts) part.place = {};
      entry.stack.clear();
      entry.alias_of.reset();
    }
    writer.Add(entry);
    if (writer.is_full()) out += writer.Finish();
  }
  return out + writer.Finish();
}

std::vector<std::string> NamesOf(storage::RunReader& run,
                                 const Selector& selector) {
  std::vector<std::string> out;
  auto scan = run.Scan(selector, "");
  EXPECT_TRUE(scan.ok()) << Message(scan.status());
  if (!scan.ok()) return out;
  storage::TensorInfo entry;
  while (true) {
    const auto found = (*scan)->Next(entry);
    EXPECT_TRUE(found.ok()) << Message(found.status());
    if (!found.ok() || !*found) return out;
    out.push_back(FormatTensorName(entry.key));
  }
}

Selector Everything() {
  Selector out;
  for (int kind = 0; kind < kRecordKindCount; ++kind) {
    out.kinds.push_back(static_cast<RecordKind>(kind));
  }
  return out;
}

void PeersFixture::Record(storage::Store& store, const std::string& run,
                          uint32_t seed, bool seals) {
  ASSERT_TRUE(store.runs().CreateRun({run, 3, {{"model", "m"}}}).ok());
  for (int32_t rank = 0; rank < 2; ++rank) {
    for (int64_t token = 0; token < 3; ++token) {
      const bool is_last = rank == 1 && token == 2;
      std::vector<testing::TestTensor> records;
      const auto add = [&](testing::TestTensor tensor) {
        tensor.key.rank = rank;
        tensor.sequence = records.size();
        records.push_back(std::move(tensor));
      };
      add(testing::MakeTensor(run, token, "linear", 4096,
                              is_last ? seed : 1 + 10 * rank));
      add(testing::MakeTensor(run, token, "norm", 333, 7));
      records.back().placement = "0+2/1:S(0)";
      records.back().requires_grad = true;
      records.back().stack = "a.py:1 forward";
      add(testing::MakeAlias(records[0], "twin"));
      add(testing::MakeTensor(run, token, "empty", 0));
      add(testing::MakeValue(run, token, RecordKind::kText, "mode",
                             is_last && seed != 1 ? "eval" : "train"));
      add(testing::MakeStatistics(run, token, "head", "{\"max\": 1.5}"));
      testing::TestChunks chunks(100 + static_cast<uint64_t>(rank),
                                 static_cast<uint64_t>(token), records);
      const absl::Status status = store.log().Append(chunks.span());
      ASSERT_TRUE(status.ok()) << Message(status);
    }
    ASSERT_TRUE(store.log()
                    .ReportCoverage(run, rank,
                                    100 + static_cast<uint64_t>(rank),
                                    {.seen_count = 18})
                    .ok());
  }
  if (!seals) return;
  ASSERT_TRUE(store.runs().SealRun(run).ok());
}

}  // namespace msitd::peers
