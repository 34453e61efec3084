// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Weights in Hugging Face's layout: a folder with config.json and model.safetensors, or with the
// shards that model.safetensors.index.json lists. GPT-2 keeps the matrices of its linear layers
// [in, out] there and [out, in] here; reading and writing transpose them. Tensors go through one
// by one, so the largest of them is what a conversion needs in memory.
// Source: transformers, models/gpt2/modeling_gpt2.py and models/llama/modeling_llama.py (names and
// shapes), PreTrainedModel.save_pretrained (files).

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/base/units.h"
#include "quadrille/checkpoint/checkpoint.h"
#include "quadrille/config/job_spec.h"
#include "quadrille/config/model_shapes.h"

namespace quadrille {

/// Tensor name and file, from a model.safetensors.index.json. Errors: kCorrupt, also for a file
/// that is a path.
[[nodiscard]] Result<std::vector<std::pair<std::string, std::string>>> parse_safetensors_index(
    std::string_view text, const std::string& file);

/// A folder whose tensors are those of a model. Reads are const and safe from any thread.
class HuggingFaceFolder {
 public:
  /// Whether there is something to open().
  [[nodiscard]] static bool is_one(const std::string& path);
  /// Checks every name, shape and type against the model; buffers that are no parameters and a
  /// repeated tied head are passed over. Errors: kNotFound; kInvalid, listing every tensor that is
  /// missing, unknown or of another shape; kCorrupt.
  [[nodiscard]] static Result<HuggingFaceFolder> open(const std::string& path,
                                                      const ModelSpec& model);
  HuggingFaceFolder(HuggingFaceFolder&&) noexcept;
  HuggingFaceFolder& operator=(HuggingFaceFolder&&) noexcept;
  ~HuggingFaceFolder();

  /// A parameter of the model in this program's layout, from F32, F16 or BF16.
  [[nodiscard]] Result<std::vector<float>> read(const ParameterShape& parameter) const;

 private:
  struct State;
  explicit HuggingFaceFolder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct ExportOptions {
  std::string folder;                  ///< Must not exist, or be empty.
  Bytes shard = Bytes(5'000'000'000);  ///< Most bytes of tensors in one file.
};
struct ExportOutcome {
  std::vector<std::string> files;  ///< Names of the weights' files.
  Bytes bytes;                     ///< Of all tensors.
  std::vector<std::string> tokenizer_files;
};
/// Writes a checkpoint's weights, in fp32, as a folder that transformers loads; it appears whole
/// or not at all. With it go the files of the tokenizer that the checkpoint names.
/// Errors: kInvalid where the folder is taken; kExhausted, kCorrupt, kNotFound (tokenizer files).
[[nodiscard]] Result<ExportOutcome> export_hugging_face(const Checkpoint& checkpoint,
                                                        const ExportOptions& options);

/// Makes a folder's weights the checkpoint of step 0 in `directory`, without optimizer state; its
/// path. The tokenizer is that of the folder, or bytes where it has none.
[[nodiscard]] Result<std::string> import_hugging_face(const std::string& folder,
                                                      const std::string& directory);

}  // namespace quadrille
