// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "checkpoint/fields.h"
#include "checkpoint/plain_file.h"
#include "checkpoint/streamed_reader.h"
#include "quadrille/base/check.h"
#include "quadrille/base/hash.h"
#include "quadrille/checkpoint/safetensors.h"

namespace quadrille {
namespace {

constexpr std::int64_t kLengthBytes = 8;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The 8 bytes and the JSON.
Result<std::string> read_header(const internal::ReadFile& file) {
  if (file.size() < Bytes(kLengthBytes)) {
    return fail(internal::damaged(file.path(), "it is shorter than 8 bytes"));
  }
  std::array<std::byte, kLengthBytes> prefix{};
  QD_RETURN_IF_ERROR(file.read_at(Bytes(0), prefix));
  std::uint64_t length = 0;
  for (std::size_t i = prefix.size(); i-- > 0;) {
    length = length << 8 | static_cast<std::uint64_t>(prefix[i]);
  }
  const auto most = std::min(kSafetensorsHeaderMost, file.size() - Bytes(kLengthBytes));
  if (length > static_cast<std::uint64_t>(most.count())) {
    return fail(internal::damaged(file.path(), fmt::format("it claims a header of {} bytes, more "
                                                           "than {}",
                                                           length, most.count())));
  }
  std::string text(as_text(prefix));
  text.resize(text.size() + static_cast<std::size_t>(length));
  QD_RETURN_IF_ERROR(file.read_at(Bytes(0), std::as_writable_bytes(std::span<char>(text))));
  return text;
}

}  // namespace

struct SafetensorsFile::State {
  internal::ReadFile file;
  SafetensorsHeader header;
  std::string header_checksum;
  Bytes data_begin;
  std::unordered_map<std::string_view, std::size_t> by_name;
};

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  QD_ASSIGN_OR_RETURN(internal::ReadFile file, internal::ReadFile::open(path));
  QD_ASSIGN_OR_RETURN(const std::string text, read_header(file));
  const Bytes data_begin(static_cast<std::int64_t>(text.size()));
  QD_ASSIGN_OR_RETURN(SafetensorsHeader header,
                      parse_safetensors_header(std::string_view(text).substr(kLengthBytes),
                                               file.size() - data_begin, path));
  auto state = std::make_unique<State>(
      State{std::move(file), std::move(header), hash_text(hash64(text)), data_begin, {}});
  for (std::size_t i = 0; i < state->header.tensors.size(); ++i) {
    state->by_name.emplace(state->header.tensors[i].name, i);
  }
  return SafetensorsFile(std::move(state));
}

SafetensorsFile::SafetensorsFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

const SafetensorsHeader& SafetensorsFile::header() const { return state_->header; }
Bytes SafetensorsFile::size() const { return state_->file.size(); }
const std::string& SafetensorsFile::header_checksum() const { return state_->header_checksum; }

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = state_->by_name.find(name);
  return found == state_->by_name.end() ? nullptr : &state_->header.tensors[found->second];
}

Result<void> SafetensorsFile::read(const SafetensorsTensor& tensor, Bytes offset,
                                   std::span<std::byte> out) const {
  QD_CHECK(offset >= Bytes(0) && offset <= tensor.bytes());
  QD_CHECK(static_cast<std::int64_t>(out.size()) <= (tensor.bytes() - offset).count());
  return state_->file.read_at(state_->data_begin + tensor.begin + offset, out);
}

internal::FileRun SafetensorsFile::place_of(const SafetensorsTensor& tensor) const {
  return {&state_->file, state_->data_begin + tensor.begin, tensor.bytes()};
}

}  // namespace quadrille
