#include "byte_size.hpp"

#include <gtest/gtest.h>

#include "command.hpp"

namespace tilemesh::cli {
namespace {

TEST(ByteSize, ReadsNumbersWithTheirUnits) {
  EXPECT_EQ(parse_byte_size("0", "--dram"), 0);
  EXPECT_EQ(parse_byte_size("4096", "--dram"), 4096);
  EXPECT_EQ(parse_byte_size("7B", "--dram"), 7);
  EXPECT_EQ(parse_byte_size("3KiB", "--dram"), 3072);
  EXPECT_EQ(parse_byte_size("1MiB", "--dram"), 1 << 20);
  EXPECT_EQ(parse_byte_size("1.5 GiB", "--dram"), std::int64_t{3} << 29);
  EXPECT_EQ(parse_byte_size("2TiB", "--dram"), std::int64_t{2} << 40);
}

TEST(ByteSize, RefusesWhatIsNone) {
  for (const char* text : {"", "MiB", "-1", "2GB", "2gib", "1e3", "nan", "inf", "0.3B", "1 2",
                           "99999999TiB", "0x10", "3KiB,"}) {
    EXPECT_THROW(parse_byte_size(text, "--dram"), UsageError) << text;
  }
}

}  // namespace
}  // namespace tilemesh::cli
