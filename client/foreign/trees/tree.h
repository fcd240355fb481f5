// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/tensor_key.h"

namespace msitd::formats {
class TensorFile;
}  // namespace msitd::formats

// Folders that other tools leave. README.md has what each reader takes.
namespace msitd::trees {

enum class TreeKind : uint8_t {
  kFiles,    // Files of any kind, without a layout: the op is their path.
  kGe,       // What TorchAir's graph mode dumps.
  kFx,       // What TorchAir's eager mode dumps.
  kMindie,   // What MindIE-Torch dumps.
  kMsit,     // What msit dumps of a torch model.
  kAtb,      // What the acceleration library dumps.
  kMsprobe,  // What msprobe dumps.
};

// Returns "files", "ge", "fx", "mindie", "msit", "atb" or "msprobe".
std::string_view TreeKindName(TreeKind kind);

// The inverse of TreeKindName; nothing for an unknown name.
std::optional<TreeKind> ParseTreeKind(std::string_view name);

// What a tree says of one tensor, value or document, or of one file that names
// its tensors itself.
struct TreeEntry {
  // Without the run. If `io` is unspecified, `file` says io and index of each
  // of its tensors.
  TensorKey key;
  RecordKind kind = RecordKind::kTensor;
  // The value of a value, the text of a document, the JSON of statistics.
  std::string text;
  std::optional<bool> requires_grad;
  std::string stack;
  // Of statistics: those of the tensor that they are of. Of a tensor: set if
  // its file cannot name the type, and stores it as another of the same size.
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  // Where the bytes are: to be opened by formats::OpenTensorFile. Empty if
  // there are none.
  std::string file;
  // The tensor of `file` that it is; empty for all of them.
  std::string tensor;
  // `file`, if the tree had to open it: its first tensor comes next. Null else.
  std::shared_ptr<formats::TensorFile> opened = nullptr;
};

// A file of the tree that the whole run has: a graph, a mapping, a topology.
struct TreeAttachment {
  std::string name;
  std::string file;
  std::string media_type;
};

// What could not be read, and why. The rest comes nevertheless.
struct TreeProblem {
  std::string file;
  absl::Status reason;
};

// Files and folders that a reader passes over because of their names.
struct LeftOutFiles {
  int64_t count = 0;
  // Their paths, as TreeProblem::file; the first of them.
  std::vector<std::string> first;
};

// The entries of a folder: by rank, then token, then in the order of their
// execution. A token of a rank is listed when it comes, so that memory does not
// depend on how many there are. Thread-compatible.
class Tree {
 public:
  virtual ~Tree() = default;

  virtual TreeKind kind() const = 0;

  // Ranks that have entries, in ascending order.
  virtual std::vector<int32_t> ranks() const = 0;

  // Of the job; 0 if the tree does not say.
  virtual int32_t world_size() const = 0;

  virtual const std::vector<TreeAttachment>& attachments() const = 0;

  // False if the tree does not say in which order its tensors were computed.
  // Entries are in an order for people then, such as that of their names.
  virtual bool has_known_order() const { return true; }

  // What was passed over so far because its name begins with a dot or ends with
  // `.swp`. Complete behind the last entry.
  virtual LeftOutFiles left_out() const { return {}; }

  // Tokens that are still to come, if each has folders of its own; else empty.
  virtual std::set<int64_t> tokens() const { return {}; }

  // Passes over all other tokens from now on, without a look at their files.
  // Does nothing to a tree whose tokens() is empty.
  virtual void KeepTokens(const std::set<int64_t>& /*tokens*/) {}

  // The graphs that folders name graph_<k>..., of FX and GE; those of GE with
  // the number of the model behind a slash.
  virtual std::set<std::string> graphs() const { return {}; }

  // Returns the next entry, valid until the next call; null behind the last
  // one.
  virtual const TreeEntry* Next() = 0;

  // Returns and forgets the problems that were met since the last call.
  virtual std::vector<TreeProblem> TakeProblems() = 0;
};

struct TreeOptions {
  // Nothing: found by content.
  std::optional<TreeKind> kind = {};
  // Of files and msit, by the user: names and times of files are the order of
  // execution.
  bool is_in_order = false;
  // Of files: the user says of which rank all of them are.
  bool is_rank_said = false;
  // Of MindIE: where its two mappings lie. Empty: in the tree, or on the way to
  // it.
  std::string mapping_folder = {};
  // They may come later, so it is no error if they are not there.
  bool may_lack_mappings = false;
  // Of GE and FX: an op begins with its graph even if there is one alone, as
  // far as the folders say its name; FX graphs that only have a time are gm/1,
  // gm/2 and so on.
  bool names_graphs = false;
  // Of GE, MindIE and FX, without folders of ranks: each device is a rank, in
  // ascending order from 0. FX does not say devices: each graph is of one, in
  // the order of time. Not for a folder that grows.
  bool devices_are_ranks = false;
  // Then: this rank alone, with the graphs of GE that are its own.
  std::optional<int32_t> device_rank = {};
};

// Opens the folder at `path`, or the single file. INVALID_ARGUMENT if no reader
// takes it, or several could: the message names them. RESOURCE_EXHAUSTED beyond
// a limit of tree_limits.h.
absl::StatusOr<std::unique_ptr<Tree>> OpenTree(const std::string& path,
                                               const TreeOptions& options);

}  // namespace msitd::trees
