// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/train/custom_trainer.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "quadrille/base/file.h"
#include "quadrille/checkpoint/checkpoint.h"
#include "quadrille/device/host_binding.h"
#include "quadrille/kernels/embedding.h"
#include "quadrille/kernels/head_loss.h"
#include "quadrille/kernels/pointwise.h"
#include "support/tiny_run.h"

namespace quadrille {
namespace {

using ::testing::HasSubstr;
using Body = std::function<Result<TrainingOutcome>(CustomTrainer&, Rank)>;

/// A folder with a text, and the job of a custom model on it.
class CustomTrainerTest : public testing::Test {
 protected:
  CustomTrainerTest() : job_(test::tiny_job(scratch_.path())) {
    job_.model = {.family = ModelFamily::kCustom, .vocab = 256, .context = 16};
    job_.training.evaluate_every = 0;
    job_.parallel.data = 2;
  }

  [[nodiscard]] std::string path(const std::string& name) const {
    return scratch_.path() + "/" + name;
  }

  /// Runs `body` on every rank of the job, as a launched program's main() would.
  Result<void> run(const std::string& name, const Body& body,
                   ResumePolicy resume = ResumePolicy::kNever) const {
    MachineFacts machine;
    machine.cores = 2;
    QD_ASSIGN_OR_RETURN(const Plan plan, make_plan(job_, machine));
    QD_RETURN_IF_ERROR(make_folders(path(name)));
    EventLog events = EventLog::nowhere();
    Logger log = Logger::nowhere();
    return run_threads(plan.ranks(), {.timeout = Seconds(30)}, [&](World& world) -> Result<void> {
      QD_ASSIGN_OR_RETURN(const HostTopology host, read_host_topology());
      QD_RETURN_IF_ERROR(bind_this_thread(share_of_host(host, world.rank(), world.size())));
      const std::unique_ptr<Device> device = make_host_device();
      QD_ASSIGN_OR_RETURN(const auto trainer,
                          CustomTrainer::create(world, {.plan = &plan,
                                                        .run_directory = path(name),
                                                        .resume = resume,
                                                        .device = device.get(),
                                                        .events = &events,
                                                        .log = &log}));
      QD_RETURN_IF_ERROR(body(*trainer, world.rank()));
      return {};
    });
  }

  std::string refusal(const Body& body) const {
    const auto done = run("refused", body);
    EXPECT_FALSE(done.has_value());
    return done ? "" : done.error().message;
  }

  [[nodiscard]] std::vector<StepRecord> rows(const std::string& name) const {
    return read_metrics(path(name) + "/metrics.jsonl").value();
  }

  test::TemporaryFolder scratch_;
  JobSpec job_;
};

/// Two parameters whose gradients are the same number everywhere: every figure can be worked out.
struct Constant {
  ParameterHandle first, second;

  static Result<Constant> start(CustomTrainer& trainer) {
    Constant model;
    QD_ASSIGN_OR_RETURN(model.first, trainer.add_parameter({.name = "first", .shape = {3, 5}}));
    QD_ASSIGN_OR_RETURN(model.second, trainer.add_parameter({.name = "second", .shape = {7}}));
    QD_RETURN_IF_ERROR(trainer.start());
    return model;
  }
  Result<void> backward(CustomTrainer& trainer, float gradient) const {
    for (std::int64_t i = 0; i < trainer.micro_batches(); ++i) {
      for (const ParameterHandle parameter : {second, first}) {
        kernels::fill(trainer.stream(), trainer.gradient(parameter), gradient);
        QD_RETURN_IF_ERROR(trainer.ready(parameter));
      }
    }
    return {};
  }
};

/// The next byte from this one and its place: embeddings and a head, as a program would write it.
class Bigram {
 public:
  static Result<TrainingOutcome> train(CustomTrainer& trainer) {
    Bigram model;
    QD_RETURN_IF_ERROR(model.start(trainer));
    std::vector<std::int64_t> leases;
    while (true) {
      QD_ASSIGN_OR_RETURN(const bool more, trainer.begin_step());
      if (!more) return trainer.finish();
      leases.push_back(trainer.pool().leases_made());
      EXPECT_EQ(leases.back(), leases[std::min<std::size_t>(leases.size(), 2) - 1])
          << "a step after the second leases memory";
      for (std::int64_t i = 0; i < trainer.micro_batches(); ++i) {
        QD_ASSIGN_OR_RETURN(const CustomBatch batch, trainer.next_batch());
        QD_RETURN_IF_ERROR(model.backward(trainer, batch));
      }
      QD_ASSIGN_OR_RETURN(const double loss, trainer.loss_sum());
      QD_RETURN_IF_ERROR(trainer.step({.sum = loss, .tokens = trainer.tokens()}));
    }
  }

 private:
  static constexpr std::int64_t kWidth = 12;

  Result<void> start(CustomTrainer& trainer) {
    const Plan& plan = trainer.plan();
    const std::int64_t sequence = plan.job.training.sequence;
    const auto add = [&](const char* name, std::int64_t rows) {
      return trainer.add_parameter(
          {.name = name, .shape = {rows, kWidth}, .decayed = true, .initial_deviation = 0.3});
    };
    QD_ASSIGN_OR_RETURN(bytes_, add("bytes", 256));
    QD_ASSIGN_OR_RETURN(places_, add("places", sequence));
    QD_ASSIGN_OR_RETURN(head_, add("head", 256));
    trainer.set_evaluation([this, &trainer](const CustomBatch& batch) -> Result<void> {
      forward(trainer, batch, false);
      return {};
    });
    QD_RETURN_IF_ERROR(trainer.start());
    const std::int64_t rows = plan.micro_batch * sequence;
    const std::int64_t chunk = kernels::head_loss_chunk(rows, 256);
    QD_ASSIGN_OR_RETURN(lease_, trainer.pool().lease(Bytes(4 * (2 * rows * kWidth + chunk * 256)),
                                                     MemoryTag::kActivation, "the bigram"));
    x_ = lease_.view_at(Bytes(0), DType::kF32, {plan.micro_batch, sequence, kWidth});
    dx_ = lease_.view_at(x_.bytes(), DType::kF32, x_.shape());
    logits_ = lease_.view_at(x_.bytes() * 2, DType::kF32, {chunk, 256});
    return {};
  }

  void forward(CustomTrainer& trainer, const CustomBatch& batch, bool train) {
    const Shape flat{x_.shape()[0] * x_.shape()[1], kWidth};
    kernels::embedding_forward(
        trainer.stream(), {batch.tokens, trainer.value(bytes_), trainer.value(places_), 0, x_});
    kernels::HeadLoss head{x_.reshape(flat), trainer.value(head_), batch.targets.flat(),
                           batch.loss_sum, logits_};
    if (train) {
      head.dx = dx_.reshape(flat);
      head.weight_gradient = trainer.gradient(head_);
    }
    kernels::head_loss(trainer.stream(), head);
  }

  Result<void> backward(CustomTrainer& trainer, const CustomBatch& batch) {
    forward(trainer, batch, true);
    QD_RETURN_IF_ERROR(trainer.ready(head_));
    kernels::embedding_backward(
        trainer.stream(), {batch.tokens, dx_, trainer.gradient(bytes_), trainer.gradient(places_)});
    QD_RETURN_IF_ERROR(trainer.ready(places_));
    return trainer.ready(bytes_);
  }

  ParameterHandle bytes_, places_, head_;
  Lease lease_;
  TensorView x_, dx_, logits_;
};

TEST_F(CustomTrainerTest, RanksThatDivideTheMomentsTrainToTheSameBits) {
  job_.training.clip = 0;  // the norm is summed by slices
  job_.parallel.data = 3;
  const Body train = [](CustomTrainer& trainer, Rank) { return Bigram::train(trainer); };
  ASSERT_TRUE(run("plain", train).has_value());
  job_.parallel.sharding = 1;
  const auto divided = run("divided", train);
  ASSERT_TRUE(divided.has_value()) << divided.error().to_text();
  const auto difference = diff_checkpoints(resolve_checkpoint(path("divided")).value(),
                                           resolve_checkpoint(path("plain")).value());
  ASSERT_TRUE(difference.has_value()) << difference.error().to_text();
  EXPECT_EQ(*difference, std::nullopt) << **difference;
}

TEST_F(CustomTrainerTest, ItsGradientsAndParametersAreNotDivided) {
  for (const int sharding : {2, 3}) {
    job_.parallel.sharding = sharding;
    const auto done =
        run("refused", [](CustomTrainer& trainer, Rank) { return Bigram::train(trainer); });
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, Code::kInvalid);
    EXPECT_THAT(done.error().message, HasSubstr("parallel.sharding"));
  }
}

TEST_F(CustomTrainerTest, DividesByTheTokensOfAllRanksWhateverEachBrings) {
  job_.training.steps = 1;
  job_.training.clip = 0;
  const auto done = run("run", [](CustomTrainer& trainer, Rank rank) -> Result<TrainingOutcome> {
    QD_ASSIGN_OR_RETURN(const Constant model, Constant::start(trainer));
    QD_ASSIGN_OR_RETURN(const bool more, trainer.begin_step());
    EXPECT_TRUE(more);
    const bool is_first = rank == Rank{0};
    QD_RETURN_IF_ERROR(model.backward(trainer, is_first ? 2.0F : 3.0F));
    QD_RETURN_IF_ERROR(trainer.step({.sum = is_first ? 10.0 : 23.0, .tokens = is_first ? 5 : 6}));
    return trainer.finish();
  });
  ASSERT_TRUE(done.has_value()) << done.error().to_text();
  const StepRecord row = rows("run").at(0);
  EXPECT_EQ(row.tokens, 5 + 6);
  EXPECT_DOUBLE_EQ(row.loss, (10.0 + 23.0) / 11);
  EXPECT_NEAR(row.gradient_norm, (2.0 + 3.0) / 11 * std::sqrt(3 * 5 + 7.0), 1e-6);
  EXPECT_FALSE(row.mfu.has_value());
}

TEST_F(CustomTrainerTest, LearnsTheSameOnOneRankAndOnThree) {
  job_.training.steps = 20;
  job_.training.evaluate_every = 10;
  job_.training.learning_rate = 0.03;
  const Body body = [](CustomTrainer& trainer, Rank) { return Bigram::train(trainer); };
  for (const int ranks : {1, 3}) {
    job_.parallel.data = ranks;
    const auto done = run("ranks-" + std::to_string(ranks), body);
    ASSERT_TRUE(done.has_value()) << done.error().to_text();
  }
  const auto one = rows("ranks-1");
  const auto three = rows("ranks-3");
  ASSERT_EQ(one.size(), 20U);
  ASSERT_EQ(three.size(), 20U);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i].loss, three[i].loss, 2e-4);
  EXPECT_LT(one.back().loss, 0.8 * one.front().loss);
  ASSERT_TRUE(one[9].validation_loss && three[9].validation_loss);
  EXPECT_NEAR(*one[9].validation_loss, *three[9].validation_loss, 2e-4);
}

TEST_F(CustomTrainerTest, ResumesBitwiseFromItsCheckpoint) {
  job_.training.schedule = LearningRateSchedule::kConstant;  // The same rate in a shorter run.
  job_.training.micro_batch = 3;
  const Body body = [](CustomTrainer& trainer, Rank) { return Bigram::train(trainer); };
  job_.training.steps = 6;
  ASSERT_TRUE(run("whole", body).has_value());
  job_.training.steps = 3;
  ASSERT_TRUE(run("parts", body).has_value());
  job_.training.steps = 6;
  const auto resumed = run("parts", body, ResumePolicy::kRequired);
  ASSERT_TRUE(resumed.has_value()) << resumed.error().to_text();
  const auto whole = resolve_checkpoint(path("whole"));
  const auto parts = resolve_checkpoint(path("parts"));
  ASSERT_TRUE(whole.has_value() && parts.has_value());
  EXPECT_EQ(parts->manifest().state.step, 6);
  const auto difference = diff_checkpoints(*whole, *parts);
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->value_or("none"), "none");
  EXPECT_EQ(test::losses_of(path("whole")), test::losses_of(path("parts")));
}

TEST_F(CustomTrainerTest, NamesAParameterThatIsAddedTwiceOrAfterTheStart) {
  EXPECT_THAT(refusal([](CustomTrainer& trainer, Rank) -> Result<TrainingOutcome> {
                QD_RETURN_IF_ERROR(trainer.add_parameter({.name = "twin", .shape = {2}}));
                QD_RETURN_IF_ERROR(trainer.add_parameter({.name = "twin", .shape = {3}}));
                return trainer.finish();
              }),
              HasSubstr("parameter \"twin\" was added twice"));
  EXPECT_THAT(refusal([](CustomTrainer& trainer, Rank) -> Result<TrainingOutcome> {
                QD_RETURN_IF_ERROR(Constant::start(trainer));
                QD_RETURN_IF_ERROR(trainer.add_parameter({.name = "tardy", .shape = {2}}));
                return trainer.finish();
              }),
              HasSubstr("parameter \"tardy\" was added after start()"));
}

TEST_F(CustomTrainerTest, NamesAParameterThatNeverBecomesReadyOrDoesOnceTooOften) {
  const auto train_one = [](CustomTrainer& trainer, int times) -> Result<TrainingOutcome> {
    QD_ASSIGN_OR_RETURN(const Constant model, Constant::start(trainer));
    QD_RETURN_IF_ERROR(trainer.begin_step());
    for (std::int64_t i = 0; i < trainer.micro_batches(); ++i) {
      QD_RETURN_IF_ERROR(trainer.ready(model.second));
    }
    for (std::int64_t i = 0; i < trainer.micro_batches() * times; ++i) {
      QD_RETURN_IF_ERROR(trainer.ready(model.first));
    }
    QD_RETURN_IF_ERROR(trainer.step({.sum = 1, .tokens = 1}));
    return trainer.finish();
  };
  EXPECT_THAT(refusal([&](CustomTrainer& trainer, Rank) { return train_one(trainer, 0); }),
              HasSubstr("never became ready: \"first\" (0 of 6"));
  EXPECT_THAT(refusal([&](CustomTrainer& trainer, Rank) { return train_one(trainer, 2); }),
              HasSubstr("\"first\" got contribution 7 of 6 declared"));
}

TEST_F(CustomTrainerTest, RefusesATokenCountThatARankCannotHave) {
  for (const std::int64_t tokens : {-1, 0, 6 * 16 + 1}) {  // 12 sequences of 16 over 2 ranks
    const std::string message =
        refusal([tokens](CustomTrainer& trainer, Rank) -> Result<TrainingOutcome> {
          QD_ASSIGN_OR_RETURN(const Constant model, Constant::start(trainer));
          QD_RETURN_IF_ERROR(trainer.begin_step());
          QD_RETURN_IF_ERROR(model.backward(trainer, 1));
          QD_RETURN_IF_ERROR(trainer.step({.sum = 1, .tokens = tokens}));
          return trainer.finish();
        });
    EXPECT_THAT(message, HasSubstr("counts " + std::to_string(tokens) + " tokens"));
    EXPECT_THAT(message, HasSubstr("1 to 96"));
  }
}

TEST_F(CustomTrainerTest, RefusesCallsOutOfOrderAndKeepsTheFirstError) {
  const auto after = [this](const std::function<Result<void>(CustomTrainer&)>& call) {
    return refusal([&call](CustomTrainer& trainer, Rank) -> Result<TrainingOutcome> {
      EXPECT_FALSE(call(trainer).has_value());
      return trainer.finish();  // Whatever was overlooked, it is still there.
    });
  };
  EXPECT_THAT(after([](CustomTrainer& trainer) -> Result<void> {
                QD_RETURN_IF_ERROR(trainer.begin_step());
                return {};
              }),
              HasSubstr("begin_step() was called before start()"));
  EXPECT_THAT(after([](CustomTrainer& trainer) -> Result<void> {
                QD_RETURN_IF_ERROR(Constant::start(trainer));
                return trainer.step({.sum = 1, .tokens = 1});
              }),
              HasSubstr("step() was called outside a step"));
  EXPECT_THAT(after([](CustomTrainer& trainer) -> Result<void> {
                QD_RETURN_IF_ERROR(Constant::start(trainer));
                QD_RETURN_IF_ERROR(trainer.begin_step());
                return trainer.start();
              }),
              HasSubstr("start() was called inside a step"));
  EXPECT_THAT(after([](CustomTrainer& trainer) -> Result<void> {
                QD_ASSIGN_OR_RETURN(const Constant model, Constant::start(trainer));
                return trainer.ready(model.first);
              }),
              HasSubstr("ready() of parameter \"first\" was called outside a step"));
  EXPECT_THAT(after([](CustomTrainer& trainer) -> Result<void> {
                QD_RETURN_IF_ERROR(Constant::start(trainer));
                QD_RETURN_IF_ERROR(trainer.begin_step());
                for (std::int64_t i = 0; i <= trainer.micro_batches(); ++i) {
                  QD_RETURN_IF_ERROR(trainer.next_batch());
                }
                return {};
              }),
              HasSubstr("step 1 has 6 micro-batches and was asked for another"));
  EXPECT_THAT(after([](CustomTrainer& trainer) -> Result<void> {
                QD_ASSIGN_OR_RETURN(const Constant model, Constant::start(trainer));
                QD_RETURN_IF_ERROR(trainer.begin_step());
                QD_RETURN_IF_ERROR(trainer.next_batch());
                QD_RETURN_IF_ERROR(model.backward(trainer, 1));
                return trainer.step({.sum = 1, .tokens = 1});
              }),
              HasSubstr("took 1 of 6 micro-batches"));
}

TEST_F(CustomTrainerTest, TellsRanksThatTheirParametersDiffer) {
  EXPECT_THAT(
      refusal([](CustomTrainer& trainer, Rank rank) -> Result<TrainingOutcome> {
        QD_RETURN_IF_ERROR(trainer.add_parameter({.name = "same", .shape = {2}}));
        const std::int64_t width = 4 + rank.value;
        QD_RETURN_IF_ERROR(trainer.add_parameter({.name = "other", .shape = {width}}));
        QD_RETURN_IF_ERROR(trainer.start());
        return trainer.finish();
      }),
      testing::AllOf(HasSubstr("rank 0 has \"other\" [4]"), HasSubstr("rank 1 has \"other\" [5]")));
}

TEST_F(CustomTrainerTest, NeedsAnEvaluationWhereTheJobAsksForOne) {
  job_.training.evaluate_every = 2;
  EXPECT_THAT(refusal([](CustomTrainer& trainer, Rank) -> Result<TrainingOutcome> {
                QD_RETURN_IF_ERROR(Constant::start(trainer));
                return trainer.finish();
              }),
              HasSubstr("training.evaluate_every"));
}

TEST_F(CustomTrainerTest, EndsTheRunAtALossThatIsNotFiniteAndKeepsTheStateBefore) {
  job_.training.steps = 5;
  const auto done = run("run", [](CustomTrainer& trainer, Rank rank) -> Result<TrainingOutcome> {
    QD_ASSIGN_OR_RETURN(const Constant model, Constant::start(trainer));
    for (int step = 1; step <= 5; ++step) {
      QD_RETURN_IF_ERROR(trainer.begin_step());
      QD_RETURN_IF_ERROR(model.backward(trainer, 1));
      const bool bad = step == 3 && rank == Rank{1};
      const double loss = bad ? std::numeric_limits<double>::quiet_NaN() : 1.0;
      QD_RETURN_IF_ERROR(trainer.step({.sum = loss, .tokens = 4}));
    }
    return trainer.finish();
  });
  ASSERT_FALSE(done.has_value());
  EXPECT_THAT(done.error().message, HasSubstr("the loss of step 3 is not finite"));
  EXPECT_THAT(done.error().message, HasSubstr("the state after step 2 is kept"));
  const auto kept = resolve_checkpoint(path("run"));
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->manifest().state.step, 2);
}

}  // namespace
}  // namespace quadrille
