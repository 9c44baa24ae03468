#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tilemesh/base/error.hpp"

#include "random_arrays.hpp"
#include "table.hpp"
#include "target_json.hpp"
#include "terminal.hpp"

namespace tilemesh::cli {
namespace {

TEST(Format, ChoosesUnits) {
  EXPECT_EQ(format_seconds(1.25e-5), "12.5 us");
  EXPECT_EQ(format_seconds(0.0125), "12.50 ms");
  EXPECT_EQ(format_seconds(2), "2.00 s");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(std::int64_t{3} << 30), "3.0 GiB");
}

TEST(Table, AlignsTextLeftAndNumbersRight) {
  Table table({"name", "bytes"});
  EXPECT_TRUE(table.empty());
  table.add({"ü", "5"});
  table.add({"longer", "1000"});
  EXPECT_EQ(table.to_string(),
            "  name    bytes\n"
            "  ü           5\n"
            "  longer   1000\n");
}

TEST(Table, CutsTheWidestColumnToAHundred) {
  Table table({"a", "b"});
  table.add({"short", "begin" + std::string(300, 'x') + "üend"});
  const std::string text = table.to_string();
  EXPECT_THAT(text, ::testing::HasSubstr("beginx"));
  EXPECT_THAT(text, ::testing::HasSubstr("xxx...xxx"));
  EXPECT_THAT(text, ::testing::HasSubstr("üend\n"));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    EXPECT_LE(display_width(text.substr(at, end - at)), 100U);
    at = end + 1;
  }
}

TEST(Table, ARowIsOneLineWhateverItsCellsHold) {
  Table table({"a", "b"});
  table.add({"one\ntwo", "\n"});
  EXPECT_EQ(table.to_string(), "  a           b\n  one\\x0atwo  \\x0a\n");
}

TEST(TargetJson, IsReadAsItWasPrinted) {
  TargetInfo target;
  target.processor = "some \"processor\"";
  target.features = {"avx2", "fma"};
  target.cores = 3;
  target.threads_per_device = 2;
  target.dram_bytes = std::int64_t{1} << 40;
  target.numa_nodes = 2;
  EXPECT_EQ(parse_target(target_json(target).dump(), "t.json"), target);
}

TEST(TargetJson, NamesWhatIsWrong) {
  const auto message = [](const std::string& text) {
    try {
      parse_target(text, "t.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_file);
      return std::string(error.what());
    }
    return std::string("it was read");
  };
  EXPECT_THAT(message(""), ::testing::HasSubstr("\"t.json\""));
  EXPECT_THAT(message("[1]"), ::testing::HasSubstr("no JSON object"));
  EXPECT_THAT(message("{\"a\": 1}"), ::testing::HasSubstr("none of its keys"));
  EXPECT_THAT(message("{\"cores\": \"two\"}"), ::testing::HasSubstr("\"cores\""));
  EXPECT_THAT(message("{\"features\": [1]}"), ::testing::HasSubstr("\"features\""));
  for (const char* cores :
       {"0", "-1", "2147483648", "18446744073709551616", "1e300", "2.5", "true"}) {
    EXPECT_THAT(message(std::string("{\"cores\": ") + cores + "}"),
                ::testing::HasSubstr("\"cores\" is no whole number from 1 to 65536"))
        << cores;
  }
  EXPECT_THAT(message("{\"l2_cache_bytes\": -9223372036854775808}"),
              ::testing::HasSubstr("\"l2_cache_bytes\" is no whole number from 0"));
  EXPECT_THAT(message("{\"memory_bytes\": 9223372036854775807}"),
              ::testing::HasSubstr("\"memory_bytes\""));
  EXPECT_THAT(message("{\"numa_nodes\": -1}"), ::testing::HasSubstr("\"numa_nodes\""));
  EXPECT_THAT(message(std::string(1 << 20, '[')), ::testing::HasSubstr("no JSON object"));
}

TEST(Json, IsValidAndAsciiWhateverNamesHold) {
  const nlohmann::ordered_json json = {{"name", "a\xff\x1b[2J\u202e\u009bz"}};
  const std::string text = to_text(json);
  EXPECT_THAT(text, ::testing::HasSubstr("a\\ufffd\\u001b[2J\\u202e\\u009bz"));
  EXPECT_TRUE(nlohmann::json::accept(text));
}

TEST(RandomArrays, AreTheSameForTheSameSeedAndFitTheirTypes) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const HostArray first = RandomArrays(7).make(dtype, {3, 5});
    EXPECT_EQ(first.bytes, RandomArrays(7).make(dtype, {3, 5}).bytes);
    EXPECT_NE(first.bytes, RandomArrays(8).make(dtype, {3, 5}).bytes);
    EXPECT_EQ(first.bytes.size(), static_cast<std::size_t>(15 * size_of(dtype)));
  }
  for (const std::byte byte : RandomArrays(1).make(DType::u8, {1000}).bytes) {
    EXPECT_LT(std::to_integer<int>(byte), 8);
  }
}

}  // namespace
}  // namespace tilemesh::cli
