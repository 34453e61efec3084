// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// From text to token files: llm.c's .bin shards with a sidecar each. A text file is a document, and
// so is a line of JSON. Between documents stands the tokenizer's end-of-text where it has one, as
// in the stream of a corpus: training on the text and on its .bin sees the same tokens.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "quadrille/base/enum_text.h"
#include "quadrille/base/result.h"
#include "quadrille/data/token_file.h"

namespace quadrille {

enum class InputFormat : std::uint8_t { kAuto, kText, kJsonLines };
inline constexpr EnumTable<InputFormat, 3> kInputFormatText{{{{InputFormat::kAuto, "auto"},
                                                              {InputFormat::kText, "text"},
                                                              {InputFormat::kJsonLines, "jsonl"}}}};

struct PrepareProgress {
  std::int64_t bytes_done = 0;
  std::int64_t bytes_total = 0;
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
};

struct PrepareOptions {
  std::vector<std::string> inputs;  ///< In stream order.
  std::string output;               ///< FILE.bin
  std::string tokenizer = "bytes";
  InputFormat format = InputFormat::kAuto;  ///< kAuto: .jsonl and .ndjson are lines of JSON.
  std::string field = "text";               ///< Of a line's object: the document.
  int threads = 1;
  /// Another file begins with the first document after so many tokens; 0: one file. Files are then
  /// FILE-00000.bin, FILE-00001.bin, ...
  std::int64_t shard_tokens = 0;
  /// Called now and then, if given; false stops.
  std::function<bool(const PrepareProgress&)> progress;
};

struct PreparedFile {
  std::string path;
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
};

struct PrepareOutcome {
  std::vector<PreparedFile> files;
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::int64_t empty_documents = 0;  ///< Left out.
  std::int64_t largest_id = -1;
  int bytes_per_token = 2;  ///< 2 up to a vocabulary of 65,536, 4 above.
  TokenizerRecord tokenizer;
};

/// Writes aside and makes all files visible at the end, by renames: an output that existed stays
/// whole until then. Errors: kNotFound, kInvalid (with file and line), kExhausted (disk), kAborted
/// (stopped); nothing is left behind.
[[nodiscard]] Result<PrepareOutcome> prepare_tokens(const PrepareOptions& options);

}  // namespace quadrille
