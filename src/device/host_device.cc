// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// The host as a device: an operation has run when launch() returns.

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "quadrille/device/device.h"

namespace quadrille {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t count, std::size_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// Whole huge pages, aligned to them: the kernel backs no partial huge page, and the page behind
/// the tensor's end would cost a fault for each of its 512 small pages. Zero-filled by the kernel.
void* map_huge(std::size_t count) {
  const std::size_t length = round_up(count, kHugePage);
  const std::size_t reserved = length + kHugePage;
  void* mapping =
      mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* start = static_cast<std::byte*>(mapping);
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  const std::size_t before = round_up(address, kHugePage) - address;
  const std::size_t after = kHugePage - before;
  if (before > 0) munmap(start, before);
  if (after > 0) munmap(start + before + length, after);
  madvise(start + before, length, MADV_HUGEPAGE);  // a wish: without huge pages all still works
  return start + before;
}

class HostEvent final : public Event {};

class HostStream final : public Stream {
 public:
  explicit HostStream(Device& device) : device_(device) {}
  Device& device() override { return device_; }

  void launch(const Operation& operation, std::span<const Operand> operands,
              std::function<void()> body) override {
    for (const Operand& operand : operands) check_local(operand.view, operation.name);
    run(operation, operands, body);
  }
  void upload(std::span<const std::byte> source, const TensorView& target) override {
    check_local(target, "upload");
    QD_CHECK(static_cast<std::int64_t>(source.size()) == target.bytes().count());
    const Operand operand{target, Access::kWrite};
    run("upload", {&operand, 1}, [&] {
      if (!source.empty()) std::memcpy(target.address(), source.data(), source.size());
    });
  }
  void download(const TensorView& source, std::span<std::byte> target) override {
    check_local(source, "download");
    QD_CHECK(static_cast<std::int64_t>(target.size()) == source.bytes().count());
    const Operand operand{source, Access::kRead};
    run("download", {&operand, 1}, [&] {
      if (!target.empty()) std::memcpy(target.data(), source.address(), target.size());
    });
  }

  std::unique_ptr<Event> record() override { return std::make_unique<HostEvent>(); }
  void wait(const Event&) override {}
  Result<void> synchronize() override { return {}; }

 private:
  template <class Body>
  void run(const Operation& operation, std::span<const Operand> operands, const Body& body) {
    if (observer() == nullptr) return body();
    const Seconds begin = monotonic_now();
    body();
    const Seconds end = monotonic_now();
    const Bytes moved = operation.bytes > 0 ? Bytes(operation.bytes) : bytes_moved(operands);
    observer()->ran({operation, moved, begin, end});
  }
  void check_local(const TensorView& view, std::string_view operation) const {
    QD_CHECK_MSG(view.empty() || view.device() == &device_,
                 std::string(operation) + " on an operand of another device");
  }
  Device& device_;
};

class HostDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kHost; }
  std::string name() const override { return "host"; }

  Result<void*> allocate(Bytes bytes) override {
    QD_CHECK(bytes >= Bytes(0));
    const auto count = static_cast<std::size_t>(bytes.count());
    void* memory = nullptr;
    if (count >= kHugePage) {
      memory = map_huge(count);
    } else {
      const std::size_t padded = round_up(std::max<std::size_t>(count, 1), kAlignment);
      memory = std::aligned_alloc(kAlignment, padded);
      if (memory != nullptr) std::memset(memory, 0, padded);
    }
    if (memory == nullptr) {
      return fail(Code::kExhausted, "cannot allocate " + to_text(bytes) + " of host memory");
    }
    return memory;
  }

  void release(void* memory, Bytes bytes) override {
    const auto count = static_cast<std::size_t>(bytes.count());
    if (count >= kHugePage) {
      QD_CHECK(munmap(memory, round_up(count, kHugePage)) == 0);
    } else {
      std::free(memory);
    }
  }

  std::unique_ptr<Stream> make_stream() override { return std::make_unique<HostStream>(*this); }
};

}  // namespace

Bytes bytes_moved(std::span<const Operand> operands) {
  Bytes sum;
  for (auto operand = operands.begin(); operand != operands.end(); ++operand) {
    const bool is_repeated = std::any_of(operands.begin(), operand, [&](const Operand& former) {
      return former.access == operand->access && former.view.address() == operand->view.address() &&
             former.view.bytes() == operand->view.bytes();
    });
    if (is_repeated || operand->view.empty()) continue;
    sum += operand->view.bytes() * (operand->access == Access::kReadWrite ? 2 : 1);
  }
  return sum;
}

std::unique_ptr<Device> make_host_device() { return std::make_unique<HostDevice>(); }

}  // namespace quadrille
