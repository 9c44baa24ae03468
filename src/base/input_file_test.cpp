#include "tilemesh/base/input_file.hpp"

#include <array>
#include <cstring>

#include <gmock/gmock.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tilemesh/base/error.hpp"

#include "base/testing_folder.hpp"

namespace tilemesh {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class InputFiles : public testing::FolderTest {
 protected:
  static std::string error_of(const std::filesystem::path& path) {
    try {
      const InputFile file(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      EXPECT_THAT(error.what(),
                  HasSubstr("\"" + path.string().substr(0, path.string().find('\0'))));
      return error.what();
    }
    return "opened";
  }
};

TEST_F(InputFiles, GiveTheirBytes) {
  const InputFile file(save("a", "0123456789"));
  EXPECT_EQ(file.size(), 10U);
  EXPECT_EQ(file.text(10), "0123456789");
  std::array<std::byte, 3> part{};
  file.read(7, part);
  EXPECT_EQ(std::memcmp(part.data(), "789", 3), 0);
  EXPECT_EQ(file.bytes(10, 0).size(), 0U);
  EXPECT_THROW(file.bytes(8, 3), Error);
  EXPECT_THROW(file.text(9), Error);
}

TEST_F(InputFiles, WhatIsNoRegularFileIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of(path("pipe")), HasSubstr("it is a pipe, no regular file"));
  EXPECT_THAT(error_of(path(".")), HasSubstr("it is a folder"));
  EXPECT_THAT(error_of("/dev/zero"), HasSubstr("it is a device"));
  EXPECT_THAT(error_of("/dev/null"), HasSubstr("it is a device"));
  std::filesystem::create_symlink("/dev/zero", path("link"));
  EXPECT_THAT(error_of(path("link")), HasSubstr("it is a device"));
  const int bound = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path("socket").string().size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, path("socket").c_str());
  ASSERT_EQ(::bind(bound, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(error_of(path("socket")), HasSubstr("it is a socket"));
  ::close(bound);
}

TEST_F(InputFiles, NamesThatLeadNowhereAreNamed) {
  EXPECT_THAT(error_of(path("none")), HasSubstr("No such file"));
  std::filesystem::create_symlink("loop", path("loop"));
  EXPECT_THAT(error_of(path("loop")), HasSubstr("symbolic links"));
  save("file", "x");
  EXPECT_THAT(error_of(path("file/x")), HasSubstr("Not a directory"));
  EXPECT_THAT(error_of(path(std::string(5000, 'a'))), HasSubstr("too long"));
  EXPECT_THAT(error_of(""), HasSubstr("can't be empty"));
  EXPECT_THAT(error_of(path(std::string("file\0x", 6))), HasSubstr("zero byte"));
}

TEST_F(InputFiles, AFileThatGivesMoreThanItSaysIsNotReadFurther) {
  // A file of the kernel: regular, of size 0, and with content.
  EXPECT_EQ(InputFile("/proc/self/maps").text(1), "");
  const InputFile grown(save("grown", "123"));
  save("grown", "123456");
  EXPECT_EQ(grown.text(100), "123");
}

TEST_F(InputFiles, AFileThatBecameShorterIsAnError) {
  const InputFile file(save("cut", "123456"));
  std::filesystem::resize_file(path("cut"), 2);
  EXPECT_THROW(file.text(100), Error);
}

TEST_F(InputFiles, HolesDontAskForMoreThanTheMachineHas) {
  save("sparse", "");
  std::filesystem::resize_file(path("sparse"), std::uintmax_t{1} << 42);
  const InputFile file(path("sparse"));
  try {
    file.bytes(0, file.size());
    FAIL() << "four tebibytes were read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("sparse"), HasSubstr("4398046511104 bytes")));
  }
}

TEST_F(InputFiles, RangesAreMapped) {
  save("a", std::string(4096, 'a') + "bcd");
  MappedBytes bytes;
  {
    const InputFile file(path("a"));
    bytes = MappedBytes(file, 4096, 2);
    EXPECT_THROW(MappedBytes(file, 4096, 4), Error);
    EXPECT_TRUE(MappedBytes(file, 4096, 0).bytes().empty());
  }
  EXPECT_EQ(bytes.bytes()[1], std::byte{'c'});
}

}  // namespace
}  // namespace tilemesh
