#include "test_data.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include "tilemesh/base/error.hpp"

#include "npy.hpp"

namespace tilemesh::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Sets : public ::testing::Test {
 protected:
  Sets() : folder_(fs::temp_directory_path() / ("tilemesh_sets_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~Sets() override { fs::remove_all(folder_); }

  fs::path path(const std::string& name) const { return folder_ / name; }
  void save(const std::string& name) const {
    fs::create_directories(path(name).parent_path());
    write_npy(path(name), {DType::u8, Shape{1}, {std::byte{1}}});
  }
  void touch(const std::string& name) const { std::ofstream(path(name)) << ""; }
  std::string error_of(const std::function<void()>& body) const {
    try {
      body();
    } catch (const Error& error) {
      return std::string(to_string(error.code())) + ": " + error.what();
    }
    return "none";
  }

 private:
  fs::path folder_;
};

TEST_F(Sets, AreFoundWhereverTheyAre) {
  save("whole/x.npy");
  fs::create_directories(path("many/test_data_set_10"));
  fs::create_directories(path("many/test_data_set_2"));
  fs::create_directories(path("archives"));
  touch("archives/b.npz");
  touch("archives/a.npz");
  touch("one.npz");
  EXPECT_THAT(find_data_sets(path("whole")), ElementsAre(path("whole")));
  EXPECT_THAT(find_data_sets(path("many")),
              ElementsAre(path("many/test_data_set_2"), path("many/test_data_set_10")));
  EXPECT_THAT(find_data_sets(path("archives")),
              ElementsAre(path("archives/a.npz"), path("archives/b.npz")));
  EXPECT_THAT(find_data_sets(path("one.npz")), ElementsAre(path("one.npz")));
  fs::create_directories(path("empty"));
  EXPECT_THAT(error_of([&] { find_data_sets(path("empty")); }), HasSubstr("io: "));
  EXPECT_THAT(error_of([&] { find_data_sets(path("none")); }), HasSubstr("io: "));
}

TEST_F(Sets, NumbersAndNamesAreKeptApart) {
  save("set/x.npy");
  save("set/input_3.npy");
  const TestData data = read_test_data(path("set"), {});
  EXPECT_TRUE(data.inputs.empty());
  EXPECT_EQ(data.named.size(), 2U);
  EXPECT_EQ(number_in("input_3", "input_"), 3U);
  EXPECT_EQ(number_in("input_", "input_"), std::nullopt);
  EXPECT_EQ(number_in("input_x", "input_"), std::nullopt);
  EXPECT_EQ(number_in("input_99999999999999999999", "input_"), std::nullopt);
}

TEST_F(Sets, WhatIsNoFileIsNotWaitedFor) {
  for (const char* name : {"input_0.pb", "x.npy"}) {
    const fs::path folder = path(std::string("set_") + name);
    fs::create_directories(folder);
    ASSERT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
    EXPECT_THAT(error_of([&] { read_test_data(folder, {}); }), HasSubstr("it is a pipe")) << name;
  }
  fs::create_directories(path("loop"));
  fs::create_symlink("input_0.pb", path("loop/input_0.pb"));
  EXPECT_THAT(error_of([&] { read_test_data(path("loop"), {}); }), HasSubstr("io: "));
}

}  // namespace
}  // namespace tilemesh::cli
