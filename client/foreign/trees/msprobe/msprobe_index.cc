// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/msprobe/msprobe_index.h"

#include <fmt/format.h>

#include <utility>

#include "client/foreign/formats/byte_source.h"
#include "client/foreign/trees/json/json_value.h"
#include "client/foreign/trees/msprobe/msprobe_record.h"
#include "client/foreign/trees/msprobe/msprobe_records.h"
#include "client/foreign/trees/tree_folder.h"
#include "client/foreign/trees/tree_limits.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

std::string TextOfKey(const names::MsprobeKey& key) {
  return fmt::format("{}/{}/{}/{}", static_cast<int>(key.io), key.call,
                     key.index, key.op);
}

}  // namespace

absl::StatusOr<MsprobeIndex> MsprobeIndex::Read(const std::string& folder,
                                                Source source) {
  MsprobeIndex out;
  MSITD_RETURN_IF_ERROR(out.ReadRecords(JoinPath(folder, FileOf(source))));
  const auto stacks = formats::FileSource::Open(
      JoinPath(folder, std::string(names::kMsprobeStack)));
  if (!stacks.ok()) return out;
  out.has_stacks_ = true;
  // The import reports an error. The stacks before it are used.
  out.stacks_.Read(**stacks).IgnoreError();
  return out;
}

absl::Status MsprobeIndex::ReadRecords(const std::string& path) {
  MSITD_ASSIGN_OR_RETURN(auto file, formats::FileSource::Open(path));
  MsprobeRecords records(std::move(file));
  size_t count = 0;
  for (;;) {
    const auto has_next = records.Next();
    if (count == 0) {
      MSITD_RETURN_IF_ERROR(Annotate(has_next.status(), path));
      task_ = records.task();
    }
    if (!has_next.ok() || !*has_next) return absl::OkStatus();
    if (++count > kMsprobeRecordsMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "{}: more than {} records", path, kMsprobeRecordsMax);
    }
    const std::string name = records.name();
    bool is_broken = false;
    const auto record = records.Read(&is_broken);
    if (is_broken) return absl::OkStatus();
    if (record.ok()) Add(name, *record);
  }
}

void MsprobeIndex::Add(std::string_view entry, const JsonValue& record) {
  for (MsprobeLeaf& leaf : LeavesOfMsprobe(entry, record).leaves) {
    const JsonValue* const md5 =
        leaf.json->IsObject() ? leaf.json->Find("md5") : nullptr;
    has_checksums_ = has_checksums_ || (md5 != nullptr && !md5->IsNull());
    const auto key = KeyOfMsprobe(leaf.name);
    if (!key) continue;
    Leaf kept;
    if (leaf.kind == RecordKind::kStatistics) {
      kept.statistics = std::move(leaf.text);
    }
    kept.file = std::move(leaf.file);
    if (kept.statistics.empty() && kept.file.empty()) continue;
    leaves_.try_emplace(TextOfKey(*key), std::move(kept));
  }
}

const MsprobeIndex::Leaf* MsprobeIndex::Find(
    const names::MsprobeKey& key) const {
  const auto found = leaves_.find(TextOfKey(key));
  return found == leaves_.end() ? nullptr : &found->second;
}

}  // namespace msitd::trees
