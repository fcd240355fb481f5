// SPDX-License-Identifier: Apache-2.0
#include "client/msit/probe/probe_input.h"

#include <memory>
#include <string_view>

#include "client/foreign/formats/byte_source.h"
#include "client/foreign/trees/json/json_value.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

absl::StatusOr<ProbeInput> InputIn(const trees::JsonValue& value) {
  ProbeInput out;
  for (const auto& [name, path] : {std::pair("npu_path", &out.target),
                                   std::pair("bench_path", &out.golden)}) {
    const trees::JsonValue* const item =
        value.IsObject() ? value.Find(name) : nullptr;
    if (item == nullptr || !item->IsString() || item->text.empty()) {
      return MakeStatus(absl::StatusCode::kInvalidArgument, "it has no {}",
                        name);
    }
    *path = item->text;
  }
  return out;
}

}  // namespace

absl::StatusOr<ProbeInput> ReadProbeInput(const std::string& path) {
  const auto file = formats::FileSource::Open(path);
  if (!file.ok()) return Annotate(file.status(), path);
  trees::JsonReader reader(**file);
  const auto value = trees::ReadJsonValue(reader);
  const auto input = value.ok() ? InputIn(*value) : value.status();
  if (!input.ok()) return Annotate(input.status(), path);
  return input;
}

}  // namespace msitd::msit_command
