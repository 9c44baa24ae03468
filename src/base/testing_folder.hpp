#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include <unistd.h>

namespace tilemesh::testing {

/// A test with a folder of its own, which goes when the test ends.
class FolderTest : public ::testing::Test {
 protected:
  FolderTest() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("tilemesh_base_" + std::to_string(::getpid()) + "_" + test->name());
    std::filesystem::create_directories(folder_);
  }
  ~FolderTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::filesystem::path path(const std::string& name) const { return folder_ / name; }
  std::filesystem::path save(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  static std::string content(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  /// The names in the folder, apart by blanks.
  std::string names() const {
    std::string all;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      all += (all.empty() ? "" : " ") + entry.path().filename().string();
    }
    return all;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace tilemesh::testing
