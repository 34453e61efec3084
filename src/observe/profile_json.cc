// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// A profile as JSON and back.

#include "quadrille/observe/profile.h"

namespace quadrille {
namespace {

Json to_json(const OperationProfile& operation) {
  Json extents = Json::array();
  for (const std::int64_t extent : operation.extents) {
    if (extent != 0) extents.push(extent);
  }
  return Json::object()
      .set("operation", operation.key())
      .set("name", operation.name)
      .set("extents", std::move(extents))
      .set("variant", operation.variant)
      .set("calls", operation.calls)
      .set("seconds", operation.seconds.count())
      .set("flops", operation.flops.count())
      .set("bytes", operation.bytes);
}

Result<OperationProfile> operation_from(const Json& json) {
  OperationProfile operation;
  operation.name = json.string_or("name", "");
  if (operation.name.empty()) return fail(Code::kCorrupt, "an operation of a profile has no name");
  operation.variant = json.string_or("variant", "");
  if (const Json* extents = json.find("extents"); extents != nullptr && extents->is_array()) {
    const std::vector<Json>& all = extents->elements();
    for (std::size_t i = 0; i < all.size() && i < operation.extents.size(); ++i) {
      if (all[i].is_integer()) operation.extents[i] = all[i].as_integer();
    }
  }
  operation.calls = json.integer_or("calls", 0);
  operation.seconds = Seconds(json.number_or("seconds", 0));
  operation.flops = Flops(json.number_or("flops", 0));
  operation.bytes = json.number_or("bytes", 0);
  return operation;
}

}  // namespace

Json to_json(const StepsProfile& profile) {
  Json operations = Json::array();
  for (const OperationProfile& operation : profile.operations) {
    operations.push(to_json(operation));
  }
  return Json::object()
      .set("steps", profile.steps)
      .set("ranks", profile.ranks)
      .set("threads", profile.threads)
      .set("seconds", profile.seconds.count())
      .set("page_faults", profile.page_faults)
      .set("leases", profile.leases)
      .set("operations", std::move(operations));
}

Result<StepsProfile> steps_profile_from(const Json& json) {
  const Json* steps = json.find("steps");
  const Json* operations = json.find("operations");
  if (steps == nullptr || !steps->is_integer()) {
    return fail(Code::kCorrupt, "a profile has no steps");
  }
  if (operations == nullptr || !operations->is_array()) {
    return fail(Code::kCorrupt, "a profile has no operations");
  }
  StepsProfile profile;
  profile.steps = steps->as_integer();
  profile.ranks = static_cast<int>(json.integer_or("ranks", 1));
  profile.threads = static_cast<int>(json.integer_or("threads", 0));
  profile.seconds = Seconds(json.number_or("seconds", 0));
  profile.page_faults = json.number_or("page_faults", 0);
  profile.leases = json.number_or("leases", 0);
  for (const Json& row : operations->elements()) {
    QD_ASSIGN_OR_RETURN(OperationProfile operation, operation_from(row));
    profile.operations.push_back(std::move(operation));
  }
  return profile;
}

}  // namespace quadrille
