// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "model/model_harness.h"
#include "quadrille/checkpoint/checkpoint.h"
#include "quadrille/config/job_reader.h"
#include "quadrille/infer/generator.h"

namespace quadrille {
namespace {

using ::testing::HasSubstr;
using testing::ModelHarness;
using ::testing::Not;
using testing::ReferenceBatch;
using testing::ReferenceTransformer;

constexpr std::int64_t kWindow = 6;  ///< Training sequences, shorter than the context of 9.

/// A byte model with fresh weights, saved as a checkpoint and loaded again onto a device whose
/// memory the host cannot touch.
class Loaded : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ =
        std::filesystem::temp_directory_path() / ("quadrille-infer-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    write_text("train.txt", random_text(400));
    write_text("validation.txt", random_text(100));
    job_ = new JobSpec(parse_job({.file = (folder_ / "job.json").string(), .text = kJob}).value());
    harness_ = new ModelHarness(job_->model, {1, kWindow});
    std::mt19937_64 random(std::random_device{}());
    harness_->randomise(random);
    save();
  }
  static void TearDownTestSuite() {
    delete harness_;
    delete job_;
    std::filesystem::remove_all(folder_);
  }

  static void save() {
    std::vector<CheckpointTensor> tensors;
    for (const Parameter& parameter : harness_->model().parameters()) {
      tensors.push_back({parameter.shape.name, parameter.value});
    }
    const auto saver = CheckpointSaver::create({.directory = (folder_ / "checkpoints").string(),
                                                .asynchronous = false,
                                                .stream = &harness_->stream()},
                                               tensors)
                           .value();
    TrainingState state;
    state.step = 12;
    state.job = to_json(*job_);
    state.model = *state.job.find("model");
    state.tokenizer = "bytes";
    ASSERT_TRUE(saver->save(state).has_value());
    for (const SaveOutcome& outcome : saver->wait()) ASSERT_FALSE(outcome.error.has_value());
  }

  static std::string random_text(std::size_t length) {
    std::mt19937_64 random(std::random_device{}());
    std::string text;
    while (text.size() < length) text += "etaoin \n"[random() % 8];
    return text;
  }
  static std::string write_text(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  std::unique_ptr<LoadedModel> open() { return open(*device_); }
  static std::unique_ptr<LoadedModel> open(Device& device, Precision precision = Precision::kFp32) {
    const auto checkpoint = resolve_checkpoint((folder_ / "checkpoints").string());
    return LoadedModel::open(checkpoint.value(), device, precision).value();
  }

  /// The samples' texts; calls[i] counts how often sample i was emitted.
  struct Texts {
    std::vector<std::string> of_sample;
    std::vector<int> calls;
    std::vector<std::int64_t> order;
  };
  static Texts generate(LoadedModel& model, std::string_view prompt,
                        const SamplingOptions& options) {
    Texts texts;
    texts.of_sample.resize(static_cast<std::size_t>(options.samples));
    texts.calls.resize(static_cast<std::size_t>(options.samples));
    const auto done = model.generate(prompt, options, [&](auto sample, std::string_view text) {
      texts.of_sample[static_cast<std::size_t>(sample)] += text;
      texts.calls[static_cast<std::size_t>(sample)] += 1;
      texts.order.push_back(sample);
      return true;
    });
    EXPECT_TRUE(done.has_value());
    return texts;
  }

  /// Float64 logits after `window`, one for each byte.
  static std::vector<double> reference_logits(const std::string& window) {
    ReferenceBatch batch;
    batch.sequence = static_cast<std::int64_t>(window.size());
    batch.training = false;
    batch.tokens.emplace_back();
    for (const char c : window) batch.tokens[0].push_back(static_cast<unsigned char>(c));
    ReferenceTransformer reference(job_->model, harness_->values());
    std::vector<double> logits;
    const auto rows = reference.logits(batch, 0);
    for (const auto number : rows.back()) logits.push_back(number.value());
    return logits;
  }

  /// Mean float64 loss over the samples of a text.
  static double reference_loss(const std::string& text) {
    ReferenceTransformer reference(job_->model, harness_->values());
    ReferenceBatch batch;
    batch.sequence = kWindow;
    batch.training = false;
    for (std::size_t at = 0; at + kWindow < text.size(); at += kWindow) {
      batch.tokens.emplace_back();
      batch.targets.emplace_back();
      for (std::size_t t = at; t < at + kWindow; ++t) {
        batch.tokens.back().push_back(static_cast<unsigned char>(text[t]));
        batch.targets.back().push_back(static_cast<unsigned char>(text[t + 1]));
      }
    }
    const double count = static_cast<double>(batch.tokens.size() * kWindow);
    return reference.loss_sum(batch).value() / count;
  }

  static constexpr const char* kJob = R"({
    "name": "tiny",
    "model": {"family": "gpt2", "layers": 1, "hidden": 6, "heads": 2, "context": 9},
    "data": {"train": "train.txt", "validation": "validation.txt"},
    "training": {"sequence": 6, "global_batch": 4, "steps": 20}})";

  inline static std::filesystem::path folder_;
  inline static JobSpec* job_ = nullptr;
  inline static ModelHarness* harness_ = nullptr;
  std::unique_ptr<Device> device_ = testing::make_guarded_device();
};

TEST_F(Loaded, GreedyTextIsTheReferencesMostLikelyAlsoPastTheWindow) {
  const auto model = open();
  std::string history = "neat";
  std::size_t start = 0;
  for (int position = 0; position < 14; ++position) {
    if (history.size() - start > kWindow) start = history.size() - kWindow / 2;
    const std::vector<double> logits = reference_logits(history.substr(start));
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    history += static_cast<char>(best);
  }
  const Texts texts = generate(*model, "neat", {.tokens = 14, .temperature = 0});
  EXPECT_EQ("neat" + texts.of_sample[0], history);
}

TEST_F(Loaded, APromptLongerThanTheWindowKeepsItsEnd) {
  const auto model = open();
  const SamplingOptions options = {.tokens = 5, .temperature = 0};
  const std::string prompt = "an oat in a tone";
  EXPECT_EQ(generate(*model, prompt, options).of_sample,
            generate(*model, prompt.substr(prompt.size() - kWindow), options).of_sample);
}

TEST_F(Loaded, AnEmptyPromptStartsFromANewline) {
  const auto model = open();
  const SamplingOptions options = {.tokens = 5};
  EXPECT_EQ(generate(*model, "", options).of_sample, generate(*model, "\n", options).of_sample);
}

TEST_F(Loaded, SamplesDependOnSeedAndNumberAlone) {
  const auto model = open();
  const Texts five = generate(*model, "to", {.tokens = 8, .samples = 5, .seed = 3});
  const Texts eleven = generate(*model, "to", {.tokens = 8, .samples = 11, .seed = 3});
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(five.of_sample[i], eleven.of_sample[i]) << i;
  EXPECT_NE(five.of_sample[0], five.of_sample[1]);
  EXPECT_NE(generate(*model, "to", {.tokens = 8, .seed = 4}).of_sample[0], five.of_sample[0]);
}

/// First tokens of many samples against the model's own probabilities: chi-square with 5 degrees of
/// freedom, which passes 35.9 by chance once in 10^6.
TEST_F(Loaded, DrawsFollowTheModelsProbabilities) {
  const auto host = make_host_device();
  const auto model = open(*host);
  constexpr std::int64_t kSamples = 2000;
  const Texts texts = generate(*model, "in", {.tokens = 1, .samples = kSamples});
  const std::vector<double> logits = reference_logits("in");
  double total = 0;
  for (const double logit : logits) total += std::exp(logit);
  std::array<double, 6> expected{};  // bytes by their remainder: classes large enough to count
  std::array<double, 6> found{};
  for (std::size_t i = 0; i < logits.size(); ++i) {
    expected[i % 6] += kSamples * std::exp(logits[i]) / total;
  }
  for (const std::string& text : texts.of_sample) {
    found[static_cast<unsigned char>(text.at(0)) % 6] += 1;
  }
  double chi_square = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    chi_square += (found[i] - expected[i]) * (found[i] - expected[i]) / expected[i];
  }
  EXPECT_LT(chi_square, 35.9);
}

TEST_F(Loaded, TheFirstSampleStreamsAndTheOthersFollowWholeAndInOrder) {
  const auto model = open();
  const Texts texts = generate(*model, "to", {.tokens = 7, .samples = 3});
  EXPECT_EQ(texts.calls, (std::vector<int>{7, 1, 1}));
  EXPECT_TRUE(std::is_sorted(texts.order.begin(), texts.order.end()));
  for (const std::string& text : texts.of_sample) EXPECT_EQ(text.size(), 7U);
}

TEST_F(Loaded, StopsWhenTheListenerHasHeardEnough) {
  const auto model = open();
  int calls = 0;
  const auto done = model->generate("to", {.tokens = 50, .samples = 3},
                                    [&](std::int64_t, std::string_view) { return ++calls < 4; });
  EXPECT_TRUE(done.has_value());
  EXPECT_EQ(calls, 4);
}

TEST_F(Loaded, RefusesOptionsWithoutAMeaning) {
  const auto model = open();
  for (const SamplingOptions& options :
       {SamplingOptions{.tokens = -1}, SamplingOptions{.samples = 0},
        SamplingOptions{.temperature = -1}, SamplingOptions{.temperature = std::nan("")},
        SamplingOptions{.top_k = -2}, SamplingOptions{.top_p = 0}, SamplingOptions{.top_p = 1.5}}) {
    const auto done =
        model->generate("to", options, [](std::int64_t, std::string_view) { return true; });
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, Code::kInvalid);
  }
}

/// Prompts of different lengths, on both sides of the window's end, together and each alone.
TEST_F(Loaded, ATextDoesNotDependOnThoseDecodedBesideIt) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const auto model = open(*device_, precision);
    const std::vector<std::string> prompts = {"to", "on a note", "", "to", "at"};
    const SamplingOptions options = {.tokens = 11, .samples = 5, .seed = 9};
    std::vector<std::string> together(25);
    const auto done = model->generate(prompts, options, [&](auto sample, std::string_view text) {
      together[static_cast<std::size_t>(sample)] += text;
      return true;
    });
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->new_tokens, 25 * 11);
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      const Texts alone = generate(*model, prompts[p], options);
      for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(together[p * 5 + i], alone.of_sample[i]);
    }
    EXPECT_EQ(together[0], together[15]);  // the same prompt and number
  }
}

TEST_F(Loaded, GreedyTextInBf16IsTheMostLikelyOfTheRoundedWeights) {
  const auto model = open(*device_, Precision::kBf16);
  const Texts texts = generate(*model, "neat", {.tokens = 6, .temperature = 0});
  EXPECT_EQ(texts.of_sample[0].size(), 6U);
  std::string history = "neat";
  std::size_t start = 0;
  for (const char drawn : texts.of_sample[0]) {
    if (history.size() - start > kWindow) start = history.size() - kWindow / 2;
    const std::vector<double> logits = reference_logits(history.substr(start));
    const double best = *std::max_element(logits.begin(), logits.end());
    // bf16 keeps 8 bits of a weight: logits of a few units move by some hundredths.
    EXPECT_GT(logits[static_cast<unsigned char>(drawn)], best - 0.1);
    history += drawn;
  }
}

TEST_F(Loaded, EvaluatesAFileToTheReferencesMeanLoss) {
  const auto model = open();
  const std::string text = random_text(83);
  const auto found = model->evaluate({write_text("other.txt", text)}).value();
  EXPECT_EQ(found.tokens, 82 / kWindow * kWindow);
  EXPECT_NEAR(found.loss / reference_loss(text), 1, 1e-5);
  std::map<char, double> counts;
  for (const char c : text) counts[c] += 1;
  double entropy = 0;
  for (const auto& [c, count] : counts) {
    const double part = count / static_cast<double>(text.size());
    entropy -= part * std::log(part);
  }
  EXPECT_NEAR(found.unigram_entropy, entropy, 1e-9);
}

TEST_F(Loaded, EvaluatesItsJobsValidationDataWithoutFiles) {
  const auto model = open();
  std::ifstream file(folder_ / "validation.txt");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_NEAR(model->evaluate({}).value().loss / reference_loss(text), 1, 1e-5);
  EXPECT_EQ(model->state().step, 12);
}

TEST_F(Loaded, NamesTheFileThatDoesNotExist) {
  const auto model = open();
  const auto found = model->evaluate({(folder_ / "absent.txt").string()});
  ASSERT_FALSE(found.has_value());
  EXPECT_THAT(found.error().to_text(), HasSubstr("absent.txt"));
  EXPECT_THAT(found.error().to_text(), Not(HasSubstr("data.train")));  // nobody named a key
}

}  // namespace
}  // namespace quadrille
