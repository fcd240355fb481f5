// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/msprobe/msprobe_record.h"

#include <utility>

#include "client/foreign/trees/json/python_text.h"
#include "client/foreign/trees/msprobe/msprobe_value.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

using names::MsprobeEntry;
using names::MsprobePart;

struct Member {
  std::string_view name;
  MsprobePart part;
};

// The members of a record. Older releases write `input` in forward records,
// too.
constexpr Member kMembers[] = {
    {"input_args", MsprobePart::kInput},
    {"input_kwargs", MsprobePart::kKwargs},
    {"input", MsprobePart::kInput},
    {"output", MsprobePart::kOutput},
    {"parameters", MsprobePart::kParameters},
};

// Members that describe the record, not the values that were passed.
constexpr std::string_view kMarks[] = {"is_recompute", "is_nan"};

std::string JoinKeys(const std::string& keys, std::string_view key) {
  if (keys.empty()) return std::string(key);
  return keys + "." + std::string(key);
}

class Walk {
 public:
  Walk(std::string_view entry, MsprobeLeaves& out) : entry_(entry), out_(out) {}

  void Part(MsprobePart part, const JsonValue& value) {
    part_ = part;
    if (IsMsprobeLeaf(value)) {
      Any(value, "");
    } else if (value.IsObject() || value.IsArray()) {
      Items(value, "");
    } else if (!value.IsNull()) {
      Refuse("its {} is {}", MsprobePartName(part), ReprOfJson(value));
    }
  }

  // Adds a value that was saved under a name. It may be a single value.
  void Whole(const JsonValue& value) {
    part_ = MsprobePart::kWhole;
    Any(value, "");
  }

  // Adds the gradients of each parameter: a list of one.
  void Gradients(const JsonValue& value) {
    part_ = MsprobePart::kWhole;
    for (size_t i = 0; i < value.keys.size(); ++i) {
      const JsonValue& item = value.items[i];
      if (item.IsArray() && item.items.size() == 1) {
        Any(item.items[0], value.keys[i]);
      } else {
        Any(item, value.keys[i]);
      }
    }
  }

  template <typename... Args>
  void Refuse(fmt::format_string<Args...> format, Args&&... args) {
    out_.problems.push_back(MakeStatus(absl::StatusCode::kInvalidArgument,
                                       format, std::forward<Args>(args)...));
  }

 private:
  void Items(const JsonValue& value, const std::string& keys) {
    for (size_t i = 0; i < value.items.size(); ++i) {
      Any(value.items[i],
          JoinKeys(keys, value.IsObject() ? value.keys[i] : std::to_string(i)));
    }
  }

  void Any(const JsonValue& value, const std::string& keys) {
    const bool is_container = value.IsObject() || value.IsArray();
    if (IsMsprobeTensor(value)) {
      Tensor(value, keys);
    } else if (IsMsprobeLeaf(value)) {
      Add(DescribeMsprobe(value), keys, value);
    } else if (is_container && !value.items.empty()) {
      Items(value, keys);
    } else {
      Add(DescribeJson(value), keys, value);
    }
  }

  void Add(PythonValue value, const std::string& keys, const JsonValue& json) {
    MsprobeLeaf leaf;
    leaf.name = {std::string(entry_), part_, keys};
    leaf.json = &json;
    leaf.kind = value.kind;
    leaf.text = std::move(value.text);
    out_.leaves.push_back(std::move(leaf));
  }

  void Tensor(const JsonValue& value, const std::string& keys) {
    MsprobeLeaf leaf;
    leaf.name = {std::string(entry_), part_, keys};
    leaf.json = &value;
    const JsonValue* grad = value.Find("requires_grad");
    if (grad != nullptr && grad->IsBool()) {
      leaf.requires_grad = grad->type == JsonToken::kTrue;
    }
    const JsonValue* file = value.Find("data_name");
    // Early releases write -1 if nothing was saved.
    if (file != nullptr && file->IsString() && file->text != "-1") {
      leaf.file = file->text;
    }
    const auto dtype = ParseTorchDType(value.Find("dtype")->text);
    if (dtype && IsValid(*dtype) && ReadShape(*value.Find("shape"), leaf)) {
      leaf.kind = RecordKind::kStatistics;
      leaf.dtype = *dtype;
      leaf.text = StatisticsOfMsprobe(value);
    } else {
      leaf.kind = RecordKind::kOther;
      leaf.shape.clear();
      leaf.text = WithoutNul(ReprOfJson(value));
    }
    out_.leaves.push_back(std::move(leaf));
  }

  static bool ReadShape(const JsonValue& value, MsprobeLeaf& leaf) {
    if (!value.IsArray() || value.items.size() > kDimsMax) return false;
    for (const JsonValue& item : value.items) {
      const auto length = IntegerOf(item, 0, kTensorBytesMax);
      if (!length) return false;
      leaf.shape.push_back(*length);
    }
    return true;
  }

  const std::string_view entry_;
  MsprobeLeaves& out_;
  MsprobePart part_ = MsprobePart::kWhole;
};

std::optional<MsprobePart> PartNamed(std::string_view name) {
  for (const Member& member : kMembers) {
    if (member.name == name) return member.part;
  }
  return std::nullopt;
}

bool IsMark(std::string_view name) {
  for (const std::string_view mark : kMarks) {
    if (mark == name) return true;
  }
  return false;
}

}  // namespace

MsprobeLeaves LeavesOfMsprobe(std::string_view entry, const JsonValue& record) {
  MsprobeLeaves out;
  Walk walk(entry, out);
  const auto kind = names::MsprobeEntryOf(entry);
  if (!kind) {
    walk.Refuse("it is not the name of a record");
  } else if (*kind == MsprobeEntry::kDebug) {
    walk.Whole(record);
  } else if (!record.IsObject()) {
    walk.Refuse("it is not an object");
  } else if (*kind == MsprobeEntry::kGradients) {
    walk.Gradients(record);
  } else {
    for (size_t i = 0; i < record.keys.size(); ++i) {
      const auto part = PartNamed(record.keys[i]);
      if (part) {
        walk.Part(*part, record.items[i]);
      } else if (!IsMark(record.keys[i])) {
        walk.Refuse("{} is not a part of a record", ReprOfText(record.keys[i]));
      }
    }
  }
  return out;
}

}  // namespace msitd::trees
