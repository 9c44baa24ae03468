#include "npy.hpp"

#include <cstring>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh::cli {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> to_bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// A file with this header dict, as NumPy writes it.
std::string file(const std::string& dict, const std::string& elements, char major = 1) {
  std::string text = "\x93NUMPY";
  text += major;
  text += '\0';
  const auto length = static_cast<std::uint32_t>(dict.size() + 1);
  text.append(reinterpret_cast<const char*>(&length), major == 1 ? 2 : 4);
  return text + dict + "\n" + elements;
}

HostArray parse(const std::string& text) {
  return parse_npy(to_bytes(text));
}

void expect_refused(const std::string& text, ErrorCode code, const std::string& message) {
  try {
    parse(text);
    FAIL() << "a broken file was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

TEST(Npy, EveryDTypeSurvivesWritingAndReading) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("tilemesh_npy_" + std::to_string(::getpid()) + ".npy");
  for (int i = 0; i < kComputedDTypeCount; ++i) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3}, Shape{2, 0, 5}, Shape{2, 3, 1}}) {
      HostArray array{static_cast<DType>(i), shape, {}};
      for (std::int64_t k = shape.element_count() * size_of(array.dtype); k-- > 0;) {
        array.bytes.push_back(static_cast<std::byte>(k & 1));
      }
      write_npy(path, array);
      const HostArray read = read_npy(path);
      EXPECT_EQ(read.dtype, array.dtype);
      EXPECT_EQ(read.shape, array.shape);
      EXPECT_EQ(read.bytes, array.bytes);
      // Elements begin at a multiple of 64 for whoever maps the file.
      EXPECT_EQ((std::filesystem::file_size(path) - array.bytes.size()) % 64, 0U);
    }
  }
  std::filesystem::remove(path);
}

TEST(Npy, ReadsEveryHeaderVersion) {
  for (const char major : {'\1', '\2', '\3'}) {
    const HostArray array =
        parse(file("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", "\x05\x06", major));
    EXPECT_EQ(array.shape, Shape{2});
    EXPECT_EQ(array.bytes[1], std::byte{6});
  }
}

TEST(Npy, TurnsFortranOrderIntoRows) {
  const HostArray array = parse(file(R"({"descr":"|i1","fortran_order":True,"shape":(2,3)})",
                                     std::string("\0\3\1\4\2\5", 6)));
  EXPECT_EQ(array.bytes, to_bytes(std::string("\0\1\2\3\4\5", 6)));
}

TEST(Npy, AVoidOfTwoBytesIsBf16) {
  EXPECT_EQ(parse(file("{'descr': '|V2', 'fortran_order': False, 'shape': ()}", "ab")).dtype,
            DType::bf16);
}

TEST(Npy, RefusesWhatItCantReadWithAReason) {
  const auto with_descr = [](const std::string& descr) {
    return file("{'descr': " + descr + ", 'fortran_order': False, 'shape': (1,)}", "12345678");
  };
  expect_refused(with_descr("'>f4'"), ErrorCode::unsupported, "big-endian");
  expect_refused(with_descr("'|O'"), ErrorCode::unsupported, "none of ours");
  expect_refused(with_descr("'<c8'"), ErrorCode::unsupported, "none of ours");
  expect_refused(with_descr("'<U2'"), ErrorCode::unsupported, "none of ours");
  expect_refused(with_descr("[('x', '<f4')]"), ErrorCode::unsupported, "structured");
  expect_refused(with_descr("'<f4'"), ErrorCode::invalid_file, "should have 4 bytes");
  expect_refused("", ErrorCode::invalid_file, "empty");
  expect_refused("PK\x03\x04", ErrorCode::invalid_file, "no .npy file");
  expect_refused(file("{}", "", 9), ErrorCode::unsupported, "format version is 9");
  expect_refused(file("{}", ""), ErrorCode::invalid_file, "lacks descr");
  expect_refused(file("{'descr': '<f4', 'what': 1}", ""), ErrorCode::invalid_file, "what");
}

TEST(Npy, RefusesImpossibleShapes) {
  const auto with_shape = [](const std::string& shape) {
    return file("{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + "}", "");
  };
  expect_refused(with_shape("(-1,)"), ErrorCode::invalid_file, "size");
  expect_refused(with_shape("(99999999999999999999,)"), ErrorCode::invalid_file, "size");
  expect_refused(with_shape("(4611686018427387904, 4)"), ErrorCode::invalid_file, "");
  expect_refused(with_shape("(2305843009213693952,)"), ErrorCode::invalid_file, "overflows");
  expect_refused(with_shape("(1,1,1,1,1,1,1,1,1)"), ErrorCode::invalid_file, "more than 8");
}

TEST(Npy, EveryTruncationAndFlipIsRefusedOrHarmless) {
  const std::string good =
      file("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 2), }", "abcdefgh");
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW(parse(good.substr(0, size)), Error) << size;
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      std::string flipped = good;
      flipped[at] = static_cast<char>(flipped[at] ^ mask);
      try {
        parse(flipped);
      } catch (const Error& error) {
        EXPECT_NE(error.code(), ErrorCode::internal) << error.what();
      }
    }
  }
}

TEST(Npy, NamesAFileThatCantBeRead) {
  for (const char* path : {"/nonexistent/x.npy", "/tmp"}) {
    try {
      read_npy(path);
      FAIL() << path << " was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      EXPECT_THAT(error.what(), HasSubstr(path));
    }
  }
}

}  // namespace
}  // namespace tilemesh::cli
