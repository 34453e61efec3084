// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The golden folders that transformers wrote, and folders made from them for tests to damage.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "quadrille/checkpoint/hugging_face.h"
#include "quadrille/checkpoint/safetensors.h"
#include "quadrille/config/job_reader.h"

namespace quadrille::checkpoint_test {

inline const std::vector<std::string>& golden_cases() {
  static const std::vector<std::string> cases{"gpt2_tied",         "gpt2_untied",
                                              "gpt2_bf16_shards",  "llama_grouped",
                                              "llama_tied_linear", "llama3_f16"};
  return cases;
}

inline std::string golden_folder(const std::string& name) {
  return std::string(QUADRILLE_SOURCE_DIR) + "/tests/golden/hugging_face/" + name;
}

/// The model of a folder, as a job that starts from it has it.
inline ModelSpec model_of(const std::string& folder) {
  const auto job =
      parse_job({.file = "job.json",
                 .text = R"({"model": {"weights": ")" + folder +
                         R"("}, "data": {"train": "a.txt"}, "training": {"steps": 1}})"});
  EXPECT_TRUE(job.has_value()) << job.error().to_text();
  return job ? job->model : ModelSpec{};
}

struct FileTensor {
  SafetensorsTensor form;
  std::vector<std::byte> bytes;
};

/// All tensors of the folder's weights, by name.
inline std::vector<FileTensor> tensors_of(const std::string& folder) {
  std::vector<FileTensor> tensors;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("model") || !name.ends_with(".safetensors")) continue;
    const auto file = SafetensorsFile::open(entry.path().string());
    EXPECT_TRUE(file.has_value()) << file.error().to_text();
    for (const SafetensorsTensor& tensor : file->header().tensors) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes().count()));
      EXPECT_TRUE(file->read(tensor, Bytes(0), bytes).has_value());
      tensors.push_back({tensor, std::move(bytes)});
    }
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const FileTensor& a, const FileTensor& b) { return a.form.name < b.form.name; });
  return tensors;
}

inline void write_weights(const std::string& path, const std::vector<FileTensor>& tensors) {
  std::vector<SafetensorsTensor> forms;
  for (const FileTensor& tensor : tensors) forms.push_back(tensor.form);
  auto writer = SafetensorsWriter::create(path, forms).value();
  for (const FileTensor& tensor : tensors) {
    EXPECT_TRUE(writer.append(tensor.bytes).has_value());
  }
  EXPECT_TRUE(writer.close().has_value());
}

/// A folder that is removed at the end of a test.
class ScratchFolder {
 public:
  ScratchFolder()
      : path_(std::filesystem::temp_directory_path() /
              ("quadrille-hf-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] std::string path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace quadrille::checkpoint_test
