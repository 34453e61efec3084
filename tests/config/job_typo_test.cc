// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "config/job_fields.h"
#include "quadrille/base/text.h"
#include "quadrille/config/job_reader.h"

namespace quadrille {
namespace {

// Every word that one slip of a finger makes of `key`.
std::set<std::string> one_letter_typos(const std::string& key) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyz_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ -\"";
  std::set<std::string> typos;
  for (std::size_t i = 0; i <= key.size(); ++i) {
    for (const char letter : kLetters) {
      typos.insert(key.substr(0, i) + letter + key.substr(i));
      if (i < key.size()) typos.insert(key.substr(0, i) + letter + key.substr(i + 1));
    }
    if (i < key.size()) typos.insert(key.substr(0, i) + key.substr(i + 1));
    if (i + 1 < key.size()) {
      std::string swapped = key;
      std::swap(swapped[i], swapped[i + 1]);
      typos.insert(swapped);
    }
  }
  typos.erase(key);
  return typos;
}

// Goal: a slip in any key of any object is refused, alone, with the right key among the
// suggestions. Method: the smallest job plus the misspelt key, for every key of every object of the
// table. The slips of one key go into one job together: each must be named.
TEST(JobTypos, EverySlipInEveryKeyIsRefusedWithTheRightKey) {
  std::size_t slips = 0;
  for (const internal::JobObject& object : internal::job_objects()) {
    for (const std::string_view key : object.keys) {
      Json job = parse_json(R"({"model": {"layers": 1, "hidden": 4, "heads": 1, "context": 8},
                                "data": {"train": "t"}, "training": {"steps": 1}})",
                            {})
                     .value();
      Json* place = &job;
      if (!object.path.empty()) {
        for (const std::string& part : split(object.path, '.')) place = &place->at_or_insert(part);
      }
      std::set<std::string> typos = one_letter_typos(std::string(key));
      for (const std::string_view other : object.keys) typos.erase(std::string(other));
      for (const std::string& typo : typos) place->set(typo, Json(1));
      const auto spec = parse_job({.file = "f", .text = write_json(job)});
      ASSERT_FALSE(spec.has_value());
      for (const Diagnostic& diagnostic : spec.error().diagnostics) {
        const std::size_t start = object.path.empty() ? 0 : object.path.size() + 1;
        ASSERT_EQ(typos.erase(diagnostic.path.substr(start)), 1U) << diagnostic.to_text();
        ASSERT_NE(diagnostic.right.find('"' + std::string(key) + '"'), std::string::npos)
            << diagnostic.to_text();
        ++slips;
      }
      ASSERT_TRUE(typos.empty()) << *typos.begin();
    }
  }
  EXPECT_GT(slips, internal::job_fields().size() * 500);
}

}  // namespace
}  // namespace quadrille
