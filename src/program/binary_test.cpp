#include "tilemesh/program/binary.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include "tilemesh/base/error.hpp"

#include "codec.hpp"
#include "header.hpp"
#include "sample.hpp"

namespace tilemesh {
namespace {

using ::testing::HasSubstr;

/// A folder of its own, removed at the end.
class BinaryFile : public ::testing::Test {
 protected:
  BinaryFile()
      : folder_(std::filesystem::temp_directory_path() /
                ("tilemesh_binary_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~BinaryFile() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::filesystem::path path(const char* name) const { return folder_ / name; }

  std::filesystem::path folder_;
};

void write(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {ErrorCode::internal, "nothing was thrown"};
}

void expect_sample(const Binary& binary) {
  const BinaryContents sample = sample_contents();
  ASSERT_EQ(binary.program_count(), 1U);
  EXPECT_EQ(binary.programs()[0], verify(sample.programs[0], sample.constants.size()));
  EXPECT_EQ(binary.target(), sample.target);
  EXPECT_EQ(binary.metadata(), sample.metadata);
  EXPECT_TRUE(std::equal(binary.constants().begin(), binary.constants().end(),
                         sample.constants.begin(), sample.constants.end()));
}

/// The header's checksum made right again after a change, so that what it protects is reached.
void repair_checksum(std::vector<std::byte>& file) {
  std::uint64_t table_bytes = 0;
  std::memcpy(&table_bytes, file.data() + 16, sizeof table_bytes);
  if (table_bytes <= file.size() - kHeaderBytes) {
    const std::uint64_t hash =
        hash_bytes(std::span<const std::byte>(file).subspan(kHeaderBytes, table_bytes));
    std::memcpy(file.data() + 24, &hash, sizeof hash);
  }
}

/// True if the bytes were refused with an Error; otherwise they gave a program that can be used.
bool refused(const std::vector<std::byte>& file) {
  try {
    const Binary binary = Binary::from_bytes(file);
    for (const Program& program : binary.programs()) {
      verify(program, binary.constants().size());
    }
    return false;
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::internal) << error.what();
    return true;
  }
}

TEST_F(BinaryFile, IsReadAsItWasWritten) {
  const Binary binary = Binary::from_contents(sample_contents());
  expect_sample(binary);
  binary.save(path("a.tmb"));
  expect_sample(Binary::load(path("a.tmb")));
  expect_sample(Binary::from_bytes(binary.to_bytes()));
  EXPECT_EQ(std::filesystem::file_size(path("a.tmb")), binary.to_bytes().size());
}

TEST_F(BinaryFile, ReplacesAFileWholeAndLeavesNothingElse) {
  const Binary binary = Binary::from_contents(sample_contents());
  binary.save(path("a.tmb"));
  const Binary mapped = Binary::load(path("a.tmb"));
  mapped.save(path("a.tmb"));  // over the file that it reads from
  expect_sample(mapped);
  expect_sample(Binary::load(path("a.tmb")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(BinaryFile, WritesBehindASymbolicLink) {
  std::filesystem::create_directory(path("real"));
  const Binary binary = Binary::from_contents(sample_contents());
  binary.save(path("real/a.tmb"));
  std::filesystem::create_symlink(path("real/a.tmb"), path("link.tmb"));
  binary.save(path("link.tmb"));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link.tmb")));
  expect_sample(Binary::load(path("link.tmb")));
}

TEST_F(BinaryFile, RefusesToWriteWhereNoFileCanBe) {
  const Binary binary = Binary::from_contents(sample_contents());
  EXPECT_EQ(error_of([&] { binary.save(folder_); }).code(), ErrorCode::io);
  EXPECT_EQ(error_of([&] { binary.save(path("none/a.tmb")); }).code(), ErrorCode::io);
  EXPECT_EQ(error_of([&] { binary.save("/dev/null"); }).code(), ErrorCode::io);
}

TEST_F(BinaryFile, NamesWhatCantBeRead) {
  const Error missing = error_of([&] { Binary::load(path("none.tmb")); });
  EXPECT_EQ(missing.code(), ErrorCode::io);
  EXPECT_THAT(missing.what(), HasSubstr("none.tmb"));
  EXPECT_EQ(error_of([&] { Binary::load(folder_); }).code(), ErrorCode::io);

  write(path("empty.tmb"), {});
  const Error empty = error_of([&] { Binary::load(path("empty.tmb")); });
  EXPECT_EQ(empty.code(), ErrorCode::invalid_file);
  EXPECT_THAT(empty.what(), HasSubstr("empty.tmb\": the file is empty"));

  const std::string text = "onnx, perhaps";
  write(path("text.tmb"), std::as_bytes(std::span(text)));
  EXPECT_THAT(error_of([&] { Binary::load(path("text.tmb")); }).what(),
              HasSubstr("not a tilemesh binary"));
}

TEST_F(BinaryFile, ConstantsMayLieBeyond4GiB) {
  constexpr std::uint64_t kFar = (std::uint64_t{1} << 32) + 4096;
  Program program = sample_program();
  program.constants[1].offset = kFar;
  const std::vector<std::byte> table = encode_table({program}, {}, {});
  const FileHeader header = make_header(table, kFar + 32);
  std::vector<std::byte> file(kHeaderBytes + table.size());
  std::ranges::copy(to_bytes(header), file.begin());
  std::ranges::copy(table, file.begin() + kHeaderBytes);
  write(path("large.tmb"), file);
  // The rest is a hole: it takes no room on the disk, and reads as zeros.
  std::filesystem::resize_file(path("large.tmb"), header.constants_offset + kFar + 32);
  const Binary binary = Binary::load(path("large.tmb"));
  EXPECT_EQ(binary.program().constant(1).size(), 32U);
  EXPECT_EQ(binary.program().constant(1)[31], std::byte{0});
}

TEST(Binary, ANewerMajorVersionNamesBoth) {
  std::vector<std::byte> file = Binary::from_contents(sample_contents()).to_bytes();
  file[8] = std::byte{9};
  const Error error = error_of([&] { Binary::from_bytes(file); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_THAT(error.what(), HasSubstr("9." + std::to_string(kFormatMinor)));
  EXPECT_THAT(error.what(), HasSubstr("1.x"));
}

TEST(Binary, ANewerMinorVersionIsRead) {
  std::vector<std::byte> file = Binary::from_contents(sample_contents()).to_bytes();
  file[10] = std::byte{3};
  expect_sample(Binary::from_bytes(file));
}

TEST(Binary, EveryTruncationIsRefused) {
  const std::vector<std::byte> file = Binary::from_contents(sample_contents()).to_bytes();
  for (std::size_t size = 0; size < file.size(); ++size) {
    ASSERT_TRUE(refused({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)}))
        << "of " << size << " bytes";
  }
  std::vector<std::byte> longer = file;
  longer.push_back(std::byte{0});
  EXPECT_TRUE(refused(longer));
}

TEST(Binary, EveryFlippedByteOutsideTheConstantsIsFound) {
  const Binary binary = Binary::from_contents(sample_contents());
  std::vector<std::byte> file = binary.to_bytes();
  const std::size_t end = file.size() - binary.constants().size();
  for (std::size_t at = 0; at < end; ++at) {
    const bool is_minor_version = at == 10 || at == 11;
    for (const auto mask : {std::byte{0xff}, std::byte{0x01}, std::byte{0x80}}) {
      file[at] ^= mask;
      ASSERT_NE(refused(file), is_minor_version) << "byte " << at;
      file[at] ^= mask;
    }
  }
}

// A checksum says nothing about intent: what lies behind it must hold on its own.
TEST(Binary, EveryFlippedByteWithARightChecksumIsRefusedOrHarmless) {
  const std::vector<std::byte> good = Binary::from_contents(sample_contents()).to_bytes();
  std::size_t found = 0;
  std::uint64_t table_bytes = 0;
  std::memcpy(&table_bytes, good.data() + 16, sizeof table_bytes);
  for (std::size_t at = kHeaderBytes; at < kHeaderBytes + table_bytes; ++at) {
    for (const auto mask : {std::byte{0xff}, std::byte{0x01}, std::byte{0x80}, std::byte{0x10}}) {
      std::vector<std::byte> file = good;
      file[at] ^= mask;
      repair_checksum(file);
      found += refused(file) ? 1U : 0U;
    }
  }
  EXPECT_GT(found, table_bytes);  // of four flips of each byte; names and numbers may be anything
}

TEST(Binary, ProgramsAreFoundByName) {
  BinaryContents contents = sample_contents();
  contents.programs.push_back(contents.programs[0]);
  contents.programs[1].name = "second";
  const Binary binary = Binary::from_contents(contents);
  EXPECT_EQ(binary.program("second")->name, "second");
  EXPECT_EQ(binary.program("sample").constant(1).size(), 32U);
  EXPECT_EQ(binary.program("sample").constant(1)[0], std::byte{192});
  const Error none = error_of([&] { binary.program("third"); });
  EXPECT_EQ(none.code(), ErrorCode::not_found);
  EXPECT_THAT(none.what(), HasSubstr("\"sample\", \"second\""));
  EXPECT_THAT(error_of([&] { binary.program(); }).what(), HasSubstr("\"sample\", \"second\""));
  EXPECT_EQ(error_of([&] { BoundProgram(binary, 2); }).code(), ErrorCode::not_found);
  EXPECT_EQ(error_of([&] { binary.program("sample").constant(2); }).code(), ErrorCode::not_found);
}

TEST(Binary, RefusesNoneAndTwiceTheSame) {
  EXPECT_EQ(error_of([] { Binary::from_contents({}); }).code(), ErrorCode::invalid_file);
  BinaryContents contents = sample_contents();
  contents.programs.push_back(contents.programs[0]);
  EXPECT_THAT(error_of([&] { Binary::from_contents(contents); }).what(), HasSubstr("\"sample\""));
}

}  // namespace
}  // namespace tilemesh
