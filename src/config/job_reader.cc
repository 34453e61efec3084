// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/config/job_reader.h"

#include <fmt/format.h>

#include <filesystem>

#include "config/job_checks.h"
#include "config/job_findings.h"
#include "config/job_paths.h"
#include "config/job_suggestions.h"
#include "config/job_values.h"
#include "quadrille/base/file.h"
#include "quadrille/base/text.h"
#include "quadrille/config/hugging_face.h"

namespace quadrille {
namespace internal {
namespace {

constexpr std::size_t kDepthMost = 16;

// A path lies at or below another one: `training.steps` below `training`.
bool lies_within(std::string_view path, std::string_view outer) {
  return path.starts_with(outer) &&
         (path.size() == outer.size() || path[outer.size()] == '.' || outer.empty());
}

Json parse_override_value(const std::string& text) {
  auto value = parse_json(text, {});
  return value ? std::move(*value) : Json(text);
}

class JobReader {
 public:
  explicit JobReader(const JobText& text) : text_(text) {}

  Result<JobSpec> read() {
    QD_ASSIGN_OR_RETURN(Json root, parse_json(text_.text, {.file = text_.file, .comments = true}));
    if (!root.is_object()) {
      findings_.locate("", {text_.file, root.line()});
      findings_.report("", quoted_value(root) + " is not an object", "a job: { ... }");
      return failure();
    }
    // A run's job.json wraps the job that it ran.
    const Json* inner = root.find("job");
    if (inner != nullptr && inner->is_object() && root.find("model") == nullptr) {
      root = Json(*inner);
    }
    for (const Override& change : text_.overrides) apply(root, change);
    read_object(root, "");
    take_shape_of_weights();
    report_missing();
    complete_and_check(draft_, findings_);
    if (!findings_.empty()) return failure();
    return std::move(draft_.job);
  }

 private:
  Result<JobSpec> failure() {
    Error error{Code::kInvalid, "the job \"" + text_.file + "\" is wrong", findings_.take()};
    return fail(std::move(error));
  }

  static void apply(Json& root, const Override& change) {
    const std::vector<std::string> keys = split(change.path, '.');
    if (keys.size() > kDepthMost) {  // Surely unknown; its path is then one key.
      root.set(change.path, Json());
      return;
    }
    Json* place = &root;
    for (std::size_t i = 0; i + 1 < keys.size(); ++i) {
      place = &place->at_or_insert(keys[i]);
      // `parallel.data` also replaces the word in `"parallel": "auto"`.
      if (!place->is_object()) *place = Json::object();
    }
    place->set(keys.back(), parse_override_value(change.value));
    if (change.path == "training.steps") erase(*place, "tokens");
    if (change.path == "training.tokens") erase(*place, "steps");
  }

  static void erase(Json& object, std::string_view key) {
    std::vector<Json::Member> kept;
    for (const Json::Member& member : object.members()) {
      if (member.first != key) kept.push_back(member);
    }
    const int line = object.line();
    object = Json::object(std::move(kept));
    object.set_line(line);
  }

  // The override that wrote what stands at `path`, or null if the file did.
  [[nodiscard]] const Override* origin(std::string_view path, const Json& value) const {
    for (auto change = text_.overrides.rbegin(); change != text_.overrides.rend(); ++change) {
      if (lies_within(path, change->path)) return &*change;
      // An object that only the override's path brought into being has no line of its own.
      if (value.line() == 0 && lies_within(change->path, path)) return &*change;
    }
    return nullptr;
  }

  void locate(const std::string& path, const Json& value) {
    if (const Override* change = origin(path, value)) {
      findings_.locate(path, {"--set " + change->path + "=" + change->value, 0});
    } else {
      findings_.locate(path, {text_.file, value.line()});
    }
  }

  void read_object(const Json& object, const std::string& path) {
    locate(path, object);
    for (const auto& [key, value] : object.members()) {
      read_member(path, key, value);
    }
  }

  void read_member(const std::string& object, const std::string& key, const Json& value) {
    const std::string path = joined_path(object, key);
    locate(path, value);
    // A key with a dot in it is never one of ours, whatever its path spells.
    const bool plain = key.find('.') == std::string::npos;
    if (const JobField* field = plain ? find_field(path) : nullptr) {
      read_field(*field, value);
    } else if (!plain || find_object(path) == nullptr || key.empty()) {
      const Problem problem = describe_unknown_key(object, key);
      findings_.report(path, problem.wrong, problem.right);
    } else if (value.is_object()) {
      read_object(value, path);
    } else if (path == "parallel" && value.is_string() && value.as_string() == "auto") {
      draft_.job.parallel.data = 0;
    } else {
      findings_.report(path, quoted_value(value) + " is not an object",
                       path == "parallel" ? "an object or \"auto\"" : "an object");
    }
  }

  void read_field(const JobField& field, const Json& value) {
    const std::string path(field.path);
    if (auto problem = read_value(field, value, draft_)) {
      findings_.report(path, std::move(problem->wrong), std::move(problem->right));
      return;
    }
    const std::string folder = origin(path, value) != nullptr
                                   ? ""
                                   : std::filesystem::path(text_.file).parent_path().string();
    if (const auto* kind = std::get_if<PathKind>(&field.kind)) {
      if (kind->slot(draft_) == kind->word) return;
      kind->slot(draft_) = absolute_path(folder, kind->slot(draft_));
      check_text(path, kind->slot(draft_));
    } else if (const auto* paths = std::get_if<PathsKind>(&field.kind)) {
      resolve(path, folder, paths->slot(draft_));
    }
  }

  void resolve(const std::string& path, const std::string& folder,
               std::vector<std::string>& paths) {
    std::vector<std::string> resolved;
    for (const std::string& written : paths) {
      const std::string absolute = absolute_path(folder, written);
      if (!text_.expand_globs || !is_glob(absolute)) {
        resolved.push_back(absolute);
        continue;
      }
      const std::vector<std::string> matches = expand_glob(absolute);
      if (matches.empty()) {
        findings_.report(path, quoted_value(Json(written)) + " matches no file",
                         "a glob with matches in \"" + folder_of(absolute) + "\"");
      }
      resolved.insert(resolved.end(), matches.begin(), matches.end());
    }
    for (const std::string& file : resolved) check_text(path, file);
    paths = std::move(resolved);
  }

  // A path that JSON cannot hold would come out of job.json as another one.
  void check_text(const std::string& path, const std::string& file) {
    if (is_utf8(file)) return;
    findings_.report(path, "the path " + quoted_value(Json(file)) + " is not UTF-8", "one that is");
  }

  static std::string folder_of(const std::string& path) {
    return std::filesystem::path(path).parent_path().string();
  }

  // What the weights to start from say of the model, where the job leaves it open; and an error
  // where the two disagree.
  void take_shape_of_weights() {
    const std::string& path = draft_.job.model.weights;
    if (path.empty() || !text_.expand_globs || !findings_.sound({"model.weights"})) return;
    const auto weights = read_weights_model(path);
    if (!weights) {
      findings_.report("model.weights", weights.error().to_text(),
                       "a Hugging Face folder, a checkpoint or a run");
      return;
    }
    for (const auto& [key, value] : weights->model.members()) {
      take_from_weights(joined_path("model", key), value, weights->file);
    }
  }

  void take_from_weights(const std::string& path, const Json& value, const std::string& file) {
    if (value.is_object()) {
      for (const auto& [key, inner] : value.members()) {
        take_from_weights(joined_path(path, key), inner, file);
      }
      return;
    }
    const JobField* field = find_field(path);
    JobDraft theirs = draft_;
    if (field == nullptr || read_value(*field, value, theirs)) {
      findings_.report(
          "model.weights",
          fmt::format("{} of \"{}\" cannot be {} here", path, file, quoted_value(value)),
          "other weights");
      return;
    }
    if (!findings_.is_given(path)) {
      draft_ = std::move(theirs);
      findings_.locate(path, {file, value.line()});
      return;
    }
    if (!findings_.sound({path})) return;
    const auto ours = written_value(*field, draft_);
    if (ours == written_value(*field, theirs)) return;
    findings_.report(path,
                     fmt::format("{} contradicts the {} of \"{}\"", quoted_value(*ours),
                                 quoted_value(value), file),
                     quoted_value(value) + ", or to leave it out");
  }

  void report_missing() {
    for (const JobField& field : job_fields()) {
      const std::string path(field.path);
      if (!field.applies_to(draft_.job)) continue;
      if (field.default_text != kRequired || findings_.is_given(path)) continue;
      if (!findings_.sound({path})) continue;  // The object around it is no object.
      findings_.report(path, "missing", expected_text(field));
    }
  }

  const JobText& text_;
  JobDraft draft_;
  JobFindings findings_;
};

}  // namespace
}  // namespace internal

Result<Override> parse_override(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos) {
    return fail(Code::kInvalid, "--set " + std::string(text) + ": expected PATH=VALUE");
  }
  if (!is_utf8(text)) {
    return fail(Code::kInvalid, "--set " + write_json(Json(text)) + ": expected UTF-8");
  }
  return Override{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

Result<JobSpec> parse_job(const JobText& text) { return internal::JobReader(text).read(); }

Result<JobSpec> read_job(const std::string& path, std::vector<Override> overrides) {
  QD_ASSIGN_OR_RETURN(std::string text, read_text_file(path));
  return parse_job({.file = path, .text = std::move(text), .overrides = std::move(overrides)});
}

}  // namespace quadrille
