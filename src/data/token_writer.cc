// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/token_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "data/llmc_header.h"
#include "quadrille/base/check.h"
#include "quadrille/base/file.h"
#include "quadrille/base/hash.h"

namespace quadrille::internal {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;
constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();

template <class T>
void append_as(std::span<const std::int32_t> ids, std::vector<char>& buffer) {
  const std::size_t begin = buffer.size();
  buffer.resize(begin + ids.size() * sizeof(T));
  char* out = buffer.data() + begin;
  for (const std::int32_t id : ids) {
    const auto token = static_cast<T>(id);
    std::memcpy(out, &token, sizeof(T));
    out += sizeof(T);
  }
}

}  // namespace

Result<std::unique_ptr<TokenWriter>> TokenWriter::create(const std::string& path,
                                                         TokenWidth width) {
  QD_CHECK(width == TokenWidth::kTwo || width == TokenWidth::kFour);
  std::unique_ptr<TokenWriter> writer(new TokenWriter(path, width));
  const std::string partial = writer->partial();
  const int descriptor = ::open(partial.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return fail(errno_error("cannot create \"" + partial + "\"", errno));
  // Whoever holds the lock owns the file: only then is it cut, and removed if all fails.
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor);
    return fail(Code::kInvalid, fmt::format("\"{}\" is being written by another process", path));
  }
  writer->descriptor_ = descriptor;
  if (::ftruncate(descriptor, 0) != 0) {
    return fail(errno_error("cannot write \"" + partial + "\"", errno));
  }
  writer->written_ = kLlmcHeaderBytes;
  return writer;
}

TokenWriter::~TokenWriter() {
  if (descriptor_ < 0) return;
  if (!committed_) ::unlink(partial().c_str());
  ::close(descriptor_);
}

Result<void> TokenWriter::write_at(std::span<const char> bytes, std::int64_t offset) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(errno_error("cannot write \"" + partial() + "\"", errno));
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
  return {};
}

Result<void> TokenWriter::flush() {
  QD_RETURN_IF_ERROR(write_at(buffer_, written_));
  written_ += static_cast<std::int64_t>(buffer_.size());
  buffer_.clear();
  return {};
}

Result<void> TokenWriter::begin_document(std::optional<std::int32_t> separator) {
  if (separator && sidecar_.tokens > 0) QD_RETURN_IF_ERROR(add(std::span(&*separator, 1)));
  ++sidecar_.documents;
  if (sidecar_.document_starts.size() < kMostDocumentStarts) {
    sidecar_.document_starts.push_back(sidecar_.tokens);
  }
  return {};
}

Result<void> TokenWriter::add(std::span<const std::int32_t> ids) {
  if (ids.empty()) return {};
  const auto [least, most] = std::minmax_element(ids.begin(), ids.end());
  QD_CHECK(*least >= 0);
  QD_CHECK(width_ == TokenWidth::kFour || *most <= std::numeric_limits<std::uint16_t>::max());
  sidecar_.largest_id = std::max<std::int64_t>(sidecar_.largest_id, *most);
  const auto count = static_cast<std::int64_t>(ids.size());
  if (count > kMostTokens - sidecar_.tokens) {
    return fail(Code::kInvalid,
                fmt::format("\"{}\" would have more tokens than the 2^31 - 1 that its header can "
                            "count; expected several files (--shard-tokens) of shorter documents",
                            path_));
  }
  sidecar_.tokens += count;
  if (width_ == TokenWidth::kTwo) {
    append_as<std::uint16_t>(ids, buffer_);
  } else {
    append_as<std::uint32_t>(ids, buffer_);
  }
  return buffer_.size() < kBufferBytes ? Result<void>{} : flush();
}

Result<void> TokenWriter::finish() {
  QD_RETURN_IF_ERROR(flush());
  QD_RETURN_IF_ERROR(write_at(write_llmc_header({width_, sidecar_.tokens}), 0));
  if (::fsync(descriptor_) != 0) {
    return fail(errno_error("cannot flush \"" + partial() + "\"", errno));
  }
  QD_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(partial()));
  sidecar_.bytes = static_cast<std::int64_t>(file.bytes().size());
  sidecar_.fingerprint = fingerprint_of(file.bytes());
  sidecar_.hash = hash_text(hash64(file.bytes()));
  return {};
}

Result<void> TokenWriter::commit(const TokenizerRecord& tokenizer,
                                 std::vector<std::string> sources) {
  QD_CHECK(sidecar_.bytes == written_);
  sidecar_.tokenizer = tokenizer;
  sidecar_.sources = std::move(sources);
  QD_RETURN_IF_ERROR(rename_durably(partial(), path_));
  committed_ = true;
  return write_file_atomically(sidecar_path(path_), write_sidecar(sidecar_));
}

}  // namespace quadrille::internal
