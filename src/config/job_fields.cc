// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "config/job_fields.h"

#include <array>

namespace quadrille::internal {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;  // Of one sample.
constexpr std::int64_t kMostWidth = std::int64_t{1} << 20;
constexpr std::int64_t kMostBatch = std::int64_t{1} << 31;
constexpr std::int64_t kMostSteps = 1'000'000'000'000;

template <auto Object, auto Member>
auto& at(JobDraft& draft) {
  return draft.job.*Object.*Member;
}
std::string& name_of(JobDraft& draft) { return draft.job.name; }
std::int64_t& tokens_of(JobDraft& draft) { return draft.tokens; }

template <auto Object, auto Member, const auto& kTable>
ChoiceKind choice(std::vector<std::string_view> later = {}) {
  return {.set =
              [](JobDraft& draft, std::string_view text) {
                const auto value = kTable.value(text);
                if (value) draft.job.*Object.*Member = *value;
                return value.has_value();
              },
          .get = [](const JobDraft& draft) { return kTable.text(draft.job.*Object.*Member); },
          .choices = [] { return kTable.choices(); },
          .later = std::move(later)};
}

constexpr Scope kLlamaOnly{
    [](const JobSpec& job) { return job.model.family == ModelFamily::kLlama; },
    "model.family \"llama\""};
constexpr Scope kScaledOnly{[](const JobSpec& job) {
                              return kLlamaOnly.holds(job) &&
                                     job.model.rope_scaling.type != RopeScalingType::kNone;
                            },
                            "model.rope_scaling.type \"linear\" or \"llama3\""};
constexpr Scope kLlama3Only{[](const JobSpec& job) {
                              return kLlamaOnly.holds(job) &&
                                     job.model.rope_scaling.type == RopeScalingType::kLlama3;
                            },
                            "model.rope_scaling.type \"llama3\""};

void add_model(std::vector<JobField>& fields) {
  using M = ModelSpec;
  constexpr auto kModel = &JobSpec::model;
  fields.insert(
      fields.end(),
      {{"model.family", choice<kModel, &M::family, kModelFamilyText>(), "", "",
        "The architecture: layer norm, learned positions and GELU (`gpt2`), or RMS norm, rotary "
        "positions and SwiGLU (`llama`); `custom` is that of a program (`quadrille launch JOB -- "
        "PROGRAM`), and takes `vocab` and `context` alone."},
       {"model.layers", IntegerKind{at<kModel, &M::layers>, 1, 100'000}, "blocks", kRequired,
        "Transformer blocks."},
       {"model.hidden", IntegerKind{at<kModel, &M::hidden>, 1, kMostWidth}, "numbers", kRequired,
        "Width of the residual stream; `heads` must divide it unless there is a "
        "`head_dimension`."},
       {"model.heads", IntegerKind{at<kModel, &M::heads>, 1, kMostWidth}, "", kRequired,
        "Attention heads of a block."},
       {"model.kv_heads", IntegerKind{at<kModel, &M::kv_heads>, 1, kMostWidth}, "", "`heads`",
        "Heads of keys and values, a divisor of `heads`; query heads share them in equal groups.",
        kLlamaOnly},
       {"model.head_dimension", IntegerKind{at<kModel, &M::head_dimension>, 2, kMostWidth},
        "numbers", "`hidden / heads`", "Width of one head, even.", kLlamaOnly},
       {"model.ffn", IntegerKind{at<kModel, &M::ffn>, 1, 16 * kMostWidth}, "numbers",
        "`4 * hidden`; `llama`: `8/3 * hidden`, up to a multiple of 64",
        "Width inside the feed-forward part."},
       {"model.vocab", IntegerKind{at<kModel, &M::vocab>, 1, 16 * kMostWidth}, "tokens",
        "the tokenizer's", "Size of the vocabulary, at least the tokenizer's (256 for `bytes`)."},
       {"model.context", IntegerKind{at<kModel, &M::context>, 1, kMostTokens}, "tokens",
        "`training.sequence`", "Most tokens that the model has positions for."},
       {"model.tie_embeddings",
        BoolKind{at<kModel, &M::tie_embeddings>},
        "",
        "",
        "The head uses the token embedding instead of a matrix of its own.",
        {},
        {{ModelFamily::kLlama, Json(false)}}},
       {"model.bias",
        BoolKind{at<kModel, &M::bias>},
        "",
        "",
        "Biases in linear layers and norms; a `llama` has none.",
        {},
        {{ModelFamily::kLlama, Json(false)}}},
       {"model.dropout",
        RealKind{.slot = at<kModel, &M::dropout>, .least = 0, .most = 1, .below_most = true},
        "fraction", "", "Dropped after the embedding and the two projections of a block."},
       {"model.norm_epsilon",
        RealKind{.slot = at<kModel, &M::norm_epsilon>, .least = 0, .most = 1, .above_least = true},
        "", "", "Added to the variance, or to the mean square, in norms."},
       {"model.weights", PathKind{at<kModel, &M::weights>}, "", "fresh weights",
        "A Hugging Face folder, a checkpoint or a run to start from; what the job does not say of "
        "the model's shape is taken from there."}});
}

template <auto Member>
auto& rope_scaling(JobDraft& draft) {
  return draft.job.model.rope_scaling.*Member;
}

ChoiceKind rope_scaling_type() {
  return {.set =
              [](JobDraft& draft, std::string_view text) {
                const auto value = kRopeScalingTypeText.value(text);
                if (value) draft.job.model.rope_scaling.type = *value;
                return value.has_value();
              },
          .get =
              [](const JobDraft& draft) {
                return kRopeScalingTypeText.text(draft.job.model.rope_scaling.type);
              },
          .choices = [] { return kRopeScalingTypeText.choices(); },
          .later = {}};
}

void add_positions(std::vector<JobField>& fields) {
  using R = RopeScaling;
  const auto factor = [](double& (*slot)(JobDraft&), double least) {
    return RealKind{.slot = slot, .least = least, .most = 1e6, .above_least = least == 0};
  };
  fields.insert(
      fields.end(),
      {{"model.rope_base",
        RealKind{.slot = at<&JobSpec::model, &ModelSpec::rope_base>,
                 .least = 1,
                 .most = 1e12,
                 .above_least = true},
        "", "", "Pair `i` of a head turns by `rope_base^(-2i / head_dimension)` a position.",
        kLlamaOnly},
       {"model.rope_scaling.type", rope_scaling_type(), "", "",
        "How positions stretch beyond the context of the first training.", kLlamaOnly},
       {"model.rope_scaling.factor", factor(rope_scaling<&R::factor>, 1), "", kRequiredThere,
        "Stretches by this much.", kScaledOnly},
       {"model.rope_scaling.low_freq_factor", factor(rope_scaling<&R::low_freq_factor>, 0), "turns",
        "", "Pairs with fewer turns in `original_context` are stretched whole.", kLlama3Only},
       {"model.rope_scaling.high_freq_factor", factor(rope_scaling<&R::high_freq_factor>, 0),
        "turns", "", "Pairs with more turns in `original_context` are not stretched.", kLlama3Only},
       {"model.rope_scaling.original_context",
        IntegerKind{rope_scaling<&R::original_context>, 1, kMostTokens}, "tokens", kRequiredThere,
        "Context of the first training.", kLlama3Only}});
}

void add_data(std::vector<JobField>& fields) {
  using D = DataSpec;
  constexpr auto kData = &JobSpec::data;
  fields.insert(
      fields.end(),
      {{"data.train", PathsKind{at<kData, &D::train>}, "", kRequired,
        "Files to train on, in this order; a glob stands for its matches in byte order. Relative "
        "to the job file's folder (in `--set`: to the current one)."},
       {"data.validation", PathsKind{at<kData, &D::validation>}, "", "none",
        "Files to evaluate on. Instead of `validation_fraction`."},
       {"data.validation_fraction",
        RealKind{.slot = at<kData, &D::validation_fraction>, .least = 0, .most = 0.9}, "fraction",
        "", "This last part of the training text is kept for evaluation."},
       {"data.tokenizer", PathKind{at<kData, &D::tokenizer>, kByteTokenizer}, "", "",
        "How text becomes tokens. `bytes` takes each byte as one of 256; otherwise a folder with "
        "`tokenizer.json`, or `vocab.json` and `merges.txt`, or `tokenizer.model`, or one of the "
        "two files that stand alone. Relative to the job file's folder."},
       {"data.order", choice<kData, &D::order, kSampleOrderText>(), "", "",
        "Samples of an epoch in a random order of their own, or as they stand."}});
}

void add_training_length(std::vector<JobField>& fields) {
  using T = TrainingSpec;
  constexpr auto kTraining = &JobSpec::training;
  fields.insert(
      fields.end(),
      {{"training.sequence", IntegerKind{at<kTraining, &T::sequence>, 1, kMostTokens}, "tokens",
        "`model.context`", "Length of a sample, at most `model.context`."},
       {"training.global_batch", IntegerKind{at<kTraining, &T::global_batch>, 1, kMostBatch},
        "sequences", "", "Samples of one optimizer step, over all ranks."},
       {"training.micro_batch", IntegerKind{at<kTraining, &T::micro_batch>, 1, kMostBatch, true},
        "sequences", "",
        "Samples of one forward pass on one rank; `parallel.data * micro_batch` must divide "
        "`global_batch`."},
       {"training.steps", IntegerKind{at<kTraining, &T::steps>, 1, kMostSteps}, "optimizer steps",
        "from `tokens`", "Length of the run; either this or `tokens`."},
       {"training.tokens", IntegerKind{tokens_of, 1, INT64_MAX / 2}, "tokens", "from `steps`",
        "Length of the run, rounded up to whole steps; either this or `steps`."},
       {"training.seed", SeedKind{at<kTraining, &T::seed>}, "", "",
        "Decides initial weights, dropout and the order of samples."},
       {"training.precision", choice<kTraining, &T::precision, kPrecisionText>({"fp16"}), "", "",
        "Numbers that matrix products multiply. `\"bf16\"` rounds their factors; sums, weights, "
        "gradients and the optimizer stay fp32."}});
}

void add_optimizer(std::vector<JobField>& fields) {
  using T = TrainingSpec;
  constexpr auto kTraining = &JobSpec::training;
  fields.insert(
      fields.end(),
      {{"training.learning_rate",
        RealKind{
            .slot = at<kTraining, &T::learning_rate>, .least = 0, .most = 10, .above_least = true},
        "", "", "AdamW's rate after warm-up."},
       {"training.schedule", choice<kTraining, &T::schedule, kLearningRateScheduleText>(), "", "",
        "How the rate falls after warm-up: not, in a line, as half a cosine, or flat and then in a "
        "line over the last `decay_fraction` (`wsd`)."},
       {"training.warmup_steps", IntegerKind{at<kTraining, &T::warmup_steps>, 0, kMostSteps},
        "optimizer steps", "", "The rate rises in a line over this many steps' tokens."},
       {"training.decay_fraction",
        RealKind{.slot = at<kTraining, &T::decay_fraction>, .least = 0, .most = 1}, "fraction", "",
        "Last part of the run over which `wsd` lets the rate fall."},
       {"training.minimum_learning_rate",
        RealKind{.slot = at<kTraining, &T::minimum_learning_rate>, .least = 0, .most = 10}, "", "",
        "Where the rate ends, at most `learning_rate`."},
       {"training.beta1",
        RealKind{.slot = at<kTraining, &T::beta1>, .least = 0, .most = 1, .below_most = true}, "",
        "", "AdamW's decay of the gradient's mean."},
       {"training.beta2",
        RealKind{.slot = at<kTraining, &T::beta2>, .least = 0, .most = 1, .below_most = true}, "",
        "", "AdamW's decay of the gradient's square."},
       {"training.epsilon",
        RealKind{.slot = at<kTraining, &T::epsilon>, .least = 0, .most = 1, .above_least = true},
        "", "", "Added to the root of AdamW's second moment."},
       {"training.weight_decay",
        RealKind{.slot = at<kTraining, &T::weight_decay>, .least = 0, .most = 10}, "", "",
        "Pull of matrices and embeddings towards 0; biases and norms have none."},
       {"training.clip", RealKind{.slot = at<kTraining, &T::clip>, .least = 0, .most = 1e9}, "", "",
        "Largest norm of the whole gradient; 0 is off."},
       {"training.evaluate_every", IntegerKind{at<kTraining, &T::evaluate_every>, 0, kMostSteps},
        "optimizer steps", "", "Steps between evaluations; 0 is never."},
       {"training.evaluate_batches",
        IntegerKind{at<kTraining, &T::evaluate_batches>, 1, kMostBatch}, "global batches", "",
        "Batches of the validation text, from its start, in one evaluation."},
       {"training.patience", IntegerKind{at<kTraining, &T::patience>, 0, kMostSteps}, "evaluations",
        "", "The run ends when this many evaluations in a row were not the best; 0 is never."}});
}

void add_machine(std::vector<JobField>& fields) {
  using C = CommunicationSpec;
  const auto only = [](auto... values) { return FixedKind{{Json(values)...}}; };
  fields.insert(
      fields.end(),
      {{"parallel.data", IntegerKind{at<&JobSpec::parallel, &ParallelSpec::data>, 1, 65'536, true},
        "ranks", "",
        "Ranks that each take a part of the batch. `\"parallel\": \"auto\"` is short for `auto`."},
       {"parallel.tensor", IntegerKind{at<&JobSpec::parallel, &ParallelSpec::tensor>, 1, 65'536},
        "ranks", "",
        "Ranks that share each layer's matrices, heads and vocabulary; at most as many as heads."},
       {"parallel.pipeline", only(1), "ranks", "`1`", "Ranks that share the layers."},
       {"parallel.context", only(1), "ranks", "`1`", "Ranks that share each sequence."},
       {"parallel.sequence", BoolKind{at<&JobSpec::parallel, &ParallelSpec::sequence>, true}, "",
        "", "The tensor-parallel ranks share the rows of norms, dropout and residuals as well."},
       {"parallel.sharding", IntegerKind{at<&JobSpec::parallel, &ParallelSpec::sharding>, 0, 3},
        "stage", "",
        "What the data-parallel ranks divide among themselves: nothing (0), the optimizer's state "
        "(1), gradients too (2), parameters too (3)."},
       {"memory.recompute", only("none", "auto"), "", "`\"none\"`",
        "Activations that the backward pass computes again."},
       {"memory.limits.host", BytesKind{at<&JobSpec::memory, &MemorySpec::host_limit>, 0}, "bytes",
        "", "Most memory of one rank; 0 is its share of what the machine has."},
       {"communication.bucket", BytesKind{at<&JobSpec::communication, &C::bucket>, 4}, "bytes", "",
        "Gradients are summed in buckets of about this size."},
       {"communication.timeout",
        SecondsKind{at<&JobSpec::communication, &C::timeout>, 7.0 * 86'400}, "seconds", "",
        "A collective that waits longer fails and names the rank that is missing."},
       {"communication.shared_memory", BoolKind{at<&JobSpec::communication, &C::shared_memory>}, "",
        "",
        "Processes of one host sum gradients in place, in /dev/shm; false sends messages, which "
        "is slower and needs no room there."}});
}

void add_output(std::vector<JobField>& fields) {
  using C = CheckpointSpec;
  constexpr auto kCheckpoint = &JobSpec::checkpoint;
  fields.insert(
      fields.end(),
      {{"checkpoint.every", IntegerKind{at<kCheckpoint, &C::every>, 0, kMostSteps},
        "optimizer steps", "", "Steps between checkpoints; 0 is only at the end."},
       {"checkpoint.keep", IntegerKind{at<kCheckpoint, &C::keep>, 1, 1'000'000}, "checkpoints", "",
        "Newest ones that stay."},
       {"checkpoint.keep_best", BoolKind{at<kCheckpoint, &C::keep_best>}, "", "",
        "The one of the best validation loss stays besides."},
       {"checkpoint.directory", PathKind{at<kCheckpoint, &C::directory>}, "",
        "`checkpoints` in the run directory", "Where they are written."},
       {"checkpoint.asynchronous", BoolKind{at<kCheckpoint, &C::asynchronous>}, "", "",
        "Written while training goes on; a late one holds up the next update."},
       {"observe.log_every",
        IntegerKind{at<&JobSpec::observe, &ObserveSpec::log_every>, 1, kMostSteps},
        "optimizer steps", "", "Steps between progress lines where there is no terminal."},
       {"observe.compare_every",
        IntegerKind{at<&JobSpec::observe, &ObserveSpec::compare_every>, 0, kMostSteps},
        "optimizer steps", "",
        "Steps between comparisons of the parameters that ranks hold alike (and after the first "
        "step); 0 is never."}});
}

std::vector<JobField> make_fields() {
  std::vector<JobField> fields{
      {"name", NameKind{name_of}, "", "", "Names the run directory, `runs/<name>-<UTC time>`."}};
  add_model(fields);
  add_positions(fields);
  add_data(fields);
  add_training_length(fields);
  add_optimizer(fields);
  add_machine(fields);
  add_output(fields);
  return fields;
}

void add_key(std::vector<JobObject>& objects, std::string_view path) {
  const std::size_t dot = path.rfind('.');
  const std::string_view parent = dot == std::string_view::npos ? "" : path.substr(0, dot);
  const std::string_view key = dot == std::string_view::npos ? path : path.substr(dot + 1);
  for (JobObject& object : objects) {
    if (object.path != parent) continue;
    for (const std::string_view known : object.keys) {
      if (known == key) return;
    }
    object.keys.push_back(key);
    return;
  }
  add_key(objects, parent);
  objects.push_back({std::string(parent), {key}});
}

std::vector<JobObject> make_objects() {
  std::vector<JobObject> objects{{"", {}}};
  for (const JobField& field : job_fields()) add_key(objects, field.path);
  return objects;
}

}  // namespace

std::span<const JobField> job_fields() {
  static const std::vector<JobField> fields = make_fields();
  return fields;
}

bool is_transformer_key(std::string_view path) {
  return path.starts_with("model.") && path != "model.family" && path != "model.vocab" &&
         path != "model.context";
}

bool JobField::applies_to(const JobSpec& job) const {
  if (job.model.is_custom() && is_transformer_key(path)) return false;
  return scope.holds == nullptr || scope.holds(job);
}

const JobField* find_field(std::string_view path) {
  for (const JobField& field : job_fields()) {
    if (field.path == path) return &field;
  }
  return nullptr;
}

std::span<const std::string_view> later_paths() {
  static constexpr std::array<std::string_view, 5> kPaths{
      "parallel.schedule", "parallel.interleave", "memory.limits.device", "memory.limits.disk",
      "cluster"};
  return kPaths;
}

std::span<const JobObject> job_objects() {
  static const std::vector<JobObject> objects = make_objects();
  return objects;
}

const JobObject* find_object(std::string_view path) {
  for (const JobObject& object : job_objects()) {
    if (object.path == path) return &object;
  }
  return nullptr;
}

std::string joined_path(std::string_view object, std::string_view key) {
  std::string path(object);
  if (!path.empty()) path += '.';
  path += key;
  return path;
}

}  // namespace quadrille::internal
