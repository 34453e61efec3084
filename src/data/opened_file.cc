// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/opened_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "data/llmc_header.h"

namespace quadrille::internal {
namespace {

std::string quoted(const std::string& path) { return "\"" + path + "\""; }

/// The file mapped, or what is wrong with it in a sentence with the code.
Result<MappedFile> map_file(const std::string& path) {
  struct stat status {};
  // Asked before it is opened, because opening a pipe would wait for its writer.
  if (::stat(path.c_str(), &status) != 0) {
    return fail(errno_error("cannot read " + quoted(path), errno));
  }
  if (S_ISDIR(status.st_mode)) return fail(Code::kInvalid, quoted(path) + " is a folder");
  if (!S_ISREG(status.st_mode)) return fail(Code::kInvalid, quoted(path) + " is not a plain file");
  return MappedFile::open(path);
}

/// The common prefix of a Megatron pair that `path` may name.
std::string prefix_of(const std::string& path) {
  if (path.ends_with(".bin") || path.ends_with(".idx")) return path.substr(0, path.size() - 4);
  return path;
}

Result<OpenedFile> open_megatron(const std::string& path) {
  const std::string prefix = prefix_of(path);
  QD_ASSIGN_OR_RETURN(MappedFile index_file, map_file(prefix + ".idx"));
  QD_ASSIGN_OR_RETURN(MappedFile data, map_file(prefix + ".bin"));
  QD_ASSIGN_OR_RETURN(
      MegatronIndex index,
      MegatronIndex::parse(index_file.bytes(), static_cast<std::int64_t>(data.bytes().size()),
                           prefix + ".idx"));
  QD_ASSIGN_OR_RETURN(std::optional<TokenSidecar> sidecar,
                      read_sidecar(prefix + ".bin", data.bytes()));
  return OpenedFile{.path = path,
                    .data = std::move(data),
                    .format = TokenFormat::kMegatron,
                    .index_file = std::move(index_file),
                    .index = index,
                    .sidecar = std::move(sidecar),
                    .encoded = {}};
}

/// A .idx that begins like one, or that stands beside a .bin which is nothing else.
Result<bool> is_megatron(const std::string& path) {
  if (path.ends_with(".idx")) return true;
  const std::string index = prefix_of(path) + ".idx";
  if (!path_exists(index)) return false;
  if (!path.ends_with(".bin")) return !path_exists(path);
  QD_ASSIGN_OR_RETURN(const MappedFile file, map_file(index));
  if (looks_like_megatron_index(file.bytes())) return true;
  QD_ASSIGN_OR_RETURN(const MappedFile data, map_file(path));
  return !looks_like_llmc(data.bytes());
}

}  // namespace

TokenRun OpenedFile::tokens() const {
  if (encoded) {
    return {std::as_bytes(std::span(*encoded)).data(), static_cast<std::int64_t>(encoded->size()),
            TokenWidth::kFour};
  }
  const auto bytes = data.bytes();
  const auto length = static_cast<std::int64_t>(bytes.size());
  if (format == TokenFormat::kText) return {bytes.data(), length, TokenWidth::kOne};
  if (index) return {bytes.data(), length / bytes_of(index->width()), index->width()};
  const auto header = parse_llmc(bytes, path);
  return {bytes.data() + kLlmcHeaderBytes, header->tokens, header->width};
}

TokenRun OpenedFile::sequence(std::int64_t number) const {
  return {data.bytes().data() + index->offset(number), index->length(number), index->width()};
}

Result<OpenedFile> open_data_file(const std::string& path) {
  QD_ASSIGN_OR_RETURN(const bool megatron, is_megatron(path));
  if (megatron) return open_megatron(path);
  QD_ASSIGN_OR_RETURN(MappedFile data, map_file(path));
  if (data.bytes().empty()) return fail(Code::kInvalid, quoted(path) + " is empty");
  OpenedFile file{.path = path,
                  .data = std::move(data),
                  .format = TokenFormat::kText,
                  .index_file = {},
                  .index = {},
                  .sidecar = {},
                  .encoded = {}};
  const auto bytes = file.data.bytes();
  if (!path.ends_with(".bin") && !looks_like_llmc(bytes)) return file;
  file.format = TokenFormat::kLlmc;
  QD_RETURN_IF_ERROR(parse_llmc(bytes, path));
  QD_ASSIGN_OR_RETURN(file.sidecar, read_sidecar(path, bytes));
  return file;
}

}  // namespace quadrille::internal
