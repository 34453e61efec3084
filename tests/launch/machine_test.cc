// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/launch/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

namespace quadrille {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string cpuinfo(const char* vendor, int family, int model, const char* flags) {
  return std::string("processor\t: 0\nvendor_id\t: ") + vendor +
         "\ncpu family\t: " + std::to_string(family) + "\nmodel\t\t: " + std::to_string(model) +
         "\nmodel name\t: Some 1234\nflags\t\t: fpu " + flags + " lm\n";
}

const CoreClock kTwoGigahertz{2e9, "a test"};

TEST(CorePeak, IsUnitsTimesLanesTimesTwoTimesTheClock) {
  // Two units of 8 lanes, multiply and add: 32 a cycle.
  const CorePeak zen4 =
      core_peak(cpuinfo("AuthenticAMD", 25, 17, "avx2 fma avx512f"), kTwoGigahertz);
  ASSERT_TRUE(zen4.flops_per_second.has_value()) << zen4.source;
  EXPECT_DOUBLE_EQ(*zen4.flops_per_second, 2 * 8 * 2 * 2e9);
  EXPECT_THAT(zen4.source, HasSubstr("a test"));
  // Two units of 16 lanes.
  const CorePeak sapphire =
      core_peak(cpuinfo("GenuineIntel", 6, 0x8f, "fma avx512f"), kTwoGigahertz);
  ASSERT_TRUE(sapphire.flops_per_second.has_value());
  EXPECT_DOUBLE_EQ(*sapphire.flops_per_second, 2 * 16 * 2 * 2e9);
}

TEST(CorePeak, IsUnknownRatherThanGuessed) {
  const CorePeak cases[] = {
      core_peak(cpuinfo("AuthenticAMD", 99, 1, "fma"), kTwoGigahertz),
      core_peak(cpuinfo("GenuineIntel", 25, 17, "fma"), kTwoGigahertz),
      core_peak(cpuinfo("AuthenticAMD", 25, 17, "avx2"), kTwoGigahertz),
      core_peak(cpuinfo("GenuineIntel", 6, 0x8f, "fma"), kTwoGigahertz),
      core_peak(cpuinfo("AuthenticAMD", 25, 17, "fma"), std::nullopt),
      core_peak("", kTwoGigahertz),
      core_peak("flags :", kTwoGigahertz),
  };
  for (const CorePeak& peak : cases) {
    EXPECT_FALSE(peak.flops_per_second.has_value()) << peak.source;
    EXPECT_THAT(peak.source, StartsWith("unknown"));
  }
}

TEST(MachineFacts, GrowWithTheCoresAndKeepTheirFingerprint) {
  const HostFacts one{.cores = 1, .memory = 8_GiB, .processor = "P", .run_directory = "/tmp/a/b/c"};
  HostFacts four = one;
  four.cores = 4;
  const MachineFacts small = read_machine_facts(one);
  const MachineFacts large = read_machine_facts(four);
  EXPECT_EQ(small.memory, 8_GiB);
  EXPECT_GT(small.disk_free, Bytes(0)) << "asked of the nearest parent that exists";
  EXPECT_NE(small.fingerprint, large.fingerprint);
  EXPECT_EQ(small.fingerprint, read_machine_facts(one).fingerprint);
  EXPECT_EQ(small.peak_flops_per_second.has_value(), large.peak_flops_per_second.has_value());
  EXPECT_FALSE(small.peak_source.empty());
}

}  // namespace
}  // namespace quadrille
