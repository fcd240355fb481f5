// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/torch/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/functional/function_ref.h"
#include "client/foreign/formats/format_limits.h"
#include "client/foreign/formats/torch/pickle.h"
#include "client/foreign/formats/torch/torch_globals.h"
#include "client/foreign/formats/torch/torch_objects.h"
#include "client/foreign/formats/torch/torch_tags.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

// The length of the name of a storage. Storages have numbers as names.
constexpr size_t kStorageKeyBytesMax = 64;
constexpr std::string_view kPickleName = "data.pkl";
// The number at the beginning of the oldest pickles of torch.
constexpr std::string_view kOldMagic =
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
// The first argument after those that all functions have in common.
constexpr size_t kFirstOwnArgument = 6;

absl::Status BadTorch(std::string_view what) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, "torch: {}", what);
}

// Returns the folder of the archive that contains the pickle, with its slash:
// the stem of the file's original name.
std::optional<std::string> RootOf(const ZipArchive& archive) {
  for (const ZipArchive::Member& member : archive.members()) {
    const std::string_view name = member.name;
    if (!name.ends_with(kPickleName)) continue;
    const std::string_view root =
        name.substr(0, name.size() - kPickleName.size());
    if (root.empty() || root.find('/') == root.size() - 1) {
      return std::string(root);
    }
  }
  return std::nullopt;
}

// The members of an archive of torch, by name.
class TorchArchive {
 public:
  TorchArchive(const std::shared_ptr<ZipArchive>& archive, std::string root)
      : archive_(archive), root_(std::move(root)) {
    for (size_t i = 0; i < archive->members().size(); ++i) {
      members_.emplace(archive->members()[i].name, i);
    }
  }

  // Returns the bytes of a member of the folder; null if there is no such
  // member.
  std::shared_ptr<const ByteSource> Find(std::string_view name) const {
    const auto member = members_.find(fmt::format("{}{}", root_, name));
    if (member == members_.end()) return nullptr;
    return ZipArchive::BytesOf(archive_, member->second);
  }

  bool HasProgram() const {
    const std::string code = root_ + "code/";
    return members_.contains(root_ + "constants.pkl") ||
           std::any_of(members_.begin(), members_.end(),
                       [&](const auto& member) {
                         return member.first.starts_with(code);
                       });
  }

  // Files of older versions do not specify it, and were written on
  // little-endian machines.
  absl::StatusOr<bool> IsBigEndian() const {
    const auto bytes = Find("byteorder");
    if (bytes == nullptr) return false;
    MSITD_ASSIGN_OR_RETURN(
        const std::string order,
        bytes->ReadText(0, std::min(bytes->size(), kShownNameBytesMax)));
    if (order != "little" && order != "big") {
      return BadTorch("the byte order is unknown");
    }
    return order == "big";
  }

  absl::StatusOr<std::string> ReadPickle() const {
    const auto bytes = Find(kPickleName);
    if (bytes == nullptr) return BadTorch("the pickle is missing");
    if (bytes->size() > kHeadBytesMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "torch: the pickle has {} bytes; the maximum is {}",
                        bytes->size(), kHeadBytesMax);
    }
    return bytes->ReadText(0, bytes->size());
  }

 private:
  const std::shared_ptr<ZipArchive> archive_;
  const std::string root_;
  std::unordered_map<std::string, size_t> members_;
};

// A global that creates tensors in a way that is not known. As an object, it
// would hide them.
bool IsOfTensors(std::string_view module, std::string_view name) {
  return module.starts_with("torch") &&
         (name.starts_with("_rebuild") || name.ends_with("Storage"));
}

PickleUse UseOf(std::string_view module, std::string_view name) {
  switch (TorchGlobalOf(module, name)) {
    case TorchGlobal::kUnknown:
      return IsOfTensors(module, name) ? PickleUse::kRefused
                                       : PickleUse::kObject;
    case TorchGlobal::kDict:
      return PickleUse::kDict;
    default:
      return PickleUse::kCalled;
  }
}

// The properties of one tensor in a pickle.
struct TensorCall {
  TorchGlobal global = TorchGlobal::kUnknown;
  std::string_view name;
  std::span<const PickleValue> arguments;
  bool is_parameter = false;
};

struct Storage {
  std::string_view type;
  std::string_view device;
  std::shared_ptr<const ByteSource> bytes;
};

// Finds the tensors in the pickle of an archive.
class TensorFinder {
 public:
  TensorFinder(const Pickle& pickle, const TorchArchive& archive,
               bool is_big_endian)
      : pickle_(pickle), archive_(archive), is_big_endian_(is_big_endian) {}

  // `name` is the name of `value`; it can be empty.
  absl::Status Find(PickleValue value, std::string name) {
    path_ = std::move(name);
    return Visit(value, 0);
  }

  std::vector<FileEntry> TakeEntries() { return std::move(entries_); }

  // The number of numbers, texts and similar values, which are not delivered.
  uint64_t value_count() const { return value_count_; }

  // The objects that are not delivered.
  const ObjectList& objects() const { return objects_; }

 private:
  absl::Status Visit(PickleValue value, int depth) {
    if (++visit_count_ > kPickleVisitsMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "torch: it has more than {} values", kPickleVisitsMax);
    }
    if (depth > kNestingMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "torch: it nests deeper than {}", kNestingMax);
    }
    switch (value.kind) {
      case PickleKind::kTuple:
      case PickleKind::kList:
      case PickleKind::kSet:
        return VisitList(value, depth);
      case PickleKind::kDict:
        return VisitDict(value, depth);
      case PickleKind::kCall:
        return VisitCall(value, depth);
      case PickleKind::kPersistent:
        return Add(StorageEntry(value));
      case PickleKind::kGlobal:
        AddGlobal(value);
        return absl::OkStatus();
      default:
        ++value_count_;
        return absl::OkStatus();
    }
  }

  // Visits `value`, which has the name `key` in its container.
  absl::Status VisitAt(std::string_view key, PickleValue value, int depth) {
    const size_t length = path_.size();
    // Beyond the limit, the rest of the path does not matter.
    if (length <= kOpBytesMax) {
      if (depth > 0 || !path_.empty()) path_ += '.';
      path_ += key.substr(0, kOpBytesMax + 1);
    }
    absl::Status visited = Visit(value, depth + 1);
    path_.resize(length);
    return visited;
  }

  absl::Status VisitList(PickleValue list, int depth) {
    const auto items = pickle_.Items(list);
    for (size_t i = 0; i < items.size(); ++i) {
      MSITD_RETURN_IF_ERROR(VisitAt(fmt::format("{}", i), items[i], depth));
    }
    return absl::OkStatus();
  }

  absl::Status VisitDict(PickleValue dict, int depth) {
    return VisitPairs(pickle_.Items(dict),
                      [&](std::string_view key, PickleValue value) {
                        return VisitAt(key, value, depth);
                      });
  }

  absl::Status VisitPairs(
      std::span<const PickleValue> items,
      absl::FunctionRef<absl::Status(std::string_view key, PickleValue value)>
          visit) {
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const PickleValue key = items[i];
      // A key that is neither a text nor a number is replaced by its position.
      const int64_t number = key.kind == PickleKind::kInteger
                                 ? key.bits
                                 : static_cast<int64_t>(i / 2);
      // A short pickle can contain a long key a million times.
      const std::string text =
          key.kind == PickleKind::kText
              ? std::string(pickle_.Text(key).substr(0, kOpBytesMax + 1))
              : fmt::format("{}", number);
      MSITD_RETURN_IF_ERROR(visit(text, items[i + 1]));
    }
    return absl::OkStatus();
  }

  bool IsObject(PickleValue call) const {
    std::string_view name;
    return GlobalOf(pickle_.Items(call)[0], name) == TorchGlobal::kUnknown;
  }

  // Visits the contents of an object of a class that is not known. If they have
  // no tensors, the object is listed instead.
  absl::Status VisitObject(PickleValue object, int depth) {
    // An object can contain itself.
    if (std::find(open_objects_.begin(), open_objects_.end(), object.bits) !=
        open_objects_.end()) {
      return absl::OkStatus();
    }
    open_objects_.push_back(object.bits);
    const size_t tensor_count = entries_.size();
    const ObjectList::Mark mark = objects_.End();
    MSITD_RETURN_IF_ERROR(VisitContents(object, depth));
    open_objects_.pop_back();
    if (entries_.size() != tensor_count) return absl::OkStatus();
    objects_.CutTo(mark);
    AddGlobal(pickle_.Items(object)[0]);
    return absl::OkStatus();
  }

  // Lists an object of this class, or the class itself.
  void AddGlobal(PickleValue global) {
    const std::string_view module = pickle_.ModuleOf(global);
    const std::string_view name = pickle_.NameOf(global);
    if (TorchGlobalOf(module, name) != TorchGlobal::kUnknown) {
      ++value_count_;
    } else {
      objects_.Add(path_, module, name);
    }
  }

  // A class can pass the same value as an item, in its state and as an
  // argument.
  absl::Status VisitContents(PickleValue object, int depth) {
    std::set<std::pair<PickleKind, int64_t>> seen;
    const auto visit = [&](std::string_view key, PickleValue value) {
      const bool is_container = value.kind >= PickleKind::kTuple;
      if (is_container && !seen.emplace(value.kind, value.bits).second) {
        return absl::OkStatus();
      }
      return VisitAt(key, value, depth);
    };
    if (const Pickle::Contents* const own = pickle_.ContentsOf(object)) {
      MSITD_RETURN_IF_ERROR(VisitPairs(own->pairs, visit));
      for (size_t i = 0; i < own->items.size(); ++i) {
        MSITD_RETURN_IF_ERROR(visit(fmt::format("{}", i), own->items[i]));
      }
      if (own->state.kind == PickleKind::kDict) {
        MSITD_RETURN_IF_ERROR(VisitPairs(pickle_.Items(own->state), visit));
      } else if (own->state.kind != PickleKind::kNone) {
        MSITD_RETURN_IF_ERROR(visit("state", own->state));
      }
    }
    const auto arguments = pickle_.Items(object).subspan(1);
    for (size_t i = 0; i < arguments.size(); ++i) {
      MSITD_RETURN_IF_ERROR(visit(fmt::format("{}", i), arguments[i]));
    }
    return absl::OkStatus();
  }

  absl::Status VisitCall(PickleValue call, int depth) {
    const TensorCall tensor = TensorOf(call);
    switch (tensor.global) {
      case TorchGlobal::kTensor:
      case TorchGlobal::kTensorV2:
      case TorchGlobal::kTensorV3:
        return Add(TensorEntry(tensor));
      case TorchGlobal::kUnreadable:
        return Add(MakeProblem(
            ForeignTensor(), MakeStatus(absl::StatusCode::kUnimplemented, "{}",
                                        UnreadableReason(tensor.name))));
      case TorchGlobal::kUnknown:
        return IsObject(call) ? VisitObject(call, depth)
                              : Add(Malformed(ForeignTensor()));
      default:
        ++value_count_;
        return absl::OkStatus();
    }
  }

  // Unwraps calls around the call that creates a tensor. kRefused if there is
  // no such call.
  TensorCall TensorOf(PickleValue call) const {
    TensorCall found;
    for (int depth = 0; depth < kNestingMax; ++depth) {
      if (call.kind != PickleKind::kCall) return {};
      const auto items = pickle_.Items(call);
      found.global = GlobalOf(items[0], found.name);
      found.arguments = items.subspan(1);
      if (found.global == TorchGlobal::kFromType) {
        if (found.arguments.size() < 3) return {};
        found.global = GlobalOf(found.arguments[0], found.name);
        found.arguments = pickle_.Items(found.arguments[2]);
      }
      if (found.global != TorchGlobal::kWrapped) return found;
      if (found.arguments.empty()) return {};
      found.is_parameter = true;
      call = found.arguments[0];
    }
    return {};
  }

  TorchGlobal GlobalOf(PickleValue value, std::string_view& name) const {
    name = pickle_.NameOf(value);
    return TorchGlobalOf(pickle_.ModuleOf(value), name);
  }

  // Returns the storage that a persistent value refers to: ("storage", class,
  // key, device, count).
  std::optional<Storage> StorageOf(PickleValue value) const {
    if (value.kind != PickleKind::kPersistent) return std::nullopt;
    const auto items = pickle_.Items(pickle_.Items(value)[0]);
    if (items.size() < 5 || pickle_.Text(items[0]) != "storage") {
      return std::nullopt;
    }
    Storage storage;
    if (GlobalOf(items[1], storage.type) != TorchGlobal::kStorage) {
      return std::nullopt;
    }
    storage.device = pickle_.Text(items[3]).substr(0, kDeviceBytesMax);
    storage.bytes = archive_.Find(fmt::format(
        "data/{}", pickle_.Text(items[2]).substr(0, kStorageKeyBytesMax)));
    return storage;
  }

  bool ReadNumbers(PickleValue tuple, std::vector<int64_t>& numbers) const {
    if (tuple.kind == PickleKind::kCall) {
      // A torch.Size.
      const auto items = pickle_.Items(tuple);
      if (items.size() != 2) return false;
      tuple = items[1];
    }
    if (tuple.kind != PickleKind::kTuple) return false;
    for (const PickleValue item : pickle_.Items(tuple)) {
      if (item.kind != PickleKind::kInteger) return false;
      numbers.push_back(item.bits);
      // One dimension more than a tensor can have, so that CheckShape rejects
      // it.
      if (numbers.size() > kDimsMax) break;
    }
    return true;
  }

  static FileEntry Malformed(ForeignTensor tensor) {
    return MakeProblem(std::move(tensor),
                       BadTorch("its description is malformed"));
  }

  // Sets the shape of `tensor` and the location of its elements, except the
  // source.
  bool ReadView(std::span<const PickleValue> arguments, ForeignTensor& tensor,
                StoredTensor& stored) const {
    std::vector<int64_t> strides;
    if (arguments[1].kind != PickleKind::kInteger || arguments[1].bits < 0 ||
        !ReadNumbers(arguments[2], tensor.shape) ||
        !ReadNumbers(arguments[3], strides) ||
        strides.size() != tensor.shape.size()) {
      return false;
    }
    stored.first_element = static_cast<uint64_t>(arguments[1].bits);
    for (size_t i = 0; i < strides.size(); ++i) {
      if (tensor.shape[i] < 0 || strides[i] < 0) return false;
      stored.axes.push_back({static_cast<uint64_t>(tensor.shape[i]),
                             static_cast<uint64_t>(strides[i])});
    }
    tensor.stored_shape = tensor.shape;
    return true;
  }

  // Returns the flag of a tensor that changes its elements when they are read;
  // empty for most tensors.
  std::string_view FlagOf(const TensorCall& call) const {
    const size_t place = call.global == TorchGlobal::kTensorV3
                             ? kFirstOwnArgument + 1
                             : kFirstOwnArgument;
    const bool has_flags =
        call.global != TorchGlobal::kTensor && place < call.arguments.size();
    if (!has_flags) return {};
    const auto flags = pickle_.Items(call.arguments[place]);
    for (size_t i = 0; i + 1 < flags.size(); i += 2) {
      const bool is_set =
          flags[i + 1].kind == PickleKind::kBool && flags[i + 1].bits != 0;
      if (is_set) return pickle_.Text(flags[i]);
    }
    return {};
  }

  FileEntry TensorEntry(const TensorCall& call) const {
    ForeignTensor tensor;
    StoredTensor stored;
    const auto arguments = call.arguments;
    if (arguments.size() < 4) return Malformed(std::move(tensor));
    const auto storage = StorageOf(arguments[0]);
    if (!storage.has_value() || !ReadView(arguments, tensor, stored)) {
      return Malformed(std::move(tensor));
    }
    std::string_view type = storage->type;
    tensor.dtype = TorchStorageType(type);
    if (call.global == TorchGlobal::kTensorV3) {
      if (arguments.size() <= kFirstOwnArgument) {
        return Malformed(std::move(tensor));
      }
      type = pickle_.NameOf(arguments[kFirstOwnArgument]);
      tensor.dtype = TorchDType(type);
    }
    tensor.stored_type = type;
    if (call.is_parameter) tensor.attributes["class"] = "Parameter";
    if (arguments.size() > 4 && arguments[4].kind == PickleKind::kBool &&
        arguments[4].bits != 0) {
      tensor.attributes["requires_grad"] = "true";
    }
    const std::string_view flag = FlagOf(call);
    if (!flag.empty()) {
      return MakeProblem(
          std::move(tensor),
          MakeStatus(absl::StatusCode::kUnimplemented,
                     "its elements are stored without its flag {}",
                     flag.substr(0, kShownNameBytesMax)));
    }
    return Place(*storage, std::move(tensor), std::move(stored));
  }

  // Returns the entry of a storage that is not part of a tensor.
  FileEntry StorageEntry(PickleValue value) const {
    ForeignTensor tensor;
    const auto storage = StorageOf(value);
    if (!storage.has_value()) return Malformed(std::move(tensor));
    StoredTensor stored;
    tensor.stored_type = storage->type;
    tensor.dtype = TorchStorageType(storage->type);
    if (storage->bytes != nullptr && IsValid(tensor.dtype)) {
      const uint64_t count =
          storage->bytes->size() / ElementBytes(tensor.dtype);
      tensor.shape = {static_cast<int64_t>(count)};
      tensor.stored_shape = tensor.shape;
      stored.axes = RowMajorAxes(tensor.shape);
    }
    return Place(*storage, std::move(tensor), std::move(stored));
  }

  FileEntry Place(const Storage& storage, ForeignTensor tensor,
                  StoredTensor stored) const {
    if (!storage.device.empty() && storage.device != "cpu") {
      tensor.attributes["device"] = storage.device;
    }
    if (!IsValid(tensor.dtype)) {
      const std::string type = tensor.stored_type;
      return MakeProblem(
          std::move(tensor),
          MakeStatus(absl::StatusCode::kUnimplemented,
                     "msitd does not support elements of torch's type {}",
                     type));
    }
    if (storage.bytes == nullptr) {
      return MakeProblem(
          std::move(tensor),
          absl::DataLossError("the archive has no storage for it"));
    }
    stored.bytes = storage.bytes->size();
    stored.source = storage.bytes;
    stored.is_big_endian = is_big_endian_;
    if (!IsRowMajor(stored.axes)) tensor.stored_layout = "strided";
    return MakeEntry(std::move(tensor), std::move(stored));
  }

  absl::Status Add(FileEntry entry) {
    if (entries_.size() == kTensorsMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "torch: it has more than {} tensors", kTensorsMax);
    }
    entry.tensor.name = path_.substr(0, kOpBytesMax);
    if (path_.size() > kOpBytesMax) {
      entry.tensor.problem = MakeStatus(
          absl::StatusCode::kInvalidArgument,
          "its name is longer than the maximum of {} bytes", kOpBytesMax);
    }
    entries_.push_back(std::move(entry));
    return absl::OkStatus();
  }

  const Pickle& pickle_;
  const TorchArchive& archive_;
  const bool is_big_endian_;
  // The path to the value that is being visited.
  std::string path_;
  uint64_t visit_count_ = 0;
  uint64_t value_count_ = 0;
  ObjectList objects_;
  // The numbers of the objects that are being visited.
  std::vector<int64_t> open_objects_;
  std::vector<FileEntry> entries_;
};

}  // namespace

bool IsTorch(const ZipArchive& archive) { return RootOf(archive).has_value(); }

bool IsOldTorch(std::string_view first_bytes) {
  return first_bytes.starts_with(kOldMagic);
}

absl::Status OldTorchProblem() {
  return absl::UnimplementedError(
      "torch: the file has the old format without an archive. To convert it: "
      "torch.save(torch.load(FILE), FILE)");
}

OpenedFile OpenTorch(const std::shared_ptr<ZipArchive>& archive) {
  const auto root = RootOf(*archive);
  if (!root.has_value()) return BadTorch("the pickle is missing");
  const TorchArchive members(archive, *root);
  if (members.HasProgram()) {
    return absl::UnimplementedError(
        "torch: it is a TorchScript program. To convert it: "
        "torch.save(torch.jit.load(FILE).state_dict(), FILE)");
  }
  MSITD_ASSIGN_OR_RETURN(const bool is_big_endian, members.IsBigEndian());
  MSITD_ASSIGN_OR_RETURN(std::string bytes, members.ReadPickle());
  const auto pickle = Pickle::Read(std::move(bytes), UseOf);
  if (!pickle.ok()) return Annotate(pickle.status(), "torch");
  TensorFinder finder(*pickle, members, is_big_endian);
  Attributes attributes;
  const auto tagged = TaggedOf(*pickle);
  if (tagged.has_value()) {
    attributes = TagsOf(*pickle, tagged->tags);
    attributes.erase(kObjectsAttribute);
    attributes.erase(kFirstObjectsAttribute);
    const auto name = attributes.find("name");
    MSITD_RETURN_IF_ERROR(finder.Find(
        tagged->value, name == attributes.end() ? "" : name->second));
  } else {
    MSITD_RETURN_IF_ERROR(finder.Find(pickle->root(), ""));
  }
  if (finder.value_count() > 0) {
    attributes["values"] = fmt::format("{}", finder.value_count());
  }
  std::vector<FileEntry> entries = finder.TakeEntries();
  if (finder.objects().count() > 0) {
    if (entries.empty()) {
      return MakeStatus(absl::StatusCode::kUnimplemented,
                        "torch: it has no tensors, but {}",
                        finder.objects().first());
    }
    attributes[kObjectsAttribute] = fmt::format("{}", finder.objects().count());
    attributes[kFirstObjectsAttribute] = finder.objects().first();
  }
  return std::make_unique<TensorFile>(FileKind::kTorch, std::move(attributes),
                                      std::move(entries));
}

}  // namespace msitd::formats
