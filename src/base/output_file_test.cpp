#include "tilemesh/base/output_file.hpp"

#include <csignal>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tilemesh/base/error.hpp"

#include "base/testing_folder.hpp"

namespace tilemesh {
namespace {

using ::testing::HasSubstr;

void write(const std::filesystem::path& path, std::string_view text) {
  const std::span<const std::byte> whole = std::as_bytes(std::span(text.data(), text.size()));
  const std::vector<std::span<const std::byte>> pieces = {whole.first(text.size() / 2),
                                                          whole.subspan(text.size() / 2)};
  write_file(path, pieces);
}

std::string error_of(const std::filesystem::path& path) {
  try {
    write(path, "new");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(error.what(), HasSubstr("\"" + path.string() + "\""));
    return error.what();
  }
  return "written";
}

class OutputFiles : public testing::FolderTest {};

TEST_F(OutputFiles, AreWrittenWholeAndReplaced) {
  write(path("a"), "first");
  write(path("a"), "second");
  EXPECT_EQ(content(path("a")), "second");
  write(path(std::string(255, 'n')), "the longest name");
  EXPECT_EQ(content(path(std::string(255, 'n'))), "the longest name");
}

TEST_F(OutputFiles, KeepThePermissionsOfWhatTheyReplace) {
  save("a", "secret");
  ASSERT_EQ(::chmod(path("a").c_str(), 0600), 0);
  write(path("a"), "new");
  struct stat status {};
  ASSERT_EQ(::stat(path("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
}

TEST_F(OutputFiles, LieBehindLinks) {
  save("a", "old");
  std::filesystem::create_symlink("a", path("link"));
  write(path("link"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(content(path("a")), "new");
  std::filesystem::create_directory(path("folder"));
  std::filesystem::create_symlink("folder/made", path("dangling"));
  write(path("dangling"), "made");
  EXPECT_TRUE(std::filesystem::is_symlink(path("dangling")));
  EXPECT_EQ(content(path("folder/made")), "made");
  std::filesystem::create_symlink("loop", path("loop"));
  EXPECT_THAT(error_of(path("loop")), HasSubstr("symbolic links"));
}

TEST_F(OutputFiles, WhatIsNoRegularFileIsNotReplaced) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of(path("pipe")), HasSubstr("it is a pipe"));
  std::filesystem::create_directory(path("folder"));
  EXPECT_THAT(error_of(path("folder")), HasSubstr("it is a folder"));
  EXPECT_THAT(error_of("/dev/null"), HasSubstr("it is a device"));
  EXPECT_THAT(error_of(path("none/a")), HasSubstr("No such file"));
  EXPECT_THAT(error_of(path("folder/")), HasSubstr("names no file"));
  EXPECT_THROW(check_writable(path("pipe")), Error);
  EXPECT_THROW(check_writable(path("none/a")), Error);
  check_writable(path("a"));
  EXPECT_EQ(content(path("a")), "");
}

// In a process of its own, whose files may not grow beyond 100 bytes: what a full disk is.
TEST_F(OutputFiles, AFullDiskLeavesWhatWasThere) {
  save("a", "old");
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{100, 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_IGN);
    try {
      write(path("a"), std::string(1000, 'x'));
    } catch (const Error& error) {
      ::_exit(error.code() == ErrorCode::io ? 0 : 1);
    }
    ::_exit(2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(names(), "a");
  EXPECT_EQ(content(path("a")), "old");
}

// A process is stopped in the midst of many writes, by a handler like that of the tool.
TEST_F(OutputFiles, AHandlerRemovesWhatWasBegun) {
  for (int delay_us = 200; delay_us < 20000; delay_us += 1700) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGTERM, [](int) {
        remove_unfinished_files();
        ::_exit(7);
      });
      const std::string much(1 << 22, 'x');
      for (;;) {
        write(path("a"), much);
      }
    }
    ::usleep(static_cast<useconds_t>(delay_us));
    ::kill(child, SIGTERM);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_THAT(names(), ::testing::AnyOf("", "a"));
    const std::size_t size = content(path("a")).size();
    EXPECT_TRUE(size == 0 || size == 1 << 22) << size;
  }
}

}  // namespace
}  // namespace tilemesh
