// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The safetensors file format, read and written: 8 bytes with the length of a JSON header, the
// header (per tensor its dtype, shape and place), then the tensors' bytes without gap or overlap.
// Reading trusts nothing: a file from anywhere is either understood whole or refused.
// Source: github.com/huggingface/safetensors, README.md, section "Format".

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quadrille/base/enum_text.h"
#include "quadrille/base/result.h"
#include "quadrille/base/units.h"
#include "quadrille/device/tensor_view.h"

namespace quadrille {

namespace internal {
struct FileRun;
}

/// How a file stores elements: what tensors here have, and what only files of others have.
enum class StoredType : std::uint8_t { kF32, kF64, kI32, kU8, kF16, kBF16, kI64, kI16, kI8, kBool };
inline constexpr EnumTable<StoredType, 10> kStoredTypeText{{{{StoredType::kF32, "F32"},
                                                             {StoredType::kF64, "F64"},
                                                             {StoredType::kI32, "I32"},
                                                             {StoredType::kU8, "U8"},
                                                             {StoredType::kF16, "F16"},
                                                             {StoredType::kBF16, "BF16"},
                                                             {StoredType::kI64, "I64"},
                                                             {StoredType::kI16, "I16"},
                                                             {StoredType::kI8, "I8"},
                                                             {StoredType::kBool, "BOOL"}}}};
[[nodiscard]] std::int64_t element_bytes(StoredType type);
/// Both tables use the same words.
[[nodiscard]] StoredType stored_type(DType dtype);
/// Nothing where no tensor here has it.
[[nodiscard]] std::optional<DType> tensor_dtype(StoredType type);

struct SafetensorsTensor {
  std::string name;
  StoredType dtype = StoredType::kF32;
  Shape shape;
  Bytes begin;  ///< From the start of the data that follows the header.

  [[nodiscard]] Bytes bytes() const { return Bytes(shape.elements() * element_bytes(dtype)); }
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  ///< By place in the file.
  std::vector<std::pair<std::string, std::string>> metadata;
};

/// A longer header is refused before it is read: about 250,000 tensors.
inline constexpr Bytes kSafetensorsHeaderMost = Bytes(25'000'000);

/// The header's JSON (without the 8 bytes), for `data` bytes that follow it; `file` is for errors.
/// Errors: kCorrupt (not JSON, offsets that overlap, leave gaps, leave the file or do not fit dtype
/// and shape), kInvalid (dtype or number of dimensions that is not supported).
[[nodiscard]] Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, Bytes data,
                                                                 const std::string& file);

/// The 8 bytes and the header of tensors that lie in the file in this order (their `begin` is not
/// looked at), padded so that the data starts at a multiple of 8.
[[nodiscard]] std::string write_safetensors_header(std::span<const SafetensorsTensor> tensors);

/// An opened file; reads are const and safe from any number of threads.
class SafetensorsFile {
 public:
  /// Errors: kNotFound, and those of parse_safetensors_header.
  [[nodiscard]] static Result<SafetensorsFile> open(const std::string& path);
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  [[nodiscard]] const SafetensorsHeader& header() const;
  [[nodiscard]] const SafetensorsTensor* find(std::string_view name) const;
  [[nodiscard]] Bytes size() const;  ///< Of the whole file.
  /// hash_text of everything before the data.
  [[nodiscard]] const std::string& header_checksum() const;
  /// Bytes [offset, offset + out.size()) of a tensor, which must lie within it.
  [[nodiscard]] Result<void> read(const SafetensorsTensor& tensor, Bytes offset,
                                  std::span<std::byte> out) const;
  /// Where a tensor's bytes lie, for those who read many in a row.
  [[nodiscard]] internal::FileRun place_of(const SafetensorsTensor& tensor) const;

 private:
  struct State;
  explicit SafetensorsFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Writes a file front to back. What is at `path` before close() is not to be relied on.
class SafetensorsWriter {
 public:
  /// Creates the file and writes its header.
  [[nodiscard]] static Result<SafetensorsWriter> create(const std::string& path,
                                                        std::vector<SafetensorsTensor> tensors);
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();

  /// The next bytes of the data, in the order of the tensors, in pieces of any size.
  /// Errors: kExhausted when the disk is full.
  [[nodiscard]] Result<void> append(std::span<const std::byte> bytes);
  /// All data must have been appended; brings the file to the disk.
  [[nodiscard]] Result<void> close();
  [[nodiscard]] Bytes size() const;  ///< Of the whole file once it is complete.
  [[nodiscard]] const std::string& header_checksum() const;

 private:
  struct State;
  explicit SafetensorsWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quadrille
