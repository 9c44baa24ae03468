#include "npz.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>
#include <zlib.h>

#include "tilemesh/base/error.hpp"

#include "files.hpp"
#include "npy.hpp"

namespace tilemesh::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
std::string number(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string deflated(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  std::string packed(text.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// Writes archives entry by entry, with what a test wants to be wrong.
struct Archive {
  struct Wrong {
    std::uint32_t bytes = 0;  ///< other than the entry has
    std::uint32_t crc = 0;
    std::uint16_t flags = 0;
    bool large = false;  ///< sizes in ZIP64 fields
  };

  void add(const std::string& name, const std::string& content, bool packed) {
    add(name, content, packed, Wrong());
  }
  void add(const std::string& name, const std::string& content, bool packed, const Wrong& wrong) {
    const std::string stored = packed ? deflated(content) : content;
    const auto crc =
        static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(content.data()),
                                         static_cast<uInt>(content.size()))) ^
        wrong.crc;
    const auto bytes = static_cast<std::uint32_t>(wrong.bytes == 0 ? content.size() : wrong.bytes);
    const std::uint32_t full = 0xffffffff;
    const std::string extra = wrong.large ? number<std::uint16_t>(1) + number<std::uint16_t>(16) +
                                                number<std::uint64_t>(bytes) +
                                                number<std::uint64_t>(stored.size())
                                          : "";
    const std::string middle =
        number(wrong.flags) + number<std::uint16_t>(packed ? 8 : 0) + number<std::uint32_t>(0) +
        number(crc) + number(wrong.large ? full : static_cast<std::uint32_t>(stored.size())) +
        number(wrong.large ? full : bytes) + number(static_cast<std::uint16_t>(name.size())) +
        number(static_cast<std::uint16_t>(extra.size()));
    directory += std::string("PK\1\2") + number<std::uint32_t>(45) + middle +
                 number<std::uint32_t>(0) + number<std::uint16_t>(0) + number<std::uint32_t>(0) +
                 number(static_cast<std::uint32_t>(entries.size())) + name + extra;
    entries += std::string("PK\3\4") + number<std::uint16_t>(45) + middle + name + extra + stored;
    ++count;
  }

  std::string bytes(const std::string& comment = "") const {
    return entries + directory + "PK\5\6" + number<std::uint32_t>(0) + number(count) +
           number(count) + number(static_cast<std::uint32_t>(directory.size())) +
           number(static_cast<std::uint32_t>(entries.size())) +
           number(static_cast<std::uint16_t>(comment.size())) + comment;
  }

  std::string entries;
  std::string directory;
  std::uint16_t count = 0;
};

class Npz : public ::testing::Test {
 protected:
  Npz()
      : path_(std::filesystem::temp_directory_path() /
              ("tilemesh_npz_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Npz() override { std::filesystem::remove_all(path_); }

  std::filesystem::path save(const std::string& bytes) const {
    std::ofstream(path_ / "a.npz", std::ios::binary) << bytes;
    return path_ / "a.npz";
  }
  NamedArrays read(const std::string& bytes) const { return read_npz(save(bytes)); }
  std::string error_of(const std::string& bytes) const {
    try {
      read(bytes);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("a.npz"));
      return std::string(to_string(error.code())) + ": " + error.what();
    }
    return "none";
  }
  /// What write_npy writes of these.
  std::string npy(const std::vector<float>& values) const {
    HostArray array{DType::f32, Shape{static_cast<std::int64_t>(values.size())}, {}};
    const auto bytes = std::as_bytes(std::span(values));
    array.bytes.assign(bytes.begin(), bytes.end());
    write_npy(path_ / "a.npy", array);
    return read_file(path_ / "a.npy", 1 << 20);
  }
  static std::vector<float> floats(const HostArray& array) {
    std::vector<float> values(array.bytes.size() / 4);
    std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
    return values;
  }

 private:
  std::filesystem::path path_;
};

TEST_F(Npz, StoredAndDeflatedArraysAreReadByName) {
  Archive archive;
  archive.add("x.npy", npy({1, 2}), false);
  archive.add("a/b.npy", npy(std::vector<float>(1000, 7)), true);
  archive.add("large.npy", npy({3}), true, {.large = true});
  for (const std::string& comment : {std::string(), std::string("a comment PK\5\6 of it")}) {
    const NamedArrays arrays = read(archive.bytes(comment));
    ASSERT_EQ(arrays.size(), 3U);
    EXPECT_THAT(floats(arrays.at("x")), ElementsAre(1, 2));
    EXPECT_EQ(floats(arrays.at("a/b")), std::vector<float>(1000, 7));
    EXPECT_THAT(floats(arrays.at("large")), ElementsAre(3));
  }
  EXPECT_TRUE(read(Archive().bytes()).empty());
}

TEST_F(Npz, WhatIsDamagedIsRefused) {
  const std::string content = npy({1, 2, 3});
  const auto with = [&](const Archive::Wrong& wrong, bool packed = true) {
    Archive archive;
    archive.add("x.npy", content, packed, wrong);
    return error_of(archive.bytes());
  };
  EXPECT_THAT(with({.crc = 1}), HasSubstr("invalid_file: "));
  EXPECT_THAT(with({.bytes = 0x7fffffff}), HasSubstr("bytes can't hold 2147483647"));
  EXPECT_THAT(with({.bytes = 10}), HasSubstr("damaged"));
  EXPECT_THAT(with({.bytes = 10}, false), HasSubstr("damaged"));
  EXPECT_THAT(with({.flags = 1}), HasSubstr("unsupported: "));
  Archive twice;
  twice.add("x.npy", content, false);
  twice.add("x.npy", content, false);
  EXPECT_THAT(error_of(twice.bytes()), HasSubstr("\"x.npy\": it is there twice"));
  Archive text;
  text.add("x.npy", "hello", false);
  EXPECT_THAT(error_of(text.bytes()), HasSubstr("no .npy file"));
  EXPECT_THAT(error_of(""), HasSubstr("no .npz file"));
  EXPECT_THAT(error_of("hello"), HasSubstr("no .npz file"));
}

TEST_F(Npz, NothingButAnErrorComesOfCutAndFlippedBytes) {
  Archive archive;
  archive.add("x.npy", npy({1, 2}), true);
  archive.add("y.npy", npy({1, 2}), false, {.large = true});
  const std::string whole = archive.bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(error_of(whole.substr(0, size)), "none");
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      std::string broken = whole;
      broken[at] = static_cast<char>(broken[at] ^ mask);
      error_of(broken);
    }
  }
}

}  // namespace
}  // namespace tilemesh::cli
