// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/plain_file.h"
#include "quadrille/base/check.h"
#include "quadrille/base/hash.h"
#include "quadrille/checkpoint/safetensors.h"

namespace quadrille {

struct SafetensorsWriter::State {
  internal::WriteFile file;
  std::string header_checksum;
  Bytes size;
  Bytes missing;  ///< Data still to come.
};

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    std::vector<SafetensorsTensor> tensors) {
  const std::string header = write_safetensors_header(tensors);
  QD_ASSIGN_OR_RETURN(internal::WriteFile file, internal::WriteFile::create(path));
  QD_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(header))));
  Bytes data;
  for (const SafetensorsTensor& tensor : tensors) data += tensor.bytes();
  return SafetensorsWriter(
      std::make_unique<State>(State{std::move(file), hash_text(hash64(header)),
                                    Bytes(static_cast<std::int64_t>(header.size())) + data, data}));
}

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

Result<void> SafetensorsWriter::append(std::span<const std::byte> bytes) {
  const Bytes count(static_cast<std::int64_t>(bytes.size()));
  QD_CHECK(count <= state_->missing);
  QD_RETURN_IF_ERROR(state_->file.append(bytes));
  state_->missing -= count;
  return {};
}

Result<void> SafetensorsWriter::close() {
  QD_CHECK(state_->missing == Bytes(0));
  return state_->file.sync();
}

Bytes SafetensorsWriter::size() const { return state_->size; }
const std::string& SafetensorsWriter::header_checksum() const { return state_->header_checksum; }

}  // namespace quadrille
