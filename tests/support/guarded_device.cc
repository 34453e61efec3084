// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "support/guarded_device.h"

#include <omp.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "quadrille/base/check.h"
#include "support/guarded_memory.h"
#include "support/stream_order.h"

namespace quadrille::testing {
namespace {

/// How long an operation lies in the queue when nobody asks for it.
constexpr std::chrono::microseconds kLateness{500};

/// What the streams of one device share. `running` makes operations of all streams take turns, so
/// that one cannot close a page that another has open.
struct Shared {
  std::mutex state;
  GuardedMemory memory;  // guarded by state
  StreamOrder order;     // guarded by state
  std::mutex running;
  int streams = 0;
};

/// Counts the operations of a stream that have run, for events to be waited for across streams.
class Progress {
 public:
  void advance() {
    const std::lock_guard lock(mutex_);
    ++done_;
    changed_.notify_all();
  }
  void await(std::uint64_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= number; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t done_ = 0;
};

/// Shared with its stream: an event may outlive it.
struct GuardedEvent final : Event {
  std::shared_ptr<Progress> progress;
  std::uint64_t number = 0;
  StreamClock clock;
};

struct Task {
  Operation operation;
  std::vector<Operand> operands;
  std::function<void()> body;
};

class GuardedStream final : public Stream {
 public:
  GuardedStream(Device& device, Shared& shared)
      : device_(device), shared_(shared), number_(++shared.streams) {
    worker_ = std::thread([this, threads = omp_get_max_threads()] {
      omp_set_num_threads(threads);
      work();
    });
  }
  ~GuardedStream() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    wake_.notify_all();
    worker_.join();
    const std::lock_guard lock(shared_.state);
    shared_.order.synchronize(number_);
  }

  Device& device() override { return device_; }

  void launch(const Operation& operation, std::span<const Operand> operands,
              std::function<void()> body) override {
    for (const Operand& operand : operands) {
      QD_CHECK_MSG(operand.view.empty() || operand.view.device() == &device_,
                   std::string(operation.name) + " on an operand of another device");
    }
    {
      const std::lock_guard lock(shared_.state);
      shared_.memory.check_within(operands);
      shared_.order.add(number_, operation.name, operands);
    }
    enqueue({operation, {operands.begin(), operands.end()}, std::move(body)});
  }

  void upload(std::span<const std::byte> source, const TensorView& target) override {
    QD_CHECK(static_cast<std::int64_t>(source.size()) == target.bytes().count());
    const Operand operand{target, Access::kWrite};
    launch("upload", {&operand, 1}, [target, taken = std::vector(source.begin(), source.end())] {
      if (!taken.empty()) std::memcpy(target.address(), taken.data(), taken.size());
    });
  }

  void download(const TensorView& source, std::span<std::byte> target) override {
    QD_CHECK(static_cast<std::int64_t>(target.size()) == source.bytes().count());
    if (!target.empty()) std::memset(target.data(), 0xFF, target.size());
    const Operand operand{source, Access::kRead};
    launch("download", {&operand, 1}, [source, target] {
      if (!target.empty()) std::memcpy(target.data(), source.address(), target.size());
    });
  }

  std::unique_ptr<Event> record() override {
    auto event = std::make_unique<GuardedEvent>();
    event->progress = progress_;
    event->number = enqueued_;
    const std::lock_guard lock(shared_.state);
    event->clock = shared_.order.record(number_);
    return event;
  }

  void wait(const Event& event) override {
    const auto& guarded = dynamic_cast<const GuardedEvent&>(event);
    {
      const std::lock_guard lock(shared_.state);
      shared_.order.wait(number_, guarded.clock);
      shared_.order.add(number_, "wait", {});
    }
    // Without operands it takes no turn: the other stream must be able to run meanwhile.
    enqueue({"wait", {}, [progress = guarded.progress, number = guarded.number] {
               progress->await(number);
             }});
  }

  Result<void> synchronize() override {
    {
      const std::lock_guard lock(mutex_);
      hurry_ = true;
    }
    wake_.notify_all();
    progress_->await(enqueued_);
    const std::lock_guard lock(shared_.state);
    shared_.order.synchronize(number_);
    return {};
  }

 private:
  void enqueue(Task task) {
    const std::lock_guard lock(mutex_);
    ++enqueued_;
    hurry_ = false;
    tasks_.push_back(std::move(task));
    wake_.notify_all();
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return closing_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      wake_.wait_for(lock, kLateness, [&] { return closing_ || hurry_; });
      const Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      run(task);
      progress_->advance();
      lock.lock();
    }
  }

  void run(const Task& task) {
    if (task.operands.empty()) return task.body();
    const std::lock_guard turn(shared_.running);
    protect(task, true);
    const Seconds begin = monotonic_now();
    task.body();
    if (observer() != nullptr) {
      const Operation& operation = task.operation;
      const Bytes moved = operation.bytes > 0 ? Bytes(operation.bytes) : bytes_moved(task.operands);
      observer()->ran({operation, moved, begin, monotonic_now()});
    }
    protect(task, false);
  }

  void protect(const Task& task, bool open) {
    const std::lock_guard lock(shared_.state);
    open ? shared_.memory.open(task.operands) : shared_.memory.close(task.operands);
  }

  Device& device_;
  Shared& shared_;
  const int number_;
  std::uint64_t enqueued_ = 0;  // by the host thread alone
  std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool hurry_ = false;
  bool closing_ = false;
  std::thread worker_;
};

class GuardedDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kHost; }
  bool host_addressable() const override { return false; }
  std::string name() const override { return "guarded"; }
  Result<void*> allocate(Bytes bytes) override {
    QD_CHECK(bytes >= Bytes(0));
    const std::lock_guard lock(shared_.state);
    return shared_.memory.allocate(static_cast<std::size_t>(bytes.count()));
  }
  void release(void* memory, Bytes bytes) override {
    const std::lock_guard lock(shared_.state);
    shared_.order.check_released(memory, static_cast<std::size_t>(bytes.count()));
    shared_.memory.release(memory);
  }
  std::unique_ptr<Stream> make_stream() override {
    return std::make_unique<GuardedStream>(*this, shared_);
  }

 private:
  Shared shared_;
};

}  // namespace

std::unique_ptr<Device> make_guarded_device() { return std::make_unique<GuardedDevice>(); }

}  // namespace quadrille::testing
