// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launch/mpi_leftovers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <utime.h>

#include "launch/control_protocol.h"
#include "launch/scratch_folder.h"
#include "quadrille/base/file.h"

namespace quadrille::internal {
namespace {

TEST(MpiLeftovers, OnlyOldUnmappedSegmentsOfThisHostGo) {
  const test::ScratchFolder scratch;
  const auto make = [&scratch](const std::string& name, bool old) {
    const std::string path = scratch.path() + "/" + name;
    EXPECT_TRUE(write_file_atomically(path, "segment").has_value());
    const utimbuf long_ago{1'000'000'000, 1'000'000'000};
    EXPECT_EQ(old ? ::utime(path.c_str(), &long_ago) : 0, 0);
    return path;
  };
  const std::string start = "vader_segment." + host_name() + ".0.";
  const std::string dead = make(start + "1.0", true);
  const std::string young = make(start + "2.0", false);
  const std::string mapped = make(start + "3.0", true);
  const std::string elsewhere = make("vader_segment.another-host.0.1.0", true);
  const std::string other = make("something", true);
  const auto holder = MappedFile::open(mapped);
  ASSERT_TRUE(holder.has_value());
  EXPECT_THAT(remove_mpi_leftovers(scratch.path()), ::testing::ElementsAre(dead));
  EXPECT_FALSE(path_exists(dead));
  for (const std::string& path : {young, mapped, elsewhere, other}) EXPECT_TRUE(path_exists(path));
}

}  // namespace
}  // namespace quadrille::internal
