// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The seam for devices. A Device owns raw memory and makes Streams; a Stream runs operations in
// order. The host implements both now (operations run at once, in the calling thread and its OpenMP
// pool); code above never relies on that: it reads results only after synchronize() and through
// copies.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quadrille/base/enum_text.h"
#include "quadrille/base/result.h"
#include "quadrille/base/units.h"
#include "quadrille/device/tensor_view.h"
#include "quadrille/observe/operation.h"

namespace quadrille {

enum class DeviceKind : std::uint8_t { kHost };
inline constexpr EnumTable<DeviceKind, 1> kDeviceKindText{{{{DeviceKind::kHost, "host"}}}};

enum class Access : std::uint8_t { kRead, kWrite, kReadWrite };

/// What an operation touches; a device that guards its memory opens exactly these.
struct Operand {
  TensorView view;
  Access access = Access::kRead;
};

/// A point in a stream's order that other streams can wait for.
class Event {
 public:
  virtual ~Event() = default;
};

class Stream {
 public:
  virtual ~Stream() = default;
  [[nodiscard]] virtual Device& device() = 0;

  /// Enqueues `body`, which touches nothing but the operands. The body may run later and on another
  /// thread: it owns what it needs by value.
  virtual void launch(const Operation& operation, std::span<const Operand> operands,
                      std::function<void()> body) = 0;
  /// Enqueue copies of whole views. `upload` has taken its source when it returns; for `download`
  /// the target must stay alive until synchronize(), and is valid after it.
  virtual void upload(std::span<const std::byte> source, const TensorView& target) = 0;
  virtual void download(const TensorView& source, std::span<std::byte> target) = 0;

  [[nodiscard]] virtual std::unique_ptr<Event> record() = 0;
  virtual void wait(const Event& event) = 0;
  /// Blocks until all that was enqueued has run. Errors: what an operation failed with.
  [[nodiscard]] virtual Result<void> synchronize() = 0;

  /// Tells `observer`, which outlives the stream, of every operation and copy from now on; null
  /// tells nobody. Called while nothing is enqueued.
  void observe(OperationObserver* observer) { observer_ = observer; }
  [[nodiscard]] OperationObserver* observer() const { return observer_; }

 private:
  OperationObserver* observer_ = nullptr;
};

/// Bytes that an operation moves where it touches all of its operands: each view once, twice where
/// it is updated, and once however often it is named.
[[nodiscard]] Bytes bytes_moved(std::span<const Operand> operands);

class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual DeviceKind kind() const = 0;
  /// Whether any thread of this process may touch its memory at any time. Collectives of host ranks
  /// then read it in place; where not, they go through a copy.
  [[nodiscard]] virtual bool host_addressable() const { return kind() == DeviceKind::kHost; }
  [[nodiscard]] virtual std::string name() const = 0;
  /// Zero-filled, aligned to 64 bytes (huge pages asked for from 2 MiB up). Errors: kExhausted.
  [[nodiscard]] virtual Result<void*> allocate(Bytes bytes) = 0;
  virtual void release(void* memory, Bytes bytes) = 0;
  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream() = 0;
};

[[nodiscard]] std::unique_ptr<Device> make_host_device();

/// Copies a small tensor to or from host memory and synchronises; for scalars, tests and tools.
template <class T>
[[nodiscard]] Result<std::vector<T>> read_all(Stream& stream, const TensorView& view) {
  QD_CHECK(view.dtype() == dtype_of<T>());
  std::vector<T> values(static_cast<std::size_t>(view.elements()));
  stream.download(view, std::as_writable_bytes(std::span<T>(values)));
  QD_RETURN_IF_ERROR(stream.synchronize());
  return values;
}
template <class T>
void write_all(Stream& stream, const TensorView& view, std::span<const T> values) {
  QD_CHECK(view.dtype() == dtype_of<T>());
  QD_CHECK(view.elements() == static_cast<std::int64_t>(values.size()));
  stream.upload(std::as_bytes(values), view);
}

}  // namespace quadrille
