// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "device/cgroup_limits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace quadrille::internal {
namespace {

/// A control group tree as the kernel would show it, in a folder of the test's own.
class CgroupLimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void put(const std::string& name, const std::string& content) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << content << "\n";
  }
  [[nodiscard]] CgroupLimits read() const {
    return read_cgroup_limits({(folder_ / "self").string(), (folder_ / "root").string()});
  }
  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / "quadrille_cgroup_test";
};

TEST_F(CgroupLimitsTest, NoGroupsAreNoLimits) {
  const CgroupLimits limits = read();
  EXPECT_FALSE(limits.processors.has_value());
  EXPECT_FALSE(limits.memory.has_value());
}

TEST_F(CgroupLimitsTest, VersionTwoTakesTheTightestAncestor) {
  put("self", "0::/outer/inner");
  put("root/outer/cpu.max", "150000 100000");
  put("root/outer/inner/cpu.max", "max 100000");
  put("root/outer/memory.max", "1073741824");
  put("root/outer/inner/memory.max", "536870912");
  const CgroupLimits limits = read();
  EXPECT_DOUBLE_EQ(limits.processors.value(), 1.5);
  EXPECT_EQ(limits.memory.value(), 512_MiB);
}

TEST_F(CgroupLimitsTest, AContainersOwnRootCounts) {
  put("self", "0::/");
  put("root/cpu.max", "300000 100000");
  put("root/memory.max", "max");
  const CgroupLimits limits = read();
  EXPECT_DOUBLE_EQ(limits.processors.value(), 3.0);
  EXPECT_FALSE(limits.memory.has_value());
}

TEST_F(CgroupLimitsTest, VersionOneReadsEachHierarchy) {
  put("self", "4:memory:/job\n3:cpu,cpuacct:/job\n2:cpuset:/");
  put("root/cpu/job/cpu.cfs_quota_us", "200000");
  put("root/cpu/job/cpu.cfs_period_us", "100000");
  put("root/memory/job/memory.limit_in_bytes", "4294967296");
  put("root/memory/memory.limit_in_bytes", "9223372036854771712");
  const CgroupLimits limits = read();
  EXPECT_DOUBLE_EQ(limits.processors.value(), 2.0);
  EXPECT_EQ(limits.memory.value(), 4_GiB);
}

TEST_F(CgroupLimitsTest, VersionOneWithoutLimitsHasNone) {
  put("self", "4:memory:/\n3:cpu:/");
  put("root/cpu/cpu.cfs_quota_us", "-1");
  put("root/cpu/cpu.cfs_period_us", "100000");
  put("root/memory/memory.limit_in_bytes", "9223372036854771712");
  const CgroupLimits limits = read();
  EXPECT_FALSE(limits.processors.has_value());
  EXPECT_FALSE(limits.memory.has_value());
}

TEST_F(CgroupLimitsTest, GarbageIsNoLimit) {
  put("self", "nonsense\n0::/a");
  put("root/a/cpu.max", "soon 100000");
  put("root/a/memory.max", "12many");
  const CgroupLimits limits = read();
  EXPECT_FALSE(limits.processors.has_value());
  EXPECT_FALSE(limits.memory.has_value());
}

}  // namespace
}  // namespace quadrille::internal
