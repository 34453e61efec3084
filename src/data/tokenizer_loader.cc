// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// From a name to a tokenizer: which files there are decides the kind.

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "data/byte_tokenizer.h"
#include "data/sentencepiece_tokenizer.h"
#include "data/tokenizer_files.h"
#include "quadrille/base/file.h"
#include "quadrille/base/hash.h"

namespace quadrille {
namespace {

using internal::FileText;
using internal::TokenizerSource;

constexpr std::string_view kExpected =
    "\"bytes\", a folder with tokenizer.json, or vocab.json and merges.txt, or tokenizer.model; or "
    "one of tokenizer.json and tokenizer.model themselves";

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? "." : path.substr(0, slash);
}
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

Error about_job(Code code, std::string wrong) {
  Error error{code, "the tokenizer cannot be used", {}};
  error.diagnostics.push_back({"", 0, "data.tokenizer", std::move(wrong), std::string(kExpected)});
  return error;
}

Result<FileText> read(const std::string& path) {
  QD_ASSIGN_OR_RETURN(std::string text, read_text_file(path));
  return FileText{path, std::move(text)};
}

/// What a file is called in a tokenizer's folder, whatever it was called alone.
std::string usual_name(const std::string& path) {
  const std::string name = name_of(path);
  if (name.ends_with(".model")) return "tokenizer.model";
  const bool usual =
      name == "vocab.json" || name == "merges.txt" || name == "tokenizer_config.json";
  return usual ? name : "tokenizer.json";
}

std::string hash_of(const std::vector<FileText>& files) {
  Hasher hasher;
  const auto add = [&](const std::string& text) {
    const std::string framed = std::to_string(text.size()) + " " + text;
    hasher.add(std::as_bytes(std::span(framed)));
  };
  for (const FileText& file : files) {
    add(usual_name(file.path));
    add(file.text);
  }
  return hash_text(hasher.digest());
}

TokenizerSource source_of(const std::vector<FileText>& files) {
  TokenizerSource source{.files = {}, .hash = hash_of(files)};
  for (const FileText& file : files) source.files.push_back(file.path);
  return source;
}

/// The files that make a tokenizer, and tokenizer_config.json where it stands beside them.
class Loader {
 public:
  explicit Loader(std::string folder) : folder_(std::move(folder)) {}

  [[nodiscard]] bool has(const std::string& name) const {
    return path_exists(folder_ + "/" + name);
  }

  Result<std::unique_ptr<Tokenizer>> load_json(const std::string& name) {
    QD_RETURN_IF_ERROR(add({name}));
    QD_ASSIGN_OR_RETURN(const internal::TokenizerConfig config, add_config());
    QD_ASSIGN_OR_RETURN(auto definition, internal::parse_tokenizer_json(files_[0], config));
    return internal::make_bpe_tokenizer(std::move(definition), source_of(files_));
  }
  Result<std::unique_ptr<Tokenizer>> load_gpt2() {
    QD_RETURN_IF_ERROR(add({"vocab.json", "merges.txt"}));
    QD_ASSIGN_OR_RETURN(const internal::TokenizerConfig config, add_config());
    QD_ASSIGN_OR_RETURN(auto definition, internal::parse_gpt2_files(files_[0], files_[1], config));
    return internal::make_bpe_tokenizer(std::move(definition), source_of(files_));
  }
  Result<std::unique_ptr<Tokenizer>> load_sentencepiece(const std::string& name) {
    QD_RETURN_IF_ERROR(add({name}));
    return internal::make_sentencepiece_tokenizer(files_[0], source_of(files_));
  }

 private:
  Result<void> add(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      QD_ASSIGN_OR_RETURN(FileText file, read(folder_ + "/" + name));
      files_.push_back(std::move(file));
    }
    return {};
  }
  Result<internal::TokenizerConfig> add_config() {
    if (!has("tokenizer_config.json")) return internal::TokenizerConfig{};
    QD_RETURN_IF_ERROR(add({"tokenizer_config.json"}));
    return internal::parse_tokenizer_config(files_.back());
  }

  std::string folder_;
  std::vector<FileText> files_;
};

Result<std::unique_ptr<Tokenizer>> load_folder(const std::string& folder) {
  Loader loader(folder);
  if (loader.has("tokenizer.json")) return loader.load_json("tokenizer.json");
  if (loader.has("vocab.json") && loader.has("merges.txt")) return loader.load_gpt2();
  if (loader.has("tokenizer.model")) return loader.load_sentencepiece("tokenizer.model");
  std::string found = fmt::format("the folder \"{}\" has no tokenizer", folder);
  if (loader.has("vocab.json")) found += ": merges.txt is missing beside vocab.json";
  if (loader.has("merges.txt")) found += ": vocab.json is missing beside merges.txt";
  return fail(about_job(Code::kNotFound, found));
}

Result<std::unique_ptr<Tokenizer>> load(const std::string& name) {
  if (name == "bytes") return internal::make_byte_tokenizer();
  if (is_folder(name)) return load_folder(name);
  if (!path_exists(name)) {
    return fail(about_job(Code::kNotFound, fmt::format("\"{}\" does not exist", name)));
  }
  const std::string file = name_of(name);
  if (file == "vocab.json" || file == "merges.txt") {
    return fail(about_job(Code::kInvalid,
                          fmt::format("\"{}\" is half a tokenizer; name its folder", name)));
  }
  if (file.ends_with(".json")) return Loader(folder_of(name)).load_json(file);
  if (file.ends_with(".model")) return Loader(folder_of(name)).load_sentencepiece(file);
  return fail(about_job(Code::kInvalid, fmt::format("\"{}\" is of no known kind", name)));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_tokenizer(const std::string& name) {
  auto tokenizer = load(name);
  if (tokenizer || !tokenizer.error().diagnostics.empty()) return tokenizer;
  return fail(about_job(tokenizer.error().code, tokenizer.error().message));
}

Result<void> copy_tokenizer(const Tokenizer& tokenizer, const std::string& folder) {
  if (tokenizer.files().empty()) return {};
  std::vector<FileText> files;
  for (const std::string& path : tokenizer.files()) {
    QD_ASSIGN_OR_RETURN(FileText file, read(path));
    files.push_back(std::move(file));
  }
  if (hash_of(files) != tokenizer.hash()) {
    return fail(Code::kCorrupt, fmt::format("the tokenizer's files in \"{}\" have changed since "
                                            "they were read",
                                            folder_of(files[0].path)));
  }
  // Aside first: the folder may hold another tokenizer, whose files must not mix with these.
  const std::string aside = folder + ".new";
  QD_RETURN_IF_ERROR(remove_tree(aside));
  QD_RETURN_IF_ERROR(make_folders(aside));
  for (const FileText& file : files) {
    QD_RETURN_IF_ERROR(write_file_atomically(aside + "/" + usual_name(file.path), file.text));
  }
  QD_RETURN_IF_ERROR(remove_tree(folder));
  return rename_durably(aside, folder);
}

Result<std::int64_t> vocabulary_for(const JobSpec& job) {
  QD_ASSIGN_OR_RETURN(const auto tokenizer, make_tokenizer(job.data.tokenizer));
  const std::int64_t needed = tokenizer->vocabulary();
  if (job.model.vocab == 0) return needed;
  if (job.model.vocab >= needed) return job.model.vocab;
  Error error{Code::kInvalid, "the tokenizer does not fit the model", {}};
  error.diagnostics.push_back({"", 0, "model.vocab",
                               fmt::format("{} is less than the {} tokens of data.tokenizer \"{}\"",
                                           job.model.vocab, needed, job.data.tokenizer),
                               fmt::format("at least {}", needed)});
  return fail(std::move(error));
}

}  // namespace quadrille
