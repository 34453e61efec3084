// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/config/cluster_reader.h"

#include <gmock/gmock.h>

#include <limits>

#include "quadrille/config/device_library.h"

namespace quadrille {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kTwoBoxes = R"({
  "version": 1, "name": "two boxes",  // comments are allowed
  "devices": [{"name": "tuned", "like": "H100-SXM5-80GB", "efficiency": {"matmul": 0.65}}],
  "nodes": [{"device": "tuned", "count": 2, "devices_per_node": 8, "host_memory_gib": 1024}],
  "links": [{"name": "nvlink4", "spans": 8},
            {"name": "roce", "spans": 0, "gb_per_s": 25, "latency_us": 10}]
})";

std::vector<std::string> findings(std::string_view text) {
  const auto cluster = parse_cluster(text, "c.json");
  std::vector<std::string> lines;
  if (cluster) return lines;
  EXPECT_EQ(cluster.error().code, Code::kInvalid);
  for (const Diagnostic& diagnostic : cluster.error().diagnostics) {
    lines.push_back(diagnostic.to_text());
  }
  return lines;
}

/// kTwoBoxes with one piece of its text replaced.
std::string with(std::string_view piece, std::string_view by) {
  std::string text(kTwoBoxes);
  const std::size_t at = text.find(piece);
  EXPECT_NE(at, std::string::npos) << piece;
  return text.replace(at, piece.size(), by);
}

TEST(ClusterReader, TakesFromTheLibraryWhatTheFileDoesNotSay) {
  const auto cluster = parse_cluster(kTwoBoxes, "c.json");
  ASSERT_TRUE(cluster.has_value()) << cluster.error().to_text();
  EXPECT_EQ(cluster->device_count(), 16);
  const DeviceSpec* known = find_known_device("H100-SXM5-80GB");
  ASSERT_NE(known, nullptr);
  const DeviceSpec& tuned = cluster->devices.at(0);
  EXPECT_EQ(tuned.name, "tuned");
  EXPECT_EQ(tuned.peak, known->peak);
  EXPECT_DOUBLE_EQ(tuned.efficiency.matmul, 0.65);
  EXPECT_DOUBLE_EQ(tuned.efficiency.attention, known->efficiency.attention);
  EXPECT_DOUBLE_EQ(cluster->links.at(0).bandwidth, find_known_link("nvlink4")->bandwidth);
  EXPECT_DOUBLE_EQ(cluster->links.at(1).bandwidth, 25e9);
  EXPECT_DOUBLE_EQ(cluster->links.at(1).latency.count(), 10e-6);
  EXPECT_DOUBLE_EQ(cluster->links.at(1).efficiency, find_known_link("roce")->efficiency);
  EXPECT_EQ(cluster->nodes.at(0).host_memory, Bytes(std::int64_t{1} << 40));
}

TEST(ClusterReader, WritesWhatReadsBackEqual) {
  for (const HostSpec& host : host_library()) {
    const auto made = known_cluster({.device = host.device, .count = 4 * host.devices});
    ASSERT_TRUE(made.has_value()) << host.device << ": " << made.error().message;
    const Json written = to_json(*made);
    const auto again = parse_cluster(write_json(written, 2), "again.json");
    ASSERT_TRUE(again.has_value()) << again.error().to_text();
    EXPECT_TRUE(to_json(*again) == written) << host.name;
    EXPECT_EQ(again->device_count(), 4 * host.devices);
  }
}

TEST(ClusterReader, ReportsEverythingThatIsWrongAtItsLine) {
  const auto lines = findings(R"({
    "version": 2,
    "nodes": [{"device": "no such thing", "count": 0, "devices_per_node": "8"}],
    "links": [{"name": "own", "spans": 8, "gb_per_s": 0},
              {"name": "other", "spans": 12, "gb_per_s": -1, "latencyus": 3}]
  })");
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("c.json:2"), HasSubstr("version"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("c.json:3"), HasSubstr("no such thing"))));
  EXPECT_THAT(lines, Contains(HasSubstr("nodes[0].count: 0")));
  EXPECT_THAT(lines, Contains(HasSubstr("nodes[0].devices_per_node: a string")));
  EXPECT_THAT(lines, Contains(HasSubstr("links[0].gb_per_s: 0 or missing")));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("c.json:5"), HasSubstr("links[1].gb_per_s: -1"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("latencyus"), HasSubstr("\"latency_us\""))));
  EXPECT_THAT(lines,
              Contains(AllOf(HasSubstr("links[1].spans: 12"), HasSubstr("multiple of the 8"))));
}

TEST(ClusterReader, RefusesANetworkWithoutABandwidth) {
  EXPECT_THAT(findings(with("\"gb_per_s\": 25, ", "")),
              Contains(HasSubstr("links[1].gb_per_s: 0 or missing")));
}

TEST(ClusterReader, FindsDevicesThatNoPathJoins) {
  EXPECT_THAT(findings(with("\"spans\": 0", "\"spans\": 8")),
              Contains(AllOf(HasSubstr("no path between the first 8 devices and the other 8"),
                             HasSubstr("spans all 16"))));
  EXPECT_THAT(findings(R"({"version": 1, "nodes": [{"device": "L40S", "count": 2,
                           "devices_per_node": 1}], "links": []})"),
              Contains(HasSubstr("no path")));
}

TEST(ClusterReader, NeedsNoLinkForOneDevice) {
  EXPECT_THAT(findings(R"({"version": 1, "nodes": [{"device": "L40S", "count": 1,
                           "devices_per_node": 1}], "links": []})"),
              ::testing::IsEmpty());
}

TEST(ClusterReader, TakesAMillionDevicesAndRefusesTenTrillion) {
  EXPECT_THAT(findings(with("\"count\": 2", "\"count\": 125000")), ::testing::IsEmpty());
  EXPECT_THAT(findings(with("\"count\": 2", "\"count\": 9223372036854775807")),
              Contains(HasSubstr("at most 10000000")));
}

TEST(ClusterReader, SaysWhichListIsMissing) {
  const auto lines = findings(R"({"version": 1, "name": "x"})");
  EXPECT_THAT(lines, Contains(HasSubstr("nodes: missing")));
  EXPECT_THAT(lines, Contains(HasSubstr("links: missing")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("devices: missing"))));
}

TEST(ClusterReader, DescribesADeviceOnce) {
  EXPECT_THAT(findings(with("\"devices\": [",
                            "\"devices\": [{\"name\": \"tuned\", \"like\": "
                            "\"L40S\"}, ")),
              Contains(HasSubstr("described twice")));
}

TEST(ClusterChecks, RefusesWhatIsNoNumber) {
  auto cluster = known_cluster({.device = "A100-80GB", .count = 16}).value();
  EXPECT_THAT(check_cluster(cluster), ::testing::IsEmpty());
  cluster.links[0].bandwidth = std::numeric_limits<double>::quiet_NaN();
  cluster.links[1].efficiency = std::numeric_limits<double>::infinity();
  cluster.devices[0].memory_bandwidth = -1;
  EXPECT_EQ(check_cluster(cluster).size(), 3U);
}

}  // namespace
}  // namespace quadrille
