// SPDX-License-Identifier: Apache-2.0
// Batches of entries, as received from another daemon or an archive. A batch
// that can be read is written to another batch, which contains the same
// entries.
#include "protos/base/check.h"
#include "storage/batch/entry_batch.h"
#include "tests/fuzz/fuzz_target.h"

namespace msitd::storage {
namespace {

TensorInfo Seed(int number) {
  TensorInfo out;
  out.key = {"run", number, "npu:0", 7, "layer.0", 1, Io::kOutput, "0"};
  out.dtype = DType::kFloat16;
  out.shape = {4, 3};
  out.tensor_bytes = 24;
  out.summary.count = 12;
  out.has_bytes = number != 1;
  out.parts.resize(1);
  out.parts.front().has_bytes = out.has_bytes;
  if (number == 1) {
    out.has_sample = out.parts.front().has_sample = true;
    out.placement = "0+2/1:S(0)";
  }
  if (number == 2) {
    out.alias_of = {"layer.1", 0, Io::kInput, "1"};
    out.stack = "File model.py, line 3";
    out.requires_grad = true;
  }
  return out;
}

// Copies all entries of a batch to another one. Returns false if the batch
// contains no complete entry.
bool Copy(std::string_view batch, std::string& out) {
  auto reader = EntryBatchReader::Open(std::string(batch), "run");
  if (!reader.ok()) return false;
  EntryBatchWriter writer;
  TensorInfo entry;
  while (true) {
    const absl::StatusOr<bool> more = reader->Next(entry);
    if (!more.ok()) return false;
    if (!*more) break;
    if (writer.is_full()) return false;
    writer.Add(entry);
  }
  out = writer.Finish();
  return true;
}

}  // namespace
}  // namespace msitd::storage

namespace msitd::fuzz {

std::vector<std::string> Seeds() {
  storage::EntryBatchWriter writer;
  std::vector<std::string> seeds = {writer.Finish()};
  for (int number = 0; number < 3; ++number) {
    writer.Add(storage::Seed(number));
    seeds.push_back(writer.Finish());
  }
  for (int number = 0; number < 3; ++number) writer.Add(storage::Seed(number));
  seeds.push_back(writer.Finish());
  return seeds;
}

}  // namespace msitd::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  std::string once;
  std::string twice;
  if (!msitd::storage::Copy(input, once)) return 0;
  MSITD_CHECK(msitd::storage::Copy(once, twice));
  MSITD_CHECK(once == twice);
  return 0;
}
