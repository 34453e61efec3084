// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/config/device_library.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "quadrille/base/json.h"

namespace quadrille {
namespace {

// Facts that were copied from data sheets independently of the library's table, with their sources.
Json facts() {
  const auto file =
      read_json_file(std::string(QUADRILLE_SOURCE_DIR) + "/tests/config/data/device_facts.json");
  EXPECT_TRUE(file.has_value()) << (file ? "" : file.error().to_text());
  return file.value_or(Json::array());
}

bool recalls(const DeviceSpec& device, std::string_view field) {
  return std::find(device.recalled.begin(), device.recalled.end(), field) != device.recalled.end();
}

TEST(DeviceLibrary, AgreesWithThePublishedFacts) {
  const Json known_facts = facts();
  ASSERT_GE(known_facts.elements().size(), 17U);
  for (const Json& fact : known_facts.elements()) {
    const DeviceSpec* device = find_known_device(fact.string_or("name", ""));
    ASSERT_NE(device, nullptr) << write_json(fact);
    SCOPED_TRACE(device->name);
    if (const Json* memory = fact.find("memory_gb"); memory->is_number()) {
      EXPECT_EQ(device->memory.count(), memory->as_integer() << 30);
      EXPECT_DOUBLE_EQ(device->memory_bandwidth, fact.number_or("memory_gb_per_s", 0) * 1e9);
    } else {
      EXPECT_TRUE(recalls(*device, "memory"));
    }
    for (const auto& [format, tera] : fact.find("peak_tflops")->members()) {
      const auto known = kNumberFormatText.value(format);
      ASSERT_TRUE(known.has_value()) << format;
      EXPECT_DOUBLE_EQ(device->peak_of(*known), tera.as_number() * 1e12) << format;
    }
  }
}

TEST(DeviceLibrary, MarksWhatTheFactsRecalled) {
  const Json known_facts = facts();
  for (const Json& fact : known_facts.elements()) {
    const DeviceSpec* device = find_known_device(fact.string_or("name", ""));
    ASSERT_NE(device, nullptr);
    if (fact.find("recalled")->elements().empty()) continue;
    EXPECT_FALSE(device->recalled.empty()) << device->name;
  }
}

TEST(DeviceLibrary, NamesASourceForEveryEntry) {
  for (const DeviceSpec& device : device_library())
    EXPECT_FALSE(device.source.empty()) << device.name;
  for (const HostSpec& host : host_library()) EXPECT_FALSE(host.source.empty()) << host.name;
  for (const LinkLevel& level : link_library()) EXPECT_FALSE(level.source.empty()) << level.name;
}

TEST(DeviceLibrary, ReadsTheSpellingsOfPublishedTables) {
  const auto name_of = [](std::string_view text) {
    const DeviceSpec* device = find_known_device(text);
    return device == nullptr ? std::string("unknown") : device->name;
  };
  EXPECT_EQ(name_of("A100-40GB"), "A100-SXM4-40GB");
  EXPECT_EQ(name_of("A100 (SXM; memory size not in file)"), "A100-SXM4-80GB");
  EXPECT_EQ(name_of("H100-96GB HBM2e (500 W, 2.4 TB/s)"), "H100-SXM-96GB-500W");
  EXPECT_EQ(name_of("GB200"), "GB200");
  EXPECT_EQ(name_of("B200"), "B200-SXM");
  EXPECT_EQ(name_of("abacus"), "unknown");
}

TEST(DeviceLibrary, MakesSoundClustersOfEveryHost) {
  for (const HostSpec& host : host_library()) {
    const auto cluster = known_cluster({.device = host.device, .count = 16 * host.devices});
    ASSERT_TRUE(cluster.has_value()) << host.name;
    EXPECT_THAT(check_cluster(*cluster), ::testing::IsEmpty()) << host.name;
  }
}

TEST(DeviceLibrary, JoinsARackOfSeventyTwoByItsInnerLinks) {
  const auto cluster = known_cluster({.device = "GB200", .count = 144});
  ASSERT_TRUE(cluster.has_value());
  EXPECT_EQ(cluster->nodes.at(0).devices_per_node, 4);
  EXPECT_EQ(cluster->links.at(0).spans, 72);
}

TEST(DeviceLibrary, RefusesWhatItDoesNotKnow) {
  EXPECT_FALSE(known_cluster({.device = "abacus", .count = 8}).has_value());
  EXPECT_FALSE(known_cluster({.device = "H200", .count = 8, .fabric = "string"}).has_value());
  EXPECT_FALSE(known_cluster({.device = "H200", .count = 9}).has_value());
  EXPECT_FALSE(known_cluster({.device = "H200", .count = 0}).has_value());
}

}  // namespace
}  // namespace quadrille
