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
#include "client/foreign/trees/name_pattern.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/tensor_key.h"

namespace msitd::formats {
class TensorFile;
}  // namespace msitd::formats

// Folders that other tools write. README.md lists what each reader supports.
namespace msitd::trees {

enum class TreeKind : uint8_t {
  kFiles,    // Files in any layout. The op is their path.
  kGe,       // Dumps of TorchAir's graph mode.
  kFx,       // Dumps of TorchAir's eager mode.
  kMindie,   // Dumps of MindIE-Torch.
  kMsit,     // Dumps that msit writes of a torch model.
  kAtb,      // Dumps of the acceleration library.
  kMsprobe,  // Dumps of msprobe.
};

// Returns "files", "ge", "fx", "mindie", "msit", "atb" or "msprobe".
std::string_view TreeKindName(TreeKind kind);

// The inverse of TreeKindName; nothing for an unknown name.
std::optional<TreeKind> ParseTreeKind(std::string_view name);

// The properties of one tensor, value or document, or of a file that names its
// tensors itself.
struct TreeEntry {
  // Without the run. If `io` is unspecified, `file` specifies io and index of
  // each of its tensors.
  TensorKey key;
  RecordKind kind = RecordKind::kTensor;
  // The value of a value, the text of a document, the JSON of statistics.
  std::string text;
  std::optional<bool> requires_grad;
  std::string stack;
  // For statistics: the type and shape of the tensor that they describe. For a
  // tensor: set if its file cannot specify the type, and stores it as another
  // type of the same size.
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  // The file with the bytes, for formats::OpenTensorFile. Empty if there is
  // none.
  std::string file;
  // True for statistics whose tensor should have a file, which does not exist.
  // They are recorded only if the file will never arrive, because a run keeps
  // the first record of a key.
  bool is_substitute = false;
  // The name of the tensor in `file`; empty for all tensors.
  std::string tensor;
  // Set to the open `file` if the tree had to open it, positioned at its first
  // tensor; otherwise null.
  std::shared_ptr<formats::TensorFile> opened = nullptr;
};

// A file of the tree that belongs to the whole run: a graph, a mapping, a
// topology.
struct TreeAttachment {
  std::string name;
  std::string file;
  std::string media_type;
};

// A file that could not be read, and the reason. The rest of the tree is read
// nevertheless.
struct TreeProblem {
  std::string file;
  absl::Status reason;
};

// Files and folders that a reader ignores because of their names.
struct LeftOutFiles {
  int64_t count = 0;
  // The first of their paths, as in TreeProblem::file.
  std::vector<std::string> first;
};

// The entries of a folder, ordered by rank, then token, then by execution. A
// token of a rank is listed when it is reached, so that memory use does not
// depend on the number of tokens. Thread-compatible.
class Tree {
 public:
  virtual ~Tree() = default;

  virtual TreeKind kind() const = 0;

  // Ranks that have entries, in ascending order.
  virtual std::vector<int32_t> ranks() const = 0;

  // The world size of the job; 0 if the tree does not specify it.
  virtual int32_t world_size() const = 0;

  virtual const std::vector<TreeAttachment>& attachments() const = 0;

  // Returns false if the order in which the tensors were computed is not known.
  // Entries are then in an order that is easy to read, such as that of their
  // names.
  virtual bool has_known_order() const { return true; }

  // Files that were ignored so far because their names begin with a dot or end
  // with `.swp`. Complete after the last entry.
  virtual LeftOutFiles left_out() const { return {}; }

  // Tokens that have not been read, if each has folders of its own; otherwise
  // empty.
  virtual std::set<int64_t> tokens() const { return {}; }

  // Ignores all other tokens from now on, without reading their files. Does
  // nothing if tokens() is empty.
  virtual void KeepTokens(const std::set<int64_t>& /*tokens*/) {}

  // The names graph_<k>... of folders of FX and GE graphs. For GE, a slash and
  // the number of the model are appended.
  virtual std::set<std::string> graphs() const { return {}; }

  // Returns the next entry, valid until the next call; null after the last one.
  virtual const TreeEntry* Next() = 0;

  // Returns and removes the problems that occurred since the last call.
  virtual std::vector<TreeProblem> TakeProblems() = 0;
};

struct TreeOptions {
  // Nothing: detected from the content.
  std::optional<TreeKind> kind = {};
  // For files and msit: the user asserts that names and times of files are the
  // order of execution.
  bool is_in_order = false;
  // For files: the user specified the rank of all of them.
  bool is_rank_said = false;
  // For files: the pattern of their names. If `kind` is not set, it is kFiles.
  std::optional<NamePattern> name_pattern = {};
  // With `name_pattern`: a file with the place of another one is a problem, and
  // the tree is opened. For a folder that grows, which is opened repeatedly.
  bool keeps_first_place = false;
  // For MindIE: the folder with its two mappings. Empty: in the tree, or on the
  // path to it.
  std::string mapping_folder = {};
  // The mappings may be written later, so it is not an error if they are
  // missing.
  bool may_lack_mappings = false;
  // For GE and FX: ops begin with their graph even if there is only one, if the
  // folders contain its name. FX graphs that have only a time are gm/1, gm/2
  // and so on.
  bool names_graphs = false;
  // For GE, MindIE and FX, without folders of ranks: each device is a rank, in
  // ascending order from 0. FX has no devices: each graph belongs to one, in
  // the order of time. Not for a folder that grows.
  bool devices_are_ranks = false;
  // With `devices_are_ranks`: reads only this rank, with its own GE graphs.
  std::optional<int32_t> device_rank = {};
  // For msprobe: dump.json or debug.json, if only its records are read and the
  // other file is ignored. Empty: both.
  std::string record_file = {};
};

// Opens the folder or the single file at `path`. Returns INVALID_ARGUMENT if no
// reader supports it or several do; the message names them. Returns
// RESOURCE_EXHAUSTED beyond a limit of tree_limits.h.
absl::StatusOr<std::unique_ptr<Tree>> OpenTree(const std::string& path,
                                               const TreeOptions& options);

}  // namespace msitd::trees
