// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/config/job_reader.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>

#include "quadrille/base/file.h"
#include "quadrille/base/text.h"

namespace quadrille {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kJob = R"({
  "model": {"layers": 2, "hidden": 8, "heads": 2, "context": 16},
  "data": {"train": "/absent/text"},
  "training": {"global_batch": 4, "steps": 10}
})";

std::vector<Override> overrides(const std::vector<std::string>& texts) {
  std::vector<Override> parsed;
  for (const std::string& text : texts) parsed.push_back(parse_override(text).value());
  return parsed;
}

Result<JobSpec> with(const std::vector<std::string>& texts, std::string_view job = kJob) {
  return parse_job(
      {.file = "/jobs/job.json", .text = std::string(job), .overrides = overrides(texts)});
}

JobSpec accepted(const std::vector<std::string>& texts, std::string_view job = kJob) {
  auto spec = with(texts, job);
  EXPECT_TRUE(spec.has_value()) << (spec ? "" : spec.error().to_text());
  return spec ? *spec : JobSpec();
}

std::vector<Diagnostic> refused(const std::vector<std::string>& texts,
                                std::string_view job = kJob) {
  auto spec = with(texts, job);
  EXPECT_FALSE(spec.has_value()) << join(texts, " ");
  if (spec) return {};
  EXPECT_EQ(spec.error().code, Code::kInvalid);
  return spec.error().diagnostics;
}

// The one diagnostic that the overrides cause, as text.
std::string refusal(const std::vector<std::string>& texts) {
  const auto diagnostics = refused(texts);
  EXPECT_EQ(diagnostics.size(), 1U) << join(texts, " ");
  return diagnostics.empty() ? "" : diagnostics[0].to_text();
}

TEST(JobReader, FillsInWhatFollowsFromTheRest) {
  const JobSpec job = accepted({});
  EXPECT_EQ(job.name, "job");
  EXPECT_EQ(job.model.ffn, 4 * 8);
  EXPECT_EQ(job.model.vocab, 256);
  EXPECT_EQ(job.training.sequence, 16);
  EXPECT_EQ(job.training.micro_batch, 0);
  EXPECT_THAT(job.data.train, ElementsAre("/absent/text"));
}

TEST(JobReader, NeedsOnlyModelDataAndALength) {
  const JobSpec job = accepted({}, R"({
    "model": {"layers": 1, "hidden": 4, "heads": 1, "context": 8}, "data": {"train": "t"},
    "training": {"steps": 1}})");
  EXPECT_EQ(job.parallel.data, 1);
  EXPECT_THAT(job.data.train, ElementsAre("/jobs/t"));
}

TEST(JobReader, ACustomModelHasAVocabularyAndAContextAndNoOtherShape) {
  constexpr std::string_view kCustom = R"({
    "model": {"family": "custom", "context": 8}, "data": {"train": "t"},
    "training": {"steps": 1}})";
  const JobSpec job = accepted({}, kCustom);
  EXPECT_TRUE(job.model.is_custom());
  EXPECT_EQ(job.model.vocab, 256);
  EXPECT_EQ(job.training.sequence, 8);
  const JobSpec again = accepted({}, write_json(to_json(job)));
  EXPECT_EQ(write_json(to_json(again)), write_json(to_json(job)));
  const auto problems = refused({"model.layers=2", "model.dropout=0.1"}, kCustom);
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].path, "model.layers");
  EXPECT_EQ(problems[1].path, "model.dropout");
  EXPECT_THAT(problems[0].to_text(), HasSubstr("\"custom\" has no such key"));
}

TEST(JobReader, RoundsTokensUpToWholeSteps) {
  EXPECT_EQ(accepted({"training.tokens=64"}).training.steps, 1);
  EXPECT_EQ(accepted({"training.tokens=65"}).training.steps, 2);
  EXPECT_EQ(accepted({"training.tokens=1e9"}).training.steps, (1'000'000'000 + 63) / 64);
}

TEST(JobReader, ReportsEverythingAtOnceInTheOrderOfTheFile) {
  const auto diagnostics = refused({"training.clip=-1"}, R"(// A job with many faults.
{
  "model": {"layers": 0, "hidden": 10,
            "heads": 3, "context": 16, "head": 1},
  "data": {"train": []},
  "training": {
    "global_batch": "many",
    "steps": 10, "tokens": 5,
    "sequence": 17,
    "warmup_steps": 2.5
  },
  "paralel": {}
})");
  std::vector<std::string> places;
  for (const Diagnostic& diagnostic : diagnostics) {
    places.push_back(diagnostic.file + ":" + std::to_string(diagnostic.line) + " " +
                     diagnostic.path);
    EXPECT_FALSE(diagnostic.wrong.empty());
    EXPECT_FALSE(diagnostic.right.empty()) << diagnostic.path;
  }
  EXPECT_THAT(
      places,
      ElementsAre("/jobs/job.json:3 model.layers", "/jobs/job.json:4 model.head",
                  "/jobs/job.json:4 model.heads", "/jobs/job.json:5 data.train",
                  "/jobs/job.json:7 training.global_batch", "/jobs/job.json:8 training.tokens",
                  "/jobs/job.json:9 training.sequence", "/jobs/job.json:10 training.warmup_steps",
                  "/jobs/job.json:12 paralel", "--set training.clip=-1:0 training.clip"));
}

TEST(JobReader, SaysWhatIsMissing) {
  const auto diagnostics = refused({}, "{\n\n\"model\": {},\n \"data\": {}}");
  std::vector<std::string> paths;
  for (const Diagnostic& diagnostic : diagnostics) paths.push_back(diagnostic.path);
  for (const char* path : {"model.layers", "model.hidden", "model.heads", "model.context",
                           "data.train", "training.steps"}) {
    EXPECT_THAT(paths, ::testing::Contains(path));
  }
  EXPECT_EQ(paths.size(), 6U);
  EXPECT_EQ(diagnostics.front().line, 1);
}

TEST(JobReader, SuggestsTheNearestKeyAlsoOfAnotherObject) {
  EXPECT_THAT(refusal({"training.stpes=5"}),
              HasSubstr("unknown key \"stpes\"; expected \"steps\""));
  EXPECT_THAT(refusal({"model.seed=5"}), HasSubstr("expected \"training.seed\""));
  EXPECT_THAT(refusal({"seed=5"}), HasSubstr("expected \"training.seed\""));
  EXPECT_THAT(refusal({"limits.host=5"}), HasSubstr("expected \"memory.limits\""));
  EXPECT_THAT(refusal({"training.beta=0.5"}), HasSubstr("expected \"beta1\" or \"beta2\""));
  EXPECT_THAT(refusal({"observe.qqqqqqqqqqqq=1"}), HasSubstr("expected \"log_every\""));
}

TEST(JobReader, TellsThatADottedKeyIsNotAPath) {
  const auto diagnostics = refused({}, R"({"training.seed": 5,
    "model": {"layers": 2, "hidden": 8, "heads": 2, "context": 16}, "data": {"train": "t"},
    "training": {"steps": 10}})");
  ASSERT_EQ(diagnostics.size(), 1U);
  EXPECT_THAT(diagnostics[0].right, HasSubstr("\"seed\" in the object \"training\""));
}

TEST(JobReader, AdmitsWhatThisVersionDoesNotHave) {
  for (const char* change :
       {"training.precision=fp16", "parallel.pipeline=4", "parallel.context=2",
        "memory.recompute=full", "parallel.schedule=1f1b", "memory.limits.disk=5", "cluster=x"}) {
    EXPECT_THAT(refusal({change}), HasSubstr("not available in this version")) << change;
  }
  accepted({"parallel.tensor=1", "parallel.sharding=1", "parallel.sequence=false",
            "memory.recompute=auto", "model.family=gpt2", "training.precision=bf16"});
}

TEST(JobReader, EveryTensorParallelRankNeedsAHeadAColumnAWordAndARow) {
  const JobSpec job = accepted({"parallel.tensor=2", "parallel.sequence=1"});
  EXPECT_EQ(job.parallel.tensor, 2);
  EXPECT_TRUE(job.parallel.sequence);
  EXPECT_TRUE(accepted({"parallel.tensor=2", "parallel.sequence=true"}).parallel.sequence);
  EXPECT_THAT(refusal({"parallel.tensor=3"}), HasSubstr("3 ranks are more than model.heads 2"));
  EXPECT_THAT(refusal({"parallel.tensor=3"}), HasSubstr("1 to 2"));
  EXPECT_THAT(refusal({"parallel.tensor=2", "model.ffn=1"}), HasSubstr("model.ffn 1"));
  EXPECT_THAT(refusal({"parallel.tensor=2", "parallel.sequence=1", "training.sequence=1"}),
              HasSubstr("training.sequence 1"));
  EXPECT_THAT(refusal({"parallel.sequence=2"}), HasSubstr("true or false"));
}

TEST(JobReader, GivesALlamaItsFamilysDefaults) {
  const ModelSpec model = accepted({"model.family=llama"}).model;
  EXPECT_EQ(model.family, ModelFamily::kLlama);
  EXPECT_EQ(model.ffn, 64);  // 8/3 * 8 = 21.3, up to a multiple of 64
  EXPECT_EQ(model.kv_heads, 2);
  EXPECT_EQ(model.head_dimension, 4);
  EXPECT_FALSE(model.tie_embeddings);
  EXPECT_FALSE(model.bias);
  EXPECT_EQ(model.rope_base, 10'000);
  EXPECT_EQ(model.rope_scaling.type, RopeScalingType::kNone);
  // 8/3 * 768 = 2048 is a multiple already; 8/3 * 100 = 266.7 lies between 256 and 320.
  EXPECT_EQ(accepted({"model.family=llama", "model.hidden=768"}).model.ffn, 2048);
  EXPECT_EQ(accepted({"model.family=llama", "model.hidden=100"}).model.ffn, 320);
  EXPECT_TRUE(accepted({"model.family=llama", "model.tie_embeddings=true"}).model.tie_embeddings);
  EXPECT_TRUE(accepted({}).model.bias);
}

TEST(JobReader, ReadsRotaryScalingAndWritesItBackEqual) {
  const std::vector<std::string> llama{"model.family=llama",
                                       "model.heads=4",
                                       "model.kv_heads=2",
                                       "model.head_dimension=6",
                                       "model.rope_base=500000",
                                       "model.rope_scaling.type=llama3",
                                       "model.rope_scaling.factor=8",
                                       "model.rope_scaling.original_context=8"};
  const JobSpec job = accepted(llama);
  EXPECT_EQ(job.model.rope_base, 500'000);
  EXPECT_EQ(job.model.rope_scaling.factor, 8);
  EXPECT_EQ(job.model.rope_scaling.low_freq_factor, 1);
  EXPECT_EQ(job.model.rope_scaling.high_freq_factor, 4);
  EXPECT_EQ(job.model.rope_scaling.original_context, 8);
  EXPECT_EQ(job.model.query_columns(), 24);
  EXPECT_EQ(job.model.kv_columns(), 12);
  for (const JobSpec& spec : {job, accepted({"model.family=llama"}),
                              accepted({"model.family=llama", "model.rope_scaling.type=linear",
                                        "model.rope_scaling.factor=2.5"})}) {
    const Json written = to_json(spec);
    EXPECT_EQ(to_json(accepted({}, write_json(written))), written);
  }
  EXPECT_EQ(to_json(accepted({})).find("model")->find("kv_heads"), nullptr);
}

TEST(JobReader, RefusesKeysThatHaveNoEffectInTheFamily) {
  for (const char* change : {"model.kv_heads=2", "model.head_dimension=4", "model.rope_base=5",
                             "model.rope_scaling.type=linear"}) {
    EXPECT_THAT(refusal({change}),
                AllOf(HasSubstr("no effect here"), HasSubstr("model.family \"llama\"")))
        << change;
  }
  EXPECT_THAT(refusal({"model.family=llama", "model.bias=true"}), HasSubstr("has no biases"));
  EXPECT_THAT(refusal({"model.family=llama", "model.rope_scaling.factor=2"}),
              HasSubstr("model.rope_scaling.type \"linear\" or"));
  EXPECT_THAT(refusal({"model.family=llama", "model.rope_scaling.type=linear",
                       "model.rope_scaling.factor=2", "model.rope_scaling.original_context=8"}),
              HasSubstr("with model.rope_scaling.type \"llama3\""));
  EXPECT_THAT(refusal({"model.family=llama", "model.rope_scaling.type=linear"}),
              HasSubstr("rope_scaling.factor: missing"));
  EXPECT_THAT(refusal({"model.family=llama", "model.rope_scaling.type=yarn"}),
              HasSubstr("\"llama3\""));
  // A family that does not exist is the one fault: what the keys mean then is unknown.
  EXPECT_THAT(refusal({"model.family=lama", "model.kv_heads=2"}), HasSubstr("\"llama\""));
}

TEST(JobReader, RefusesWhatContradictsInALlama) {
  const auto llama = [](std::vector<std::string> changes) {
    changes.insert(changes.begin(), "model.family=llama");
    return refusal(changes);
  };
  EXPECT_THAT(llama({"model.heads=4", "model.kv_heads=3"}),
              HasSubstr("3 key and value heads do not divide model.heads 4"));
  EXPECT_THAT(llama({"model.heads=8"}), HasSubstr("a head of 1 numbers"));
  EXPECT_THAT(llama({"model.head_dimension=5"}), HasSubstr("such as 6"));
  EXPECT_THAT(llama({"model.heads=3"}), HasSubstr("3 heads do not divide model.hidden 8"));
  accepted({"model.family=llama", "model.heads=3", "model.head_dimension=6"});
  EXPECT_THAT(
      llama({"model.rope_scaling.type=llama3", "model.rope_scaling.factor=8",
             "model.rope_scaling.original_context=8", "model.rope_scaling.low_freq_factor=4"}),
      HasSubstr("4 is not above low_freq_factor 4"));
}

TEST(JobReader, RefusesWhatContradicts) {
  EXPECT_THAT(refusal({"model.heads=3"}), HasSubstr("3 heads do not divide model.hidden 8"));
  EXPECT_THAT(refusal({"training.sequence=17"}), HasSubstr("more than model.context 16"));
  EXPECT_THAT(refusal({"training.micro_batch=3"}), HasSubstr("does not divide 4"));
  EXPECT_THAT(refusal({"parallel.data=3"}), HasSubstr("does not divide 4"));
  EXPECT_THAT(refusal({"parallel.data=2", "training.micro_batch=4"}), HasSubstr("multiple of 8"));
  EXPECT_THAT(refusal({"parallel.data=8"}), HasSubstr("8 ranks are more than the 4 samples"));
  EXPECT_THAT(refusal({"training.warmup_steps=11"}), HasSubstr("more than the run's 10"));
  EXPECT_THAT(refusal({"training.minimum_learning_rate=1"}), HasSubstr("above"));
  EXPECT_THAT(refusal({"training.evaluate_every=5"}), HasSubstr("nothing to evaluate on"));
  EXPECT_THAT(refusal({"data.validation=/v", "data.validation_fraction=0.1"}),
              HasSubstr("already"));
  EXPECT_THAT(refusal({"model.vocab=255"}), HasSubstr("256"));
  EXPECT_THAT(refusal({"data.validation=/a/*.none"}), HasSubstr("matches no file"));
  accepted({"parallel.data=2", "training.micro_batch=2"});
  accepted({"parallel=auto", "training.micro_batch=2"});
}

TEST(JobReader, RefusesValuesOfAnotherKindOrOutOfRange) {
  EXPECT_THAT(refusal({"training.steps=2x"}), HasSubstr("\"2x\" is not a whole number"));
  EXPECT_THAT(refusal({"training.steps=2.5"}), HasSubstr("2.5 is not a whole number"));
  EXPECT_THAT(refusal({"training.steps=true"}), HasSubstr("true is not a whole number"));
  EXPECT_THAT(refusal({"training.steps=0"}), HasSubstr("out of range"));
  EXPECT_THAT(refusal({"training.learning_rate=0"}), HasSubstr("above 0"));
  EXPECT_THAT(refusal({"training.learning_rate=nan"}), HasSubstr("\"nan\" is not a number"));
  EXPECT_THAT(refusal({"training.learning_rate=1e999"}), HasSubstr("is not a number"));
  EXPECT_THAT(refusal({"training.beta2=1"}), HasSubstr("to below 1"));
  EXPECT_THAT(refusal({"model.bias=1"}), HasSubstr("true or false"));
  EXPECT_THAT(refusal({"model=5"}), HasSubstr("is not an object"));
  EXPECT_THAT(refusal({"training.schedule=cosin"}), HasSubstr("\"wsd\""));
  EXPECT_THAT(refusal({"data.tokenizer=5"}), HasSubstr("\"bytes\" or a path"));
  EXPECT_THAT(refusal({"data.train=[1]"}), HasSubstr("1 is not a string"));
  EXPECT_THAT(refusal({"data.train=\"a\\u0000b\""}), HasSubstr("not a path"));
  EXPECT_THAT(refusal({"memory.limits.host=-1"}), HasSubstr("out of range"));
  EXPECT_THAT(refusal({"memory.limits.host=12 parsecs"}), HasSubstr("512 MiB"));
  EXPECT_THAT(refusal({"communication.timeout=0"}), HasSubstr("above 0"));
  EXPECT_THAT(refusal({"training.seed=-1"}), HasSubstr("2^63"));
}

TEST(JobReader, RefusesAbsurdSizesBeforeTheyOverflow) {
  EXPECT_THAT(refusal({"model.layers=1000000000000"}), HasSubstr("from 1 to 100,000"));
  EXPECT_THAT(refusal({"model.layers=100000", "model.hidden=1048576", "model.ffn=16777216"}),
              HasSubstr("parameters' bytes do not fit into 64 bits"));
  EXPECT_THAT(refusal({"model.context=16777216", "training.global_batch=2147483648",
                       "training.micro_batch=2147483648"}),
              HasSubstr("activations' bytes do not fit into 64 bits"));
  EXPECT_THAT(refusal({"training.steps=1000000000000", "training.global_batch=16777216"}),
              HasSubstr("the tokens of 1,000,000,000,000 steps do not fit"));
  refused({"model.layers=99999999999999999999"});
}

TEST(JobReader, NamesMustBeUsableAsFolders) {
  accepted({"name=run_2.b-1"});
  for (const char* name : {"name=a/b", "name=..", "name=.x", "name=-x", "name=\"\"", "name=a b"}) {
    EXPECT_THAT(refusal({name}), HasSubstr("cannot name a run's folder")) << name;
  }
}

TEST(JobReader, ReadsBytesAsNumbersAndAsText) {
  EXPECT_EQ(accepted({"memory.limits.host=512 MiB"}).memory.host_limit, 512_MiB);
  EXPECT_EQ(accepted({"memory.limits.host=1.5GiB"}).memory.host_limit, Bytes(1536LL << 20));
  EXPECT_EQ(accepted({"memory.limits.host=2 GB"}).memory.host_limit, Bytes(2'000'000'000));
  EXPECT_EQ(accepted({"memory.limits.host=4096"}).memory.host_limit, Bytes(4096));
  EXPECT_EQ(accepted({"communication.bucket=64KiB"}).communication.bucket, 64_KiB);
}

TEST(JobReader, LaterOverridesWinAndErrorsNameThem) {
  EXPECT_EQ(accepted({"training.steps=3", "training.steps=7"}).training.steps, 7);
  EXPECT_EQ(accepted({"parallel=auto"}).parallel.data, 0);
  EXPECT_EQ(accepted({"parallel=auto", "parallel.data=2"}).parallel.data, 2);
  const auto diagnostics = refused({"training.steps=-3", "trainin.steps=4"});
  ASSERT_EQ(diagnostics.size(), 2U);
  EXPECT_EQ(diagnostics[0].file, "--set training.steps=-3");
  EXPECT_EQ(diagnostics[1].file, "--set trainin.steps=4");
  EXPECT_THAT(diagnostics[1].right, HasSubstr("\"training\""));
  EXPECT_FALSE(parse_override("training.steps").has_value());
  EXPECT_FALSE(parse_override("=5").has_value());
  EXPECT_FALSE(parse_override("data.train=\xFF").has_value());
}

TEST(JobReader, HostileOverridePathsAreOnlyUnknownKeys) {
  std::string deep = "a";
  for (int i = 0; i < 100'000; ++i) deep += ".a";
  refused({deep + "=1"});
  refused({"..=1"});
  refused({"model..layers=1"});
  refused({"model.layers.x=1"});
}

TEST(JobReader, WritesAJobThatReadsBackEqual) {
  const JobSpec job =
      accepted({"training.tokens=6400", "memory.limits.host=512 MiB", "parallel=auto",
                "training.learning_rate=0.1", "data.validation=[\"/v\"]", "checkpoint.directory=/c",
                "training.micro_batch=2", "name=x"});
  const Json written = to_json(job);
  const JobSpec again = accepted({}, write_json(written, 2));
  EXPECT_EQ(to_json(again), written);
  EXPECT_EQ(again.training.steps, 100);
  EXPECT_EQ(again.checkpoint.directory, "/c");
  EXPECT_TRUE(again.parallel.is_auto());
}

TEST(JobReader, AcceptsTheJobFileOfARunFromAnywhere) {
  Json run = Json::object();
  run.set("job", to_json(accepted({"data.train=relative.txt"}))).set("origin", "x");
  const auto again = parse_job({.file = "/elsewhere/job.json", .text = write_json(run)});
  ASSERT_TRUE(again.has_value()) << again.error().to_text();
  EXPECT_THAT(again->data.train,
              ElementsAre((std::filesystem::current_path() / "relative.txt").string()));
}

TEST(JobReader, TakesPathsAndGlobsFromTheFolderOfTheFile) {
  std::string folder = ::testing::TempDir() + "quadrille-job-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  ASSERT_TRUE(make_folders(folder + "/text/c.txt"));
  for (const char* name : {"b", "a", "B", "a*z"}) {
    ASSERT_TRUE(write_file_atomically(folder + "/text/" + name + ".txt", "x"));
  }
  ASSERT_TRUE(write_file_atomically(folder + "/job.json", kJob));
  const auto train = [&](const std::string& value) {
    Json job = parse_json(kJob, {}).value();
    job.at_or_insert("data").set("train", parse_json(value, {}).value());
    return parse_job({.file = folder + "/job.json", .text = write_json(job)}).value().data.train;
  };
  const std::string text = folder + "/text/";
  EXPECT_THAT(train(R"(["text/*.txt"])"),
              ElementsAre(text + "B.txt", text + "a*z.txt", text + "a.txt", text + "b.txt"));
  EXPECT_THAT(train(R"(["./text/../text/b.txt", "text/[a].txt"])"),
              ElementsAre(text + "b.txt", text + "a.txt"));
  EXPECT_THAT(train(R"("text/a*z.txt")"), ElementsAre(text + "a*z.txt"));
  EXPECT_TRUE(read_job(folder + "/job.json").has_value());
  EXPECT_EQ(read_job(folder + "/none.json").error().code, Code::kNotFound);
  EXPECT_TRUE(remove_tree(folder));
}

TEST(JobReader, RefusesPathsThatItsOwnFileCouldNotHold) {
  const auto job = parse_job({.file = "/jobs/\xFF/job.json", .text = std::string(kJob)});
  EXPECT_TRUE(job.has_value());  // Its data path is absolute.
  const auto relative = parse_job(
      {.file = "/jobs/\xFF/job.json", .text = R"({"data": {"train": "t"}, "training": {"steps": 1},
      "model": {"layers": 2, "hidden": 8, "heads": 2, "context": 16}})"});
  ASSERT_FALSE(relative.has_value());
  EXPECT_THAT(relative.error().to_text(), HasSubstr("is not UTF-8"));
}

TEST(JobReader, SyntaxErrorsStandAlone) {
  const auto diagnostics = refused({}, "{\"model\": {\"layers\": 0},\n \"x\": }");
  ASSERT_EQ(diagnostics.size(), 1U);
  EXPECT_EQ(diagnostics[0].line, 2);
  EXPECT_THAT(refused({}, "[1]")[0].wrong, HasSubstr("not an object"));
}

}  // namespace
}  // namespace quadrille
