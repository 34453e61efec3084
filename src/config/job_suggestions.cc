// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "config/job_suggestions.h"

#include <algorithm>

#include "quadrille/base/text.h"

namespace quadrille::internal {
namespace {

constexpr int kFar = 1'000'000;

// Near enough to be meant: at most a third of the longer word differs, one letter always may.
int near_distance(std::string_view word, std::string_view candidate) {
  const int longer = static_cast<int>(std::max(word.size(), candidate.size()));
  const int most = std::max(1, longer / 3);
  const int gap = static_cast<int>(word.size()) - static_cast<int>(candidate.size());
  if (std::abs(gap) > most) return kFar;  // Also spares the table for hostile, endless keys.
  const int distance = edit_distance(word, candidate);
  return distance <= most ? distance : kFar;
}

// The nearest words so far, every one at the same distance.
struct Nearest {
  int distance = kFar;
  std::vector<std::string> words;

  void offer(int candidate_distance, std::string word) {
    if (candidate_distance >= kFar || candidate_distance > distance) return;
    if (candidate_distance < distance) words.clear();
    distance = candidate_distance;
    words.push_back(std::move(word));
  }
};

std::string alternatives(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += '"' + words[i] + '"';
  }
  return text;
}

Nearest nearest_elsewhere(std::string_view object, std::string_view key) {
  Nearest nearest;
  for (const JobObject& other : job_objects()) {
    if (other.path == object) continue;
    for (const std::string_view candidate : other.keys) {
      const std::string path = joined_path(other.path, candidate);
      nearest.offer(std::min(near_distance(key, candidate), near_distance(key, path)), path);
    }
  }
  return nearest;
}

}  // namespace

Problem describe_unknown_key(std::string_view object, std::string_view key) {
  const std::string written = quoted_value(Json(key));
  for (const std::string_view later : later_paths()) {
    if (later == joined_path(object, key)) {
      return {"the key " + written + " is not available in this version", "a job without it"};
    }
  }
  const JobObject* known = find_object(object);
  if (known == nullptr) return {"unknown key " + written, ""};
  if (const std::size_t dot = key.rfind('.'); object.empty() && find_field(key) != nullptr) {
    return {"unknown key " + written, "the key \"" + std::string(key.substr(dot + 1)) +
                                          "\" in the object \"" + std::string(key.substr(0, dot)) +
                                          "\""};
  }
  Nearest here;
  for (const std::string_view candidate : known->keys) {
    here.offer(near_distance(key, candidate), std::string(candidate));
  }
  std::vector<std::string> suggestions = here.words;
  const Nearest elsewhere = nearest_elsewhere(object, key);
  if (elsewhere.distance < here.distance) {
    suggestions.insert(suggestions.end(), elsewhere.words.begin(), elsewhere.words.end());
  }
  if (suggestions.empty()) {
    for (const std::string_view candidate : known->keys) suggestions.emplace_back(candidate);
  }
  return {"unknown key " + written, alternatives(suggestions)};
}

}  // namespace quadrille::internal
