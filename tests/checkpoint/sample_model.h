// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A handful of tensors to save and load, on the host or on any other device.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "quadrille/base/file.h"
#include "quadrille/base/random.h"
#include "quadrille/checkpoint/checkpoint.h"
#include "quadrille/checkpoint/safetensors.h"

namespace quadrille::checkpoint_test {

/// A folder that is removed with what is in it: on the disk, or, for tests with thousands of small
/// files, in memory where flushing costs nothing.
class Folder {
 public:
  explicit Folder(bool in_memory = false) {
    constexpr const char* kMemory = "/dev/shm/";
    const bool possible = in_memory && ::access(kMemory, W_OK) == 0;
    std::string name = (possible ? kMemory : ::testing::TempDir()) + "qd-checkpoint-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
    path_ = name;
  }
  ~Folder() { EXPECT_TRUE(remove_tree(path_).has_value()); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// The shapes of a small model: odd sizes, a scalar, an empty tensor and other dtypes among them.
inline std::vector<SafetensorsTensor> sample_forms() {
  return {{"wte.weight", StoredType::kF32, {17, 8}, {}},
          {"h.0.bias", StoredType::kF32, {5}, {}},
          {"h.0.nothing", StoredType::kF32, {0, 3}, {}},
          {"h.0.scale", StoredType::kF64, {}, {}},
          {"h.1.weight", StoredType::kF32, {2, 3, 4}, {}},
          {"counts", StoredType::kI32, {7}, {}},
          {"mask", StoredType::kU8, {3}, {}},
          {"ln_f.weight", StoredType::kF32, {8}, {}}};
}

/// Content of a tensor: a function of its name and of `seed`, for dtypes of any size.
inline std::vector<std::byte> sample_bytes(const SafetensorsTensor& form, std::uint64_t seed) {
  const RandomStream random(seed, RandomPurpose::kTest, stable_id(form.name));
  std::vector<std::byte> bytes(static_cast<std::size_t>(form.bytes().count()));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    // The upper byte of each group of four is 0x3F, so that floats are ordinary numbers.
    bytes[i] = i % 4 == 3 ? std::byte{0x3F} : static_cast<std::byte>(random.bits(i));
  }
  return bytes;
}

/// Owns its device's memory; `fill(seed)` gives every tensor the content of sample_bytes.
class SampleModel {
 public:
  explicit SampleModel(std::unique_ptr<Device> device = make_host_device(),
                       std::vector<SafetensorsTensor> forms = sample_forms())
      : device_(std::move(device)), forms_(std::move(forms)) {
    pool_ = Pool::create({device_.get(), Bytes(0), "test"}).value();
    stream_ = device_->make_stream();
    for (const SafetensorsTensor& form : forms_) {
      leases_.push_back(pool_->lease(form.bytes(), MemoryTag::kParameter, form.name).value());
      tensors_.push_back({form.name, leases_.back().view(*tensor_dtype(form.dtype), form.shape)});
    }
  }
  ~SampleModel() { EXPECT_TRUE(stream_->synchronize().has_value()); }

  void fill(std::uint64_t seed) {
    for (std::size_t i = 0; i < forms_.size(); ++i) {
      const auto bytes = sample_bytes(forms_[i], seed);
      if (!bytes.empty()) stream_->upload(bytes, tensors_[i].view);
    }
  }
  /// True where every tensor has the content of `seed`.
  [[nodiscard]] bool holds(std::uint64_t seed) {
    bool equal = true;
    for (std::size_t i = 0; i < forms_.size(); ++i) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(forms_[i].bytes().count()));
      if (!bytes.empty()) stream_->download(tensors_[i].view, bytes);
      EXPECT_TRUE(stream_->synchronize().has_value());
      equal = equal && bytes == sample_bytes(forms_[i], seed);
    }
    return equal;
  }

  [[nodiscard]] SaverOptions saver_options(const std::string& directory) {
    SaverOptions options;
    options.directory = directory;
    options.stream = stream_.get();
    options.pool = pool_.get();
    options.timeout = Seconds(20);
    return options;
  }
  [[nodiscard]] const std::vector<CheckpointTensor>& tensors() const { return tensors_; }
  [[nodiscard]] Stream& stream() { return *stream_; }
  [[nodiscard]] Pool& pool() { return *pool_; }

 private:
  std::unique_ptr<Device> device_;
  std::vector<SafetensorsTensor> forms_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Stream> stream_;
  std::vector<Lease> leases_;
  std::vector<CheckpointTensor> tensors_;
};

inline TrainingState sample_state(std::int64_t step) {
  TrainingState state;
  state.step = step;
  state.consumed_tokens = step * 512;
  state.job_hash = "00112233";
  state.plan_hash = "44556677";
  state.model = Json::object().set("layers", 2);
  state.job = Json::object().set("name", "a \"job\"\n");
  state.tokenizer = "bytes";
  return state;
}

/// Saves `seed` as `step` with one rank and without a thread.
inline SaveOutcome save_now(SampleModel& model, const std::string& directory, std::int64_t step,
                            std::uint64_t seed, std::int64_t keep = 100) {
  model.fill(seed);
  SaverOptions options = model.saver_options(directory);
  options.asynchronous = false;
  options.keep = keep;
  auto saver = CheckpointSaver::create(options, model.tensors());
  if (!saver) return {step, saver.error(), {}, {}, {}};
  EXPECT_TRUE((*saver)->save(sample_state(step)).has_value());
  return (*saver)->wait().at(0);
}

}  // namespace quadrille::checkpoint_test
