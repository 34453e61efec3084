// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// The reader of safetensors on any file. Whatever comes: no crash; a refusal that says why; what is
// accepted covers the data exactly, can be read, and gives an equal header when written again.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "quadrille/base/check.h"
#include "quadrille/checkpoint/safetensors.h"

namespace quadrille {
namespace {

constexpr std::size_t kLengthBytes = 8;

void check_accepted(const SafetensorsFile& file) {
  Bytes covered;
  for (const SafetensorsTensor& tensor : file.header().tensors) {
    QD_CHECK(tensor.begin == covered);
    covered += tensor.bytes();
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes().count()));
    QD_CHECK(file.read(tensor, Bytes(0), bytes).has_value());
    QD_CHECK(file.find(tensor.name) != nullptr);
  }
  const std::string written = write_safetensors_header(file.header().tensors);
  const auto again =
      parse_safetensors_header(std::string_view(written).substr(kLengthBytes), covered, "again");
  QD_CHECK_MSG(again.has_value(), again.error().to_text());
  QD_CHECK(again->tensors.size() == file.header().tensors.size());
  for (std::size_t i = 0; i < again->tensors.size(); ++i) {
    QD_CHECK(again->tensors[i].name == file.header().tensors[i].name);
    QD_CHECK(again->tensors[i].shape == file.header().tensors[i].shape);
  }
}

void read_any_file(std::span<const std::byte> input) {
  const int descriptor = ::memfd_create("fuzz", MFD_CLOEXEC);
  QD_CHECK(descriptor >= 0);
  QD_CHECK(::write(descriptor, input.data(), input.size()) == static_cast<ssize_t>(input.size()));
  const auto file = SafetensorsFile::open("/proc/self/fd/" + std::to_string(descriptor));
  ::close(descriptor);
  if (file) return check_accepted(*file);
  QD_CHECK(file.error().code == Code::kCorrupt || file.error().code == Code::kInvalid);
  QD_CHECK(!file.error().message.empty());
}

}  // namespace
}  // namespace quadrille

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quadrille::read_any_file(std::as_bytes(std::span(data, size)));
  return 0;
}
