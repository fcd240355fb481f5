// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/run/keep_function.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "client/ask/query/attachment_bytes.h"
#include "client/ask/query/endpoint.h"
#include "client/ask/query/exit_code.h"
#include "client/ask/text/policy_text.h"
#include "client/ask/text/text.h"
#include "client/msitctl/flag/whole_number.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr char kHead[] = "msitd_keep";
constexpr char kFlag[] = "--keep";

// As JSON, the text may take six times its bytes.
constexpr int64_t kRecordBytesMax = 8 * KeepFunction::kFileBytesMax;

// Sufficient to distinguish two functions.
constexpr size_t kShownHashDigits = 8;

std::string HashOf(std::string_view text) {
  return HashText(chunk::HashBytes(std::as_bytes(std::span(text))));
}

std::string TextAt(const Json& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_string() ? at->get<std::string>() : "";
}

}  // namespace

void AddKeepFlags(CLI::App& verb, KeepFlags& flags) {
  verb.add_option("--keep", flags.keep,
                  "How much of each tensor to store: full, summary or sample, "
                  "as the capture policy of a new run; or FILE.py:FUNCTION for "
                  "the results of a Python function")
      ->check([](const std::string& text) {
        const bool is_level =
            text == "full" || text == "summary" || text == "sample";
        return is_level || ask::ParsePlugin(text).ok()
                   ? std::string()
                   : "\"" + text +
                         "\" is not one of full, summary, sample and "
                         "FILE.py:FUNCTION";
      })
      ->type_name("LEVEL")
      ->capture_default_str();
  verb.add_option(
          "--python", flags.python,
          "Interpreter for a function of --keep, with numpy; default python3")
      ->type_name("PROGRAM");
  verb.add_option("--keep-timeout", flags.timeout,
                  "Time limit for one tensor in a function of --keep, after "
                  "which its interpreter is restarted; default 60s")
      ->type_name("TIME");
  verb.add_option("--keep-size-max", flags.tensor_bytes_max,
                  "Maximum size of the argument and of the result of a "
                  "function of --keep; default 1GB (1 KB is 1024 bytes)")
      ->transform(SizeValue())
      ->type_name("SIZE");
  verb.add_option(
          "--keep-memory-max", flags.memory_bytes_max,
          "Maximum memory of the interpreter; default 8GB (1 KB is 1024 bytes)")
      ->transform(SizeValue())
      ->type_name("SIZE");
}

bool IsKeepFunction(const std::string& keep) {
  return keep.find(':') != std::string::npos;
}

std::string KeepRecord::ToText() const {
  return fmt::format("{} of {} ({})", ask::Printable(function),
                     ask::Printable(file),
                     ask::Printable(hash.substr(0, kShownHashDigits)));
}

ask::Outcome ReadKeepRecord(ask::Connection& connection, const std::string& run,
                            KeepRecord& out, ask::ReadLimit limit) {
  out = {};
  std::string text;
  int64_t size_bytes = 0;
  const ask::Outcome read = ask::ReadAttachmentBytes(
      connection, run, kKeepAttachment,
      [&text](std::string_view piece) {
        text += piece;
        return static_cast<int64_t>(text.size()) <= kRecordBytesMax
                   ? absl::OkStatus()
                   : absl::ResourceExhaustedError("keep.json is too large");
      },
      size_bytes, limit);
  if (read.exit_code == ask::ExitCodeOf(grpc::StatusCode::NOT_FOUND)) return {};
  MSITCTL_RETURN_IF_FAILED(read);
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  out = {"unknown", "unknown", "unknown"};
  if (!json.is_object() || !json.contains(kHead)) return {};
  const KeepRecord record = {TextAt(json, "function"), TextAt(json, "file"),
                             TextAt(json, "hash")};
  if (!record.hash.empty()) out = record;
  return {};
}

KeepFunction::KeepFunction(KeepRecord record, std::string text,
                           uint64_t tensor_bytes_max,
                           const ask::InterpreterOptions& options,
                           ask::StopCheck is_stopped)
    : record_(std::move(record)),
      text_(std::move(text)),
      path_(options.file),
      tensor_bytes_max_(tensor_bytes_max),
      interpreter_(options, std::move(is_stopped)) {}

ask::Outcome KeepFunction::Create(const KeepFlags& flags,
                                  ask::StopCheck is_stopped,
                                  std::unique_ptr<KeepFunction>& out) {
  ask::PluginSpec spec;
  MSITCTL_ASSIGN_OR_USAGE(spec, ask::ParsePlugin(flags.keep, kFlag));
  if (!ask::IsKeptName(spec.function)) {
    return ask::UsageError(
        fmt::format("{}: \"{}\" is not a valid name for a result: use 1 to 64 "
                    "letters, digits and _",
                    kFlag, ask::Printable(spec.function)));
  }
  auto text = ask::ReadTextFile(spec.file, kFileBytesMax);
  if (!text.ok()) {
    return ask::UsageError(
        fmt::format("{}: {}: {}", kFlag, spec.file, Message(text.status())));
  }
  ask::InterpreterOptions options;
  options.python = flags.python;
  options.file = spec.file;
  options.function = spec.function;
  options.arrays = "numpy";
  options.kind = ask::FunctionKind::kKeep;
  options.memory_bytes_max = flags.memory_bytes_max;
  options.kept_bytes_max = flags.tensor_bytes_max;
  if (!flags.timeout.empty()) {
    const auto limit = ask::ParseDuration(flags.timeout);
    if (!limit.ok()) {
      return ask::UsageError(
          fmt::format("--keep-timeout: {}", Message(limit.status())));
    }
    options.call_limit = *limit;
  }
  const std::string name = spec.file.substr(spec.file.rfind('/') + 1);
  const KeepRecord record = {spec.function, name, HashOf(*text)};
  out.reset(new KeepFunction(record, *std::move(text), flags.tensor_bytes_max,
                             options, std::move(is_stopped)));
  const absl::Status started = out->interpreter_.Start();
  return started.ok() ? ask::Outcome() : ask::PluginStartError(spec, started);
}

std::string KeepFunction::ToJson() const {
  const Json json = {{kHead, kVersion},
                     {"function", record_.function},
                     {"file", record_.file},
                     {"hash", record_.hash},
                     {"text", text_}};
  // A name or a text that is not UTF-8 is still written.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string KeepFunction::id() const {
  return record_.function + " " + record_.hash;
}

absl::StatusOr<ask::Interpreter*> KeepFunction::GetInterpreter() {
  if (std::exchange(has_lost_, false)) {
    // A new interpreter loads the file again.
    const auto text = ask::ReadTextFile(path_, kFileBytesMax);
    if (!text.ok() || *text != text_) {
      return MakeStatus(absl::StatusCode::kUnknown,
                        "{} changed after it was loaded; repeat the command",
                        path_);
    }
  }
  MSITD_ASSIGN_OR_RETURN(ask::Interpreter* const interpreter,
                         interpreter_.Get());
  if (interpreter != nullptr) return interpreter;
  return MakeStatus(absl::StatusCode::kUnknown, "{} {}: {}", kFlag, path_,
                    interpreter_.given_up());
}

absl::StatusOr<std::vector<fill::DerivedTensor>> KeepFunction::Derive(
    const TensorKey& key, DType dtype, const std::vector<int64_t>& shape,
    std::string_view bytes) {
  MSITD_ASSIGN_OR_RETURN(ask::Interpreter* const interpreter, GetInterpreter());
  auto answer = interpreter->Keep(key, dtype, shape, bytes);
  if (absl::IsCancelled(answer.status())) return answer.status();
  if (!answer.ok()) {
    interpreter_.Lose();
    has_lost_ = true;
    return MakeStatus(absl::StatusCode::kAborted, "{}: {}", record_.function,
                      ask::AnswerText(Message(answer.status())));
  }
  // The function works, so interpreters that were lost before do not count
  // against it.
  interpreter_.ForgetLost();
  if (!answer->problem.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument, "{}: {}",
                      record_.function, answer->problem);
  }
  std::vector<fill::DerivedTensor> out;
  for (ask::KeptArray& array : answer->arrays) {
    out.push_back({std::move(array.name), array.dtype, std::move(array.shape),
                   std::move(array.bytes)});
  }
  return out;
}

}  // namespace msitd::msitctl
