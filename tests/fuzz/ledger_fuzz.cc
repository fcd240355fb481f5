// SPDX-License-Identifier: Apache-2.0
// Ledgers of imports, as received from a daemon, and numbers written by another
// tool.
#include <string>

#include "client/foreign/fill/import_ledger.h"
#include "client/foreign/fill/scalar_text.h"
#include "protos/base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace msitd::fuzz {

std::vector<std::string> Seeds() {
  return {
      "",
      "{\"msitd_import_ledger\": 1, \"source\": \"ge\"}\n"
      "{\"file\": \"a\", \"bytes\": 7, \"mtime_ns\": -3, \"records\": 1, "
      "\"as\": \"rank 1\", \"tensor\": \"t\", \"problem\": \"p\"}\n"
      "{\"values\": \"00ff\", \"records\": 3}\n",
      "(1.5e-3+infj)",
      "-9223372036854775808",
  };
}

}  // namespace msitd::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)msitd::fill::ParseScalar(text);
  msitd::fill::ImportLedger ledger("ge");
  ledger.Load(text);
  // An entry that is added to the loaded ledger is found again.
  msitd::fill::LedgerEntry entry;
  entry.path = "file";
  entry.bytes = size;
  ledger.Add(entry);
  ledger.Mark();
  MSITD_CHECK(ledger.Settle().ok());
  const auto part = ledger.Unsaved();
  MSITD_CHECK(part.has_value());
  msitd::fill::ImportLedger loaded("ge");
  loaded.Load(part->text);
  std::string problem;
  MSITD_CHECK(loaded.Has(entry, problem));
  return 0;
}
