// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "checkpoint/part_checker.h"
#include "checkpoint/plain_file.h"
#include "quadrille/checkpoint/checkpoint.h"

namespace quadrille {
namespace {

using Difference = std::optional<std::string>;

/// The model without where its first weights came from, which says nothing about the state.
Json without_origin(const Json& model) {
  Json rest = Json::object();
  for (const auto& [key, value] : model.members()) {
    if (key != "weights") rest.set(key, value);
  }
  return rest;
}

Difference diff_states(const TrainingState& a, const TrainingState& b) {
  if (a.step != b.step) return fmt::format("step differs: {} against {}", a.step, b.step);
  if (a.consumed_tokens != b.consumed_tokens) {
    return fmt::format("consumed_tokens differs: {} against {}", a.consumed_tokens,
                       b.consumed_tokens);
  }
  const bool hashed = !a.tokenizer_hash.empty() && !b.tokenizer_hash.empty();
  if (hashed ? a.tokenizer_hash != b.tokenizer_hash : a.tokenizer != b.tokenizer) {
    return fmt::format("tokenizer differs: \"{}\" against \"{}\"", a.tokenizer, b.tokenizer);
  }
  if (!(without_origin(a.model) == without_origin(b.model))) {
    return fmt::format("model differs: {} against {}", write_json(a.model), write_json(b.model));
  }
  if (a.job_hash != b.job_hash) {
    return fmt::format("job_hash differs: {} against {}", a.job_hash, b.job_hash);
  }
  return std::nullopt;
}

using ByName = std::map<std::string, const ManifestTensor*>;

ByName by_name(const Manifest& manifest) {
  ByName names;
  for (const ManifestTensor& tensor : manifest.tensors) names.emplace(tensor.name, &tensor);
  return names;
}

/// The first name that only one of them has; how many there are.
Difference only_in(const ByName& a, const ByName& b, std::string_view which) {
  std::string first;
  int count = 0;
  for (const auto& [name, tensor] : a) {
    if (b.contains(name)) continue;
    if (count++ == 0) first = name;
  }
  if (count == 0) return std::nullopt;
  return fmt::format("{} of the tensors {} only in the {}: \"{}\"{}", count,
                     count == 1 ? "is" : "are", which, first, count == 1 ? "" : " and more");
}

Difference diff_forms(const ByName& a, const ByName& b) {
  for (const auto& [name, tensor] : a) {
    const ManifestTensor& other = *b.at(name);
    if (tensor->dtype == other.dtype && tensor->shape == other.shape) continue;
    return fmt::format("tensor \"{}\" is {} {} against {} {}", name, kDTypeText.text(tensor->dtype),
                       tensor->shape.to_text(), kDTypeText.text(other.dtype),
                       other.shape.to_text());
  }
  return std::nullopt;
}

template <class T>
T element(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// A value with the digits that tell it from its neighbours.
std::string value_text(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      return fmt::format("{:.9g}", element<float>(at));
    case DType::kF64:
      return fmt::format("{:.17g}", element<double>(at));
    case DType::kI32:
      return fmt::format("{}", element<std::int32_t>(at));
    case DType::kU8:
      return fmt::format("{}", element<std::uint8_t>(at));
    case DType::kBF16:
      return fmt::format("{:.4g}",
                         std::bit_cast<float>(std::uint32_t{element<std::uint16_t>(at)} << 16U));
  }
  return "?";
}

/// [row, column, ...] of an element.
std::string index_text(const Shape& shape, std::int64_t element) {
  std::string text = "]";
  for (int i = shape.dimensions(); i-- > 0;) {
    text = fmt::format("{}{}{}", i > 0 ? ", " : "[", element % shape[i], text);
    element /= shape[i];
  }
  return shape.dimensions() == 0 ? "[]" : text;
}

struct ValueDifference {
  std::int64_t count = 0;
  std::int64_t first = 0;
  std::string values;  ///< Of the first, "1.5 against 2".
};

/// A tensor of one of the two checkpoints, read front to back and checked.
class Reader {
 public:
  Reader(const Checkpoint& checkpoint, const ManifestTensor& tensor)
      : checkpoint_(checkpoint),
        tensor_(tensor),
        piece_(internal::kPieceBytes),
        checker_(tensor, checkpoint.path()) {}
  Result<std::span<const std::byte>> next(std::int64_t offset, std::size_t count) {
    if (has_columns()) return of_whole(offset, count);
    const auto bytes = std::span(piece_).first(count);
    QD_RETURN_IF_ERROR(checkpoint_.read(tensor_, Bytes(offset), bytes));
    QD_RETURN_IF_ERROR(checker_.add(bytes));
    return bytes;
  }

 private:
  [[nodiscard]] bool has_columns() const {
    return std::any_of(tensor_.parts.begin(), tensor_.parts.end(),
                       [](const ManifestPart& part) { return part.count > 1; });
  }

  /// Parts of several runs take turns in the tensor, so they are put together first.
  Result<std::span<const std::byte>> of_whole(std::int64_t offset, std::size_t count) {
    if (whole_.empty()) {
      whole_.resize(
          static_cast<std::size_t>(tensor_.shape.elements() * element_bytes(tensor_.dtype)));
      QD_RETURN_IF_ERROR(checkpoint_.read_checked(tensor_, whole_));
    }
    return std::span<const std::byte>(whole_).subspan(static_cast<std::size_t>(offset), count);
  }

  const Checkpoint& checkpoint_;
  const ManifestTensor& tensor_;
  std::vector<std::byte> whole_;
  std::vector<std::byte> piece_;
  internal::PartChecker checker_;
};

void compare_piece(std::span<const std::byte> a, std::span<const std::byte> b,
                   std::int64_t first_element, DType dtype, ValueDifference& out) {
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) return;
  const auto size = static_cast<std::size_t>(element_bytes(dtype));
  for (std::size_t i = 0; i < a.size(); i += size) {
    if (std::memcmp(&a[i], &b[i], size) == 0) continue;
    if (out.count++ > 0) continue;
    out.first = first_element + static_cast<std::int64_t>(i / size);
    out.values = value_text(dtype, &a[i]) + " against " + value_text(dtype, &b[i]);
  }
}

/// Compares bits: a NaN equals itself, and 0 does not equal -0.
Result<ValueDifference> diff_values(Reader a, Reader b, const ManifestTensor& tensor) {
  ValueDifference difference;
  const std::int64_t size = element_bytes(tensor.dtype);
  const std::int64_t total = tensor.shape.elements() * size;
  for (std::int64_t done = 0; done < total;) {
    const auto count =
        static_cast<std::size_t>(std::min<std::int64_t>(total - done, internal::kPieceBytes));
    QD_ASSIGN_OR_RETURN(const auto left, a.next(done, count));
    QD_ASSIGN_OR_RETURN(const auto right, b.next(done, count));
    compare_piece(left, right, done / size, tensor.dtype, difference);
    done += static_cast<std::int64_t>(count);
  }
  return difference;
}

}  // namespace

Result<std::optional<std::string>> diff_checkpoints(const Checkpoint& a, const Checkpoint& b) {
  if (auto states = diff_states(a.manifest().state, b.manifest().state)) return states;
  const ByName in_a = by_name(a.manifest());
  const ByName in_b = by_name(b.manifest());
  if (auto extra = only_in(in_a, in_b, "first")) return extra;
  if (auto extra = only_in(in_b, in_a, "second")) return extra;
  if (auto forms = diff_forms(in_a, in_b)) return forms;

  Difference first;
  std::int64_t differing = 0;
  // In the order of the first's manifest, which is the model's.
  for (const ManifestTensor& tensor : a.manifest().tensors) {
    QD_ASSIGN_OR_RETURN(const ValueDifference found,
                        diff_values(Reader(a, tensor), Reader(b, *in_b.at(tensor.name)), tensor));
    if (found.count == 0 || differing++ > 0) continue;
    first = fmt::format("tensor \"{}\" differs in {} of {} elements, first at {}: {}", tensor.name,
                        found.count, tensor.shape.elements(), index_text(tensor.shape, found.first),
                        found.values);
  }
  if (first && differing > 1) {
    *first += fmt::format("; {} of {} tensors differ", differing, in_a.size());
  }
  return first;
}

}  // namespace quadrille
