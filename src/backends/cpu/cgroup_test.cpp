#include "backends/cpu/cgroup.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace tilemesh::cpu {
namespace {

/// A made-up system in a folder of the test's own.
class CgroupTest : public testing::Test {
 protected:
  CgroupTest()
      : root_(std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(root_);
  }
  ~CgroupTest() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    const auto path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  CgroupPaths paths() const { return {(root_ / "mount").string(), (root_ / "self").string()}; }

  std::filesystem::path root_;
};

TEST_F(CgroupTest, NoFilesMeanNoLimit) {
  EXPECT_EQ(cgroup_cores(paths()), std::nullopt);
  EXPECT_EQ(cgroup_memory_bytes(paths()), std::nullopt);
}

TEST_F(CgroupTest, VersionTwoOfTheOwnGroup) {
  write("self", "0::/app/worker");
  write("mount/app/worker/cpu.max", "150000 100000");
  write("mount/app/worker/memory.max", "1048576");
  EXPECT_EQ(cgroup_cores(paths()), 2);
  EXPECT_EQ(cgroup_memory_bytes(paths()), 1048576);
}

TEST_F(CgroupTest, TheTightestLimitOnTheWayUpCounts) {
  write("self", "0::/app/worker");
  write("mount/app/worker/cpu.max", "max 100000");
  write("mount/app/cpu.max", "300000 100000");
  write("mount/cpu.max", "400000 100000");
  write("mount/app/worker/memory.max", "max");
  write("mount/app/memory.max", "4096");
  EXPECT_EQ(cgroup_cores(paths()), 3);
  EXPECT_EQ(cgroup_memory_bytes(paths()), 4096);
}

TEST_F(CgroupTest, VersionOneByController) {
  write("self", "5:cpu,cpuacct:/app\n4:memory:/app\n1:name=systemd:/other");
  write("mount/cpu/app/cpu.cfs_quota_us", "50000");
  write("mount/cpu/app/cpu.cfs_period_us", "100000");
  write("mount/memory/app/memory.limit_in_bytes", "8192");
  EXPECT_EQ(cgroup_cores(paths()), 1);
  EXPECT_EQ(cgroup_memory_bytes(paths()), 8192);
}

TEST_F(CgroupTest, NoLimitAndNonsenseOfVersionOne) {
  write("self", "5:cpu,cpuacct:/app\n4:memory:/app\nnonsense");
  write("mount/cpu/app/cpu.cfs_quota_us", "-1");
  write("mount/cpu/app/cpu.cfs_period_us", "100000");
  write("mount/cpu/cpu.cfs_quota_us", "100000");
  write("mount/cpu/cpu.cfs_period_us", "0");
  write("mount/memory/app/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(cgroup_cores(paths()), std::nullopt);
  EXPECT_EQ(cgroup_memory_bytes(paths()), std::nullopt);
}

TEST_F(CgroupTest, AContainerWhoseGroupIsNotMounted) {
  write("self", "0::/host/path/of/the/container");
  write("mount/cpu.max", "200000 100000");
  EXPECT_EQ(cgroup_cores(paths()), 2);
}

}  // namespace
}  // namespace tilemesh::cpu
