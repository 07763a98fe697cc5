#include "core/system.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/parallel.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const char* text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

TEST(Processors, AreThoseThatTheSmallestGroupPaysFor) {
  const test::TempFolder folder;
  const fs::path groups = folder.path() / "cgroup", mount = folder.path() / "fs";
  write(groups, "0::/pod/container\n");
  EXPECT_EQ(processors_of_groups(groups, mount), 0) << "no file says anything";
  write(mount / "pod/container/cpu.max", "max 100000\n");
  EXPECT_EQ(processors_of_groups(groups, mount), 0) << "no limit";
  write(mount / "pod/container/cpu.max", "300000 100000\n");
  EXPECT_EQ(processors_of_groups(groups, mount), 3);
  write(mount / "pod/cpu.max", "150000 100000\n");
  EXPECT_EQ(processors_of_groups(groups, mount), 2) << "1.5 of a group above, rounded up";
  write(mount / "cpu.max", "50000 100000\n");
  EXPECT_EQ(processors_of_groups(groups, mount), 1);
}

TEST(Processors, AreFoundInGroupsOfTheOlderKind) {
  const test::TempFolder folder;
  const fs::path groups = folder.path() / "cgroup", mount = folder.path() / "fs";
  write(groups, "7:memory:/a\n4:cpu,cpuacct:/docker/x\n1:cpuset:/\n");
  write(mount / "cpu,cpuacct/docker/x/cpu.cfs_quota_us", "-1\n");
  write(mount / "cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processors_of_groups(groups, mount), 0);
  write(mount / "cpu,cpuacct/docker/x/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(processors_of_groups(groups, mount), 4);
}

// In a container the path is the host's, and what is mounted is the container's own group.
TEST(Processors, AreThoseOfTheMountWhereThePathIsNotThere) {
  const test::TempFolder folder;
  const fs::path groups = folder.path() / "cgroup", mount = folder.path() / "fs";
  write(groups, "0::/system.slice/docker-1.scope\n");
  write(mount / "cpu.max", "200000 100000\n");
  EXPECT_EQ(processors_of_groups(groups, mount), 2);
}

TEST(Processors, OfFilesThatMakeNoSenseAreAsManyAsThereAre) {
  const test::TempFolder folder;
  const fs::path groups = folder.path() / "cgroup", mount = folder.path() / "fs";
  for (const char* text : {"", "nonsense", "0:", "0::", "::", "0::/../../x", "x:cpu:"}) {
    write(groups, text);
    for (const char* max :
         {"", "0 0", "-5 100000", "100000", "99999999999999999999 1", "1 99999999999999999999"}) {
      write(mount / "cpu.max", max);
      EXPECT_EQ(processors_of_groups(groups, mount), 0) << text << " / " << max;
    }
  }
  EXPECT_EQ(processors_of_groups(folder.path() / "nothing", mount), 0);
  EXPECT_GE(available_threads(), 1);
}

TEST(Caches, HaveASizeThatBlocksCanBeMadeFor) {
  EXPECT_GE(l2_cache_bytes(), size_t{64} << 10);
  EXPECT_LE(l2_cache_bytes(), size_t{2} << 20);
}

}  // namespace
}  // namespace bertie
