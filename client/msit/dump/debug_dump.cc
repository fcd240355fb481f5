// SPDX-License-Identifier: Apache-2.0
#include "client/msit/dump/debug_dump.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "client/ask/query/connection.h"
#include "client/ask/query/daemon_choice.h"
#include "client/ask/query/interrupts.h"
#include "client/foreign/acl/dump_config.h"
#include "client/foreign/fill/run_target.h"
#include "client/foreign/formats/byte_source.h"
#include "client/libmsit/grpc/tls_settings.h"
#include "client/msit/command/launch.h"
#include "client/msit/table/output_file.h"
#include "protos/base/attachment_limits.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

namespace fs = std::filesystem;

constexpr char kToolkitVariable[] = "ASCEND_TOOLKIT_HOME";
constexpr char kShimVariable[] = "MSIT_ACL_LIBRARY";
constexpr char kShim[] = "libmsit_acl.so";
// The toolkit's own way to enable dumps in MindIE: a library and a
// configuration.
constexpr char kMindieDump[] =
    "tools/ait_backend/mindie_torch_dump/libmindiedump.so";
constexpr char kMindieConfig[] = "MINDIE_RT_DUMP_CONFIG_PATH";

// The files that MindIE leaves in its working directory.
constexpr std::array<const char*, 2> kMappings = {
    "mindie_rt_op_mapping.json", "mindie_torch_op_mapping.json"};

constexpr std::chrono::seconds kAttachPatience{60};

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A configuration of CANN with the lifetime of this object.
class ConfigFile {
 public:
  ConfigFile() = default;
  ~ConfigFile() {
    if (path_[0] != '\0') unlink(path_);
  }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;

  absl::Status Write(const std::string& dump_path, const std::string& ops) {
    const acl::DumpConfig config = {dump_path.c_str(), nullptr, ops.c_str()};
    if (acl::WriteDumpConfig(config, path_, sizeof(path_))) {
      return absl::OkStatus();
    }
    const int error = errno;
    path_[0] = '\0';
    return ErrnoStatus(error, "write the configuration of the dump");
  }
  const char* path() const { return path_; }

 private:
  char path_[4096] = "";
};

// A folder with the lifetime of this object.
class PrivateFolder {
 public:
  PrivateFolder() = default;
  ~PrivateFolder() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  absl::Status Make() {
    std::string path = fmt::format("{}/msit_XXXXXX", acl::TemporaryFolder());
    if (mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, path);
    path_ = std::move(path);
    return absl::OkStatus();
  }
  const std::string& path() const { return path_; }
  bool is_empty() const {
    std::error_code error;
    return path_.empty() || fs::is_empty(path_, error);
  }

 private:
  std::string path_;
};

// LD_PRELOAD is a list without quoting.
absl::Status CheckPreload(const std::string& library) {
  if (library.find_first_of(" :") == std::string::npos) {
    return absl::OkStatus();
  }
  return MakeStatus(
      absl::StatusCode::kFailedPrecondition,
      "{} cannot be preloaded: its path contains a space or colon", library);
}

absl::Status CheckFlags(const DebugDumpOptions& options) {
  if (!options.command) {
    const std::string given =
        options.of_models.empty()
            ? ""
            : fmt::format(" ({})", fmt::join(options.of_models, ", "));
    return MakeStatus(
        absl::StatusCode::kUnimplemented,
        "msit debug dump without --exec, for models of ONNX, TensorFlow and "
        "Caffe{}, is not in this build: record them with the Python package "
        "msitd{}",
        given, options.ops ? "; --operation-name requires --exec" : "");
  }
  if (options.run && options.run->empty()) {
    return absl::InvalidArgumentError("--run: the name is empty");
  }
  if (options.endpoint && !options.run) {
    return absl::InvalidArgumentError("--endpoint requires --run");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FindShim() {
  const std::string named = Variable(kShimVariable);
  std::error_code error;
  const fs::path bin = fs::read_symlink("/proc/self/exe", error).parent_path();
  // In a build, next to the program, installed, and in a wheel.
  const std::array<fs::path, 5> places = {
      named, bin.parent_path() / "lib" / kShim, bin / kShim,
      bin.parent_path() / MSIT_PLUGIN_DIR / kShim, bin.parent_path() / kShim};
  for (const fs::path& place : places) {
    if (!place.empty() && fs::is_regular_file(place, error)) {
      MSITD_RETURN_IF_ERROR(CheckPreload(place.string()));
      return place.string();
    }
  }
  return MakeStatus(absl::StatusCode::kFailedPrecondition,
                    "{} is not next to msit: set its path in {}", kShim,
                    kShimVariable);
}

absl::StatusOr<std::string> MakeOutputFolder(const std::string& output) {
  const std::string folder = AbsolutePath(output.empty() ? "." : output);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return ErrnoStatus(error.value(), "make " + folder);
  return folder;
}

// Identifies a version of a file. It differs after the file was written.
using FileState = std::array<int64_t, 4>;

FileState StateOf(const std::string& path) {
  struct stat about = {};
  if (::stat(path.c_str(), &about) != 0) return {};
  return {static_cast<int64_t>(about.st_ino), about.st_size,
          about.st_mtim.tv_sec, about.st_mtim.tv_nsec};
}

absl::Status AttachMapping(fill::RunTarget& target, const std::string& name) {
  MSITD_ASSIGN_OR_RETURN(const auto file, formats::FileSource::Open(name));
  if (file->size() > kAttachmentBytesMax) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "the maximum size of an attachment is {} bytes",
                      kAttachmentBytesMax);
  }
  MSITD_ASSIGN_OR_RETURN(const std::string text,
                         file->ReadText(0, file->size()));
  MSITD_RETURN_IF_ERROR(target.Attach(name, "application/json", text));
  if (unlink(name.c_str()) != 0) return ErrnoStatus(errno, "remove it");
  return absl::OkStatus();
}

// One dump: the environment of the program, and the handling of the files that
// it leaves.
class MindieDump {
 public:
  MindieDump(const DebugDumpOptions& options, Logger& log)
      : options_(options), log_(log) {}

  absl::StatusOr<int> Run();

 private:
  absl::Status Prepare();
  absl::Status PrepareStream();
  // Starts the daemon of the user if it is the one that records.
  absl::Status StartDaemon();
  absl::Status PrepareFiles();
  // Makes MindIE enable dumps, as the toolkit does. Returns false if the
  // toolkit cannot do this.
  absl::StatusOr<bool> UseToolkit(const std::string& dump_path);
  absl::Status AttachMappings();

  bool is_streamed() const { return options_.run.has_value(); }
  std::string ops() const { return options_.ops.value_or(""); }

  const DebugDumpOptions& options_;
  Logger& log_;
  ConfigFile config_;
  // For a dump that is streamed: CANN writes there if it does not call the
  // callback.
  PrivateFolder unused_;
  ask::Environment environment_;
  std::string output_;
  ask::ConnectionOptions connection_;
  std::map<std::string, FileState> before_;
};

absl::StatusOr<bool> MindieDump::UseToolkit(const std::string& dump_path) {
  const fs::path library = fs::path(Variable(kToolkitVariable)) / kMindieDump;
  std::error_code error;
  if (!fs::is_regular_file(library, error)) return false;
  MSITD_RETURN_IF_ERROR(CheckPreload(library.string()));
  MSITD_RETURN_IF_ERROR(config_.Write(dump_path, ops()));
  Preload(library.string(), environment_);
  environment_[kMindieConfig] = config_.path();
  return true;
}

absl::Status MindieDump::StartDaemon() {
  if (connection_.personal_dir.empty()) return absl::OkStatus();
  ask::Interrupts interrupts;
  const ask::Outcome outcome =
      ask::Connection(connection_, interrupts).Connect();
  if (outcome.ok()) return absl::OkStatus();
  return absl::UnavailableError(outcome.error);
}

absl::Status MindieDump::PrepareStream() {
  if (!options_.output.empty()) {
    log_.Warning("--output is not used: the dumps are stored in run " +
                 *options_.run);
  }
  const libmsit::TlsSettings tls = libmsit::TlsSettings::FromEnvironment();
  connection_.tls = tls.is_on;
  connection_.ca_file = tls.ca_file;
  connection_.cert_file = tls.cert_file;
  connection_.key_file = tls.key_file;
  MSITD_RETURN_IF_ERROR(ask::ChooseDaemon(
      options_.endpoint.value_or(""),
      options_.no_start ? endpoint::Start::kNo : endpoint::Start::kAuto,
      connection_));
  MSITD_RETURN_IF_ERROR(StartDaemon());
  MSITD_ASSIGN_OR_RETURN(const std::string shim, FindShim());
  environment_["MSITD_RUN"] = *options_.run;
  environment_["MSITD_ENDPOINT"] = connection_.personal_dir.empty()
                                       ? connection_.endpoint
                                       : std::string(endpoint::kPersonal);
  environment_["MSITD_ACL_OPS"] = ops();
  environment_["MSITD_ACL_DUMP_PATH"] = std::nullopt;
  environment_["MSITD_ACL_DUMP"] = std::nullopt;
  environment_[kMindieConfig] = std::nullopt;
  if (Variable("MSITD_JOB").empty()) {
    // All processes of the program belong to one launch.
    environment_["MSITD_JOB"] = fmt::format(
        "msit {} {}", getpid(),
        std::chrono::system_clock::now().time_since_epoch().count());
  }
  MSITD_RETURN_IF_ERROR(unused_.Make());
  MSITD_RETURN_IF_ERROR(UseToolkit(unused_.path()).status());
  Preload(shim, environment_);
  return absl::OkStatus();
}

absl::Status MindieDump::PrepareFiles() {
  MSITD_RETURN_IF_ERROR(
      CheckRoom(options_.output.empty() ? "." : options_.output));
  MSITD_ASSIGN_OR_RETURN(output_, MakeOutputFolder(options_.output));
  environment_["MSITD_RUN"] = std::nullopt;
  MSITD_ASSIGN_OR_RETURN(const bool does_toolkit, UseToolkit(output_));
  if (does_toolkit) return absl::OkStatus();
  log_.Info(fmt::format("{} was not found in {}: {} enables the dump",
                        kMindieDump, Variable(kToolkitVariable), kShim));
  MSITD_ASSIGN_OR_RETURN(const std::string shim, FindShim());
  environment_["MSITD_ACL_DUMP_PATH"] = output_;
  environment_["MSITD_ACL_OPS"] = ops();
  environment_[kMindieConfig] = std::nullopt;
  Preload(shim, environment_);
  return absl::OkStatus();
}

absl::Status MindieDump::Prepare() {
  if (Variable(kToolkitVariable).empty()) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "{} is not set: source set_env.sh of the toolkit",
                      kToolkitVariable);
  }
  if (!options_.of_models.empty()) {
    log_.Warning(fmt::format("not used with --exec: {}",
                             fmt::join(options_.of_models, ", ")));
  }
  for (const char* const name : kMappings) before_[name] = StateOf(name);
  return is_streamed() ? PrepareStream() : PrepareFiles();
}

absl::Status MindieDump::AttachMappings() {
  ask::Interrupts interrupts;
  ask::Connection connection(connection_, interrupts);
  fill::RunTarget target(connection, *options_.run, kAttachPatience, nullptr);
  for (const char* const name : kMappings) {
    const FileState now = StateOf(name);
    if (now == FileState() || now == before_[name]) {
      log_.Warning(fmt::format(
          "the command has written no {}: it must call mindietorch.finalize",
          name));
      continue;
    }
    const absl::Status attached = AttachMapping(target, name);
    if (!attached.ok()) {
      return Annotate(attached,
                      fmt::format("attach {} to run {}", name, *options_.run));
    }
    log_.Info(
        fmt::format("{} is an attachment of run {}", name, *options_.run));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> MindieDump::Run() {
  MSITD_ASSIGN_OR_RETURN(const std::vector<std::string> words,
                         SplitCommand(*options_.command));
  MSITD_RETURN_IF_ERROR(Prepare());
  log_.Info(fmt::format("Running: {}", fmt::join(words, " ")));
  MSITD_ASSIGN_OR_RETURN(const int exit_code,
                         ask::RunCommand(words, environment_));
  if (exit_code != 0) {
    log_.Error(fmt::format("The command exited with {}", exit_code));
  }
  if (!is_streamed()) {
    log_.Info(fmt::format("The dumps are in {}", output_));
    return exit_code;
  }
  absl::Status attached = AttachMappings();
  if (!unused_.is_empty()) {
    log_.Error(
        "CANN wrote files instead of calling back, and these files are lost");
    attached.Update(absl::FailedPreconditionError(
        fmt::format("run {} lacks dumps: write dump files, and import them",
                    *options_.run)));
  }
  if (attached.ok()) return exit_code;
  if (exit_code == 0) return attached;
  log_.Error(Message(attached));
  return exit_code;
}

}  // namespace

absl::StatusOr<int> DumpMindie(const DebugDumpOptions& options, Logger& log) {
  MSITD_RETURN_IF_ERROR(CheckFlags(options));
  return MindieDump(options, log).Run();
}

}  // namespace msitd::msit_command
