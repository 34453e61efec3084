// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/memory/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace quadrille {
namespace {

std::string by_tag(const std::array<Bytes, kMemoryTagCount>& leased) {
  std::string text;
  for (const auto& [tag, name] : kMemoryTagText.rows) {
    const Bytes bytes = leased[static_cast<std::size_t>(tag)];
    if (bytes == Bytes(0)) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, to_text(bytes));
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace

Lease::Lease(Lease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, Bytes(0))),
      tag_(other.tag_) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  if (pool_ != nullptr) pool_->give_back(data_, bytes_, tag_);
  pool_ = std::exchange(other.pool_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, Bytes(0));
  tag_ = other.tag_;
  return *this;
}

Lease::~Lease() {
  if (pool_ != nullptr) pool_->give_back(data_, bytes_, tag_);
}

Device* Lease::device() const { return pool_ == nullptr ? nullptr : &pool_->device(); }

TensorView Lease::view_at(Bytes offset, DType dtype, Shape shape) const {
  QD_CHECK(pool_ != nullptr);
  QD_CHECK(offset >= Bytes(0) && offset <= bytes_);
  QD_CHECK(offset.count() % element_bytes(dtype) == 0);
  const TensorView view(device(), static_cast<std::byte*>(data_) + offset.count(), dtype, shape);
  QD_CHECK_MSG(view.bytes() <= bytes_ - offset,
               shape.to_text() + " at " + to_text(offset) + " exceeds " + to_text(bytes_));
  return view;
}

Result<std::unique_ptr<Pool>> Pool::create(PoolOptions options) {
  if (options.device == nullptr) return fail(Code::kInvalid, "a memory pool needs a device");
  if (options.limit < Bytes(0)) return fail(Code::kInvalid, "a memory pool's limit is negative");
  return std::unique_ptr<Pool>(new Pool(std::move(options)));
}

Pool::~Pool() {
  QD_CHECK_MSG(leased_ == Bytes(0), options_.name + ": still leased: " + by_tag(leased_by_tag_));
}

Result<Lease> Pool::lease(Bytes bytes, MemoryTag tag, std::string_view what) {
  QD_CHECK(bytes >= Bytes(0));
  // leased <= limit always, so the difference cannot overflow where the sum could.
  if (options_.limit > Bytes(0) && bytes > options_.limit - leased_) {
    return fail(
        Code::kExhausted,
        fmt::format("{}: {} ({}) asks for {}, of the limit of {} only {} is left; leased: {}",
                    options_.name, what, kMemoryTagText.text(tag), to_text(bytes),
                    to_text(options_.limit), to_text(options_.limit - leased_),
                    by_tag(leased_by_tag_)));
  }
  auto memory = options_.device->allocate(bytes);
  if (!memory) {
    return fail(with_context(std::move(memory).error(),
                             fmt::format("{}: {} ({}); leased: {}", options_.name, what,
                                         kMemoryTagText.text(tag), by_tag(leased_by_tag_))));
  }
  const auto index = static_cast<std::size_t>(tag);
  leased_ += bytes;
  leased_by_tag_[index] += bytes;
  peak_ = std::max(peak_, leased_);
  peak_by_tag_[index] = std::max(peak_by_tag_[index], leased_by_tag_[index]);
  ++leases_made_;
  return Lease(this, *memory, bytes, tag);
}

void Pool::give_back(void* data, Bytes bytes, MemoryTag tag) {
  options_.device->release(data, bytes);
  leased_ -= bytes;
  leased_by_tag_[static_cast<std::size_t>(tag)] -= bytes;
  QD_CHECK(leased_ >= Bytes(0));
}

}  // namespace quadrille
