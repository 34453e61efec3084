// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// The reader of clusters on any bytes. Whatever comes: no crash; a refusal that says where and why;
// a cluster that is accepted is sound and reads back equal.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quadrille/base/check.h"
#include "quadrille/config/cluster_reader.h"

namespace quadrille {
namespace {

void read_any_cluster(std::string_view text) {
  const auto cluster = parse_cluster(text, "c.json");
  if (!cluster) {
    QD_CHECK(cluster.error().code == Code::kInvalid);
    QD_CHECK(!cluster.error().diagnostics.empty());
    for (const Diagnostic& diagnostic : cluster.error().diagnostics) {
      QD_CHECK(diagnostic.file == "c.json");
      QD_CHECK(!diagnostic.wrong.empty());
    }
    return;
  }
  QD_CHECK(check_cluster(*cluster).empty());
  QD_CHECK(cluster->device_count() >= 1);
  QD_CHECK(cluster->device_count() <= kDevicesMost);
  const Json written = to_json(*cluster);
  const auto again = parse_cluster(write_json(written), "again.json");
  QD_CHECK_MSG(again.has_value(), again.error().to_text());
  QD_CHECK(to_json(*again) == written);
}

}  // namespace
}  // namespace quadrille

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quadrille::read_any_cluster({reinterpret_cast<const char*>(data), size});
  return 0;
}
