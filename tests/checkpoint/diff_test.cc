// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cstring>

#include "checkpoint/sample_model.h"

namespace quadrille {
namespace {

using checkpoint_test::Folder;
using checkpoint_test::sample_bytes;
using checkpoint_test::sample_forms;
using checkpoint_test::sample_state;
using checkpoint_test::SampleModel;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

Checkpoint saved(SampleModel& model, const std::string& directory, const TrainingState& state) {
  SaverOptions options = model.saver_options(directory);
  options.asynchronous = false;
  auto saver = CheckpointSaver::create(options, model.tensors()).value();
  EXPECT_TRUE(saver->save(state).has_value());
  return Checkpoint::open(saver->wait().at(0).path).value();
}

std::optional<std::string> difference(const Checkpoint& a, const Checkpoint& b) {
  auto result = diff_checkpoints(a, b);
  EXPECT_TRUE(result.has_value()) << result.error().to_text();
  return result.value_or(std::nullopt);
}

TEST(CheckpointDiff, PlanAndLayoutDoNotCount) {
  const Folder a;
  const Folder b;
  SampleModel model;
  model.fill(1);
  TrainingState other = sample_state(1);
  other.plan_hash = "another";
  other.job = Json::object().set("name", "another");
  const Checkpoint first = saved(model, a.path(), sample_state(1));
  EXPECT_EQ(difference(first, saved(model, b.path(), other)), std::nullopt);
}

TEST(CheckpointDiff, NamesTheFieldOfTheStateThatDiffers) {
  const Folder a;
  SampleModel model;
  model.fill(1);
  const Checkpoint first = saved(model, a.path(), sample_state(1));
  const auto differs = [&](auto change, const char* said) {
    const Folder b;
    TrainingState state = sample_state(1);
    change(state);
    EXPECT_THAT(difference(first, saved(model, b.path(), state)), Optional(HasSubstr(said)));
  };
  differs([](TrainingState& s) { s.step = 2; }, "step differs: 1 against 2");
  differs([](TrainingState& s) { s.consumed_tokens = 9; },
          "consumed_tokens differs: 512 against 9");
  differs([](TrainingState& s) { s.job_hash = "x"; }, "job_hash");
  differs([](TrainingState& s) { s.tokenizer = "x"; }, "tokenizer");
  differs([](TrainingState& s) { s.model.set("layers", 3); }, "model");
}

TEST(CheckpointDiff, ShowsTheFirstElementThatDiffersAndHowManyDo) {
  const Folder a;
  const Folder b;
  SampleModel model;
  model.fill(1);
  const Checkpoint first = saved(model, a.path(), sample_state(1));
  // Element [1, 0, 2] of a [2, 3, 4] tensor is number 14; set it to 1.5, and 20 to 2.5.
  const SafetensorsTensor form = sample_forms()[4];
  auto bytes = sample_bytes(form, 1);
  float former = 0;
  std::memcpy(&former, &bytes[14 * 4], 4);
  const float value = 1.5F;
  std::memcpy(&bytes[14 * 4], &value, 4);
  std::memcpy(&bytes[20 * 4], &value, 4);
  model.stream().upload(bytes, model.tensors()[4].view);
  const auto found = difference(first, saved(model, b.path(), sample_state(1)));
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(*found, AllOf(HasSubstr("\"h.1.weight\" differs in 2 of 24 elements"),
                            HasSubstr("first at [1, 0, 2]"), HasSubstr("against 1.5")));
  const std::size_t colon = found->rfind(": ");
  EXPECT_EQ(std::strtof(found->c_str() + colon + 2, nullptr), former);
}

TEST(CheckpointDiff, NamesTensorsThatOnlyOneOfThemHas) {
  const Folder a;
  const Folder b;
  SampleModel model;
  model.fill(1);
  auto forms = sample_forms();
  forms.push_back({"extra", StoredType::kF32, {1}, {}});
  SampleModel larger(make_host_device(), forms);
  larger.fill(1);
  const Checkpoint small = saved(model, a.path(), sample_state(1));
  const Checkpoint large = saved(larger, b.path(), sample_state(1));
  EXPECT_THAT(difference(small, large), Optional(HasSubstr("only in the second: \"extra\"")));
  EXPECT_THAT(difference(large, small), Optional(HasSubstr("only in the first: \"extra\"")));
}

TEST(CheckpointDiff, NamesTensorsOfAnotherShape) {
  const Folder a;
  const Folder b;
  SampleModel model;
  auto forms = sample_forms();
  forms[1].shape = {6};
  SampleModel other(make_host_device(), forms);
  EXPECT_THAT(
      difference(saved(model, a.path(), sample_state(1)), saved(other, b.path(), sample_state(1))),
      Optional(AllOf(HasSubstr("h.0.bias"), HasSubstr("[5]"), HasSubstr("[6]"))));
}

}  // namespace
}  // namespace quadrille
