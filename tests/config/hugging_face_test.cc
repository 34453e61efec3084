// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/config/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "quadrille/config/job_reader.h"

namespace quadrille {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kGpt2 = R"({"model_type": "gpt2", "n_layer": 3, "n_embd": 8, "n_head": 2,
  "vocab_size": 300, "n_positions": 32, "task_specific_params": {"x": 1}})";

Json changed(const char* text, const std::string& key, Json value) {
  Json config = parse_json(text, {}).value();
  config.set(key, std::move(value));
  return config;
}

std::string refusal(const Json& config) {
  const auto model = model_from_hugging_face(config, "config.json");
  return model ? "accepted" : model.error().to_text();
}

/// A folder that holds a config.json, for jobs that start from it.
class StartedFrom : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("quadrille-weights-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    write("config.json", kGpt2);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  [[nodiscard]] Result<JobSpec> job(const std::string& model_keys, bool look = true) const {
    return parse_job({.file = (folder_ / "my.json").string(),
                      .text = R"({"model": {"weights": ".")" + model_keys +
                              R"(}, "data": {"train": "a.txt"}, "training": {"steps": 3}})",
                      .expand_globs = look});
  }

  std::filesystem::path folder_;
};

TEST(HuggingFaceConfig, LeavesToItsDefaultsWhatAGpt2DoesNotSay) {
  const auto model = model_from_hugging_face(parse_json(kGpt2, {}).value(), "config.json");
  ASSERT_TRUE(model.has_value()) << model.error().to_text();
  EXPECT_EQ(write_json(*model),
            R"({"family":"gpt2","layers":3,"hidden":8,"heads":2,"ffn":32,"vocab":300,)"
            R"("context":32,"tie_embeddings":true,"bias":true,"norm_epsilon":1e-05})");
}

TEST(HuggingFaceConfig, ReportsAllThatIsWrongAtOnce) {
  Json config = changed(kGpt2, "n_layer", "three");
  config.set("activation_function", "relu").set("vocab_size", nullptr);
  EXPECT_THAT(refusal(config), AllOf(HasSubstr("n_layer"), HasSubstr("\"relu\" is not available"),
                                     HasSubstr("vocab_size: missing")));
}

TEST(HuggingFaceConfig, RefusesMathematicsThatIsNotOurs) {
  for (const auto& [key, value] : {std::pair<const char*, Json>{"scale_attn_weights", false},
                                   {"scale_attn_by_inverse_layer_idx", true},
                                   {"add_cross_attention", true},
                                   {"activation_function", "gelu"}}) {
    EXPECT_THAT(refusal(changed(kGpt2, key, value)), HasSubstr("not available")) << key;
  }
  EXPECT_EQ(refusal(changed(kGpt2, "activation_function", "gelu_pytorch_tanh")), "accepted");
  EXPECT_THAT(refusal(changed(kGpt2, "model_type", "bert")), HasSubstr("\"bert\" is a family"));
  EXPECT_THAT(refusal(Json::object()), HasSubstr("model_type: missing"));
}

constexpr const char* kLlama = R"({"model_type": "llama", "num_hidden_layers": 2,
  "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 24, "vocab_size": 300,
  "max_position_embeddings": 64})";

TEST(HuggingFaceConfig, LeavesToItsDefaultsWhatALlamaDoesNotSay) {
  const auto model = model_from_hugging_face(parse_json(kLlama, {}).value(), "config.json");
  ASSERT_TRUE(model.has_value()) << model.error().to_text();
  EXPECT_EQ(write_json(*model),
            R"({"family":"llama","layers":2,"hidden":16,"heads":4,"kv_heads":4,)"
            R"("head_dimension":4,"ffn":24,"vocab":300,"context":64,"tie_embeddings":false,)"
            R"("bias":false,"norm_epsilon":1e-06,"rope_base":10000.0,)"
            R"("rope_scaling":{"type":"none"}})");
}

TEST(HuggingFaceConfig, ReadsPositionsAsOlderAndNewerVersionsWriteThem) {
  const Json scaling = Json::object().set("rope_type", "linear").set("factor", 2.5);
  Json older = changed(kLlama, "rope_scaling", scaling);
  older.set("rope_theta", 500.0);
  Json parameters = scaling;
  parameters.set("rope_theta", 500.0);
  const Json newer = changed(kLlama, "rope_parameters", parameters);
  for (const Json& config : {older, newer}) {
    const auto model = model_from_hugging_face(config, "config.json");
    ASSERT_TRUE(model.has_value()) << model.error().to_text();
    EXPECT_EQ(model->number_or("rope_base", 0), 500);
    EXPECT_EQ(write_json(*model->find("rope_scaling")), R"({"type":"linear","factor":2.5})");
  }
  const Json yarn = Json::object().set("type", "yarn").set("factor", 2);
  EXPECT_THAT(refusal(changed(kLlama, "rope_scaling", yarn)), HasSubstr("\"yarn\" is not"));
  const Json empty = Json::object().set("rope_type", "llama3").set("factor", 2);
  EXPECT_THAT(refusal(changed(kLlama, "rope_scaling", empty)),
              HasSubstr("no number \"original_max_position_embeddings\""));
  EXPECT_THAT(refusal(changed(kLlama, "attention_bias", true)), HasSubstr("not available"));
}

TEST(HuggingFaceConfig, OfAModelGivesTheSameModelBack) {
  ModelSpec spec{.layers = 2, .hidden = 12, .heads = 3, .ffn = 20, .vocab = 270, .context = 9};
  spec.tie_embeddings = false;
  spec.norm_epsilon = 0.25;
  const auto model = model_from_hugging_face(hugging_face_config(spec), "config.json");
  ASSERT_TRUE(model.has_value()) << model.error().to_text();
  EXPECT_EQ(write_json(*model),
            R"({"family":"gpt2","layers":2,"hidden":12,"heads":3,"ffn":20,"vocab":270,)"
            R"("context":9,"tie_embeddings":false,"bias":true,"norm_epsilon":0.25})");
}

TEST_F(StartedFrom, AFolderGivesTheShapeThatTheJobLeavesOpen) {
  const auto spec = job("");
  ASSERT_TRUE(spec.has_value()) << spec.error().to_text();
  EXPECT_EQ(spec->model.weights, folder_.string() + "/");
  EXPECT_EQ(spec->model.layers, 3);
  EXPECT_EQ(spec->model.ffn, 32);
  EXPECT_EQ(spec->model.vocab, 300);
  EXPECT_EQ(spec->training.sequence, 32);
  EXPECT_TRUE(job(R"(, "layers": 3, "dropout": 0.5)").has_value());
}

TEST_F(StartedFrom, AContradictionNamesBothValues) {
  const auto spec = job(R"(, "layers": 4, "norm_epsilon": 0.5)");
  ASSERT_FALSE(spec.has_value());
  EXPECT_THAT(spec.error().to_text(),
              AllOf(HasSubstr("my.json:1: model.layers: 4 contradicts the 3 of \""),
                    HasSubstr("0.5 contradicts the 1e-05"), HasSubstr("config.json")));
}

TEST_F(StartedFrom, AnEffectiveJobIsReadWithoutItsFolder) {
  const auto spec = job("");
  ASSERT_TRUE(spec.has_value()) << spec.error().to_text();
  std::filesystem::remove(folder_ / "config.json");
  const std::string text = write_json(to_json(*spec));
  const auto again = parse_job({.file = "job.json", .text = text, .expand_globs = false});
  ASSERT_TRUE(again.has_value()) << again.error().to_text();
  EXPECT_EQ(write_json(to_json(*again)), text);
}

TEST_F(StartedFrom, ARunOrACheckpointGivesItsShapeToo) {
  const std::string model =
      R"({"model": {"family": "gpt2", "layers": 1, "hidden": 4, "heads": 2, "vocab": 256,
          "context": 5, "dropout": 0.5, "weights": "/gone"}})";
  std::filesystem::remove(folder_ / "config.json");
  for (const auto& [file, outer] :
       {std::pair("manifest.json", "state"), std::pair("job.json", "job")}) {
    write(file, "{\"" + std::string(outer) + "\": " + model + "}");
    const auto spec = job("");
    ASSERT_TRUE(spec.has_value()) << file << spec.error().to_text();
    EXPECT_EQ(spec->model.context, 5) << file;
    EXPECT_EQ(spec->model.dropout, 0) << file;
    EXPECT_EQ(spec->model.weights, folder_.string() + "/") << file;
    std::filesystem::remove(folder_ / file);
  }
  const auto none = job("");
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().to_text(), HasSubstr("has neither a config.json"));
}

}  // namespace
}  // namespace quadrille
