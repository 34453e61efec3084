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
      memory_(std::exchange(other.memory_, {})),
      tag_(other.tag_) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  end();
  pool_ = std::exchange(other.pool_, nullptr);
  memory_ = std::exchange(other.memory_, {});
  tag_ = other.tag_;
  return *this;
}

Lease::~Lease() { end(); }

void Lease::end() {
  if (pool_ == nullptr) return;
  memory_.release();
  pool_->give_back(memory_.bytes, tag_);
}

Device* Lease::device() const { return pool_ == nullptr ? nullptr : &pool_->device(); }

TensorView Lease::view_at(Bytes offset, DType dtype, Shape shape) const {
  QD_CHECK(pool_ != nullptr);
  QD_CHECK(offset >= Bytes(0) && offset <= bytes());
  QD_CHECK(offset.count() % element_bytes(dtype) == 0);
  const TensorView view(device(), static_cast<std::byte*>(memory_.data) + offset.count(), dtype,
                        shape);
  QD_CHECK_MSG(view.bytes() <= bytes() - offset,
               shape.to_text() + " at " + to_text(offset) + " exceeds " + to_text(bytes()));
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
  QD_RETURN_IF_ERROR(check_limit(bytes, tag, what));
  auto memory = options_.device->allocate(bytes);
  if (!memory) {
    return fail(with_context(std::move(memory).error(),
                             fmt::format("{}: {} ({}); leased: {}", options_.name, what,
                                         kMemoryTagText.text(tag), by_tag(leased_by_tag_))));
  }
  Device* device = options_.device;
  return count({*memory, bytes, [device, data = *memory, bytes] { device->release(data, bytes); }},
               tag);
}

Result<Lease> Pool::adopt(ForeignMemory memory, MemoryTag tag, std::string_view what) {
  QD_CHECK(memory.data != nullptr && memory.release != nullptr);
  auto fits = check_limit(memory.bytes, tag, what);
  if (!fits) {
    memory.release();
    return fail(std::move(fits).error());
  }
  return count(std::move(memory), tag);
}

Result<void> Pool::check_limit(Bytes bytes, MemoryTag tag, std::string_view what) const {
  QD_CHECK(bytes >= Bytes(0));
  // leased <= limit always, so the difference cannot overflow where the sum could.
  if (options_.limit == Bytes(0) || bytes <= options_.limit - leased_) return {};
  return fail(Code::kExhausted,
              fmt::format("{}: {} ({}) asks for {}, of the limit of {} only {} is left; leased: {}",
                          options_.name, what, kMemoryTagText.text(tag), to_text(bytes),
                          to_text(options_.limit), to_text(options_.limit - leased_),
                          by_tag(leased_by_tag_)));
}

Lease Pool::count(ForeignMemory memory, MemoryTag tag) {
  const auto index = static_cast<std::size_t>(tag);
  leased_ += memory.bytes;
  leased_by_tag_[index] += memory.bytes;
  peak_ = std::max(peak_, leased_);
  peak_by_tag_[index] = std::max(peak_by_tag_[index], leased_by_tag_[index]);
  ++leases_made_;
  return Lease(this, std::move(memory), tag);
}

void Pool::give_back(Bytes bytes, MemoryTag tag) {
  leased_ -= bytes;
  leased_by_tag_[static_cast<std::size_t>(tag)] -= bytes;
  QD_CHECK(leased_ >= Bytes(0));
}

}  // namespace quadrille
