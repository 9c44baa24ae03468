// Tables that no writer of ours makes: a file may point to the same bytes as often as it likes.

#include <cstring>
#include <string>
#include <vector>

#include <flatbuffers/flatbuffers.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tilemesh/base/error.hpp"

#include "codec.hpp"
#include "tilemesh_generated.h"

namespace tilemesh {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

/// What decoding the table that ends in `contents` fails with; empty if it doesn't.
std::string refusal(FlatBufferBuilder& builder, Offset<schema::Contents> contents) {
  builder.Finish(contents);
  std::vector<std::uint64_t> aligned((builder.GetSize() + 7) / 8);
  std::memcpy(aligned.data(), builder.GetBufferPointer(), builder.GetSize());
  try {
    decode_table(std::as_bytes(std::span(aligned)).first(builder.GetSize()));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_file);
    return error.what();
  }
  return "";
}

Offset<schema::Contents> one_program(FlatBufferBuilder& builder,
                                     const std::vector<Offset<schema::Value>>& values,
                                     const std::vector<Offset<schema::Op>>& ops) {
  const auto mesh = builder.CreateVector(std::vector<std::int32_t>{1, 1});
  const auto name = builder.CreateString("p");
  const auto all_values = builder.CreateVector(values);
  const auto all_ops = builder.CreateVector(ops);
  schema::ProgramBuilder program(builder);
  program.add_name(name);
  program.add_mesh(mesh);
  program.add_values(all_values);
  program.add_ops(all_ops);
  const auto programs = builder.CreateVector(std::vector{program.Finish()});
  schema::ContentsBuilder contents(builder);
  contents.add_programs(programs);
  return contents.Finish();
}

TEST(DecodeHostile, OneTableCantBeAMillionValues) {
  constexpr std::size_t kCount = 100000;
  FlatBufferBuilder builder;
  builder.CreateVector(std::vector<std::uint8_t>(12 * kCount));  // that nothing refers to
  schema::SpecBuilder spec(builder);
  const auto spec_at = spec.Finish();
  schema::ValueBuilder value(builder);
  value.add_spec(spec_at);
  const std::vector<Offset<schema::Value>> values(kCount, value.Finish());
  EXPECT_THAT(refusal(builder, one_program(builder, values, {})),
              ::testing::HasSubstr("share bytes"));
}

TEST(DecodeHostile, ASharedListIsPaidForEachTime) {
  constexpr std::size_t kCount = 1000;
  FlatBufferBuilder builder;
  const auto name = builder.CreateString("relu");
  const auto inputs = builder.CreateVector(std::vector<std::uint32_t>(kCount));
  std::vector<Offset<schema::Op>> ops;
  for (std::size_t i = 0; i < kCount; ++i) {
    schema::OpBuilder op(builder);
    op.add_op(name);
    op.add_inputs(inputs);
    ops.push_back(op.Finish());
  }
  EXPECT_THAT(refusal(builder, one_program(builder, {}, ops)), ::testing::HasSubstr("share bytes"));
}

TEST(DecodeHostile, AnOpHasFewAttributes) {
  constexpr std::size_t kCount = 20000;
  FlatBufferBuilder builder;
  std::vector<Offset<schema::Attribute>> attributes;
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto name = builder.CreateString("a" + std::to_string(i));
    schema::AttributeBuilder attribute(builder);
    attribute.add_name(name);
    attributes.push_back(attribute.Finish());
  }
  const auto all = builder.CreateVector(attributes);
  const auto name = builder.CreateString("relu");
  schema::OpBuilder op(builder);
  op.add_op(name);
  op.add_attributes(all);
  const std::vector ops{op.Finish()};
  EXPECT_THAT(refusal(builder, one_program(builder, {}, ops)),
              ::testing::HasSubstr("20000 attributes, the most is 256"));
}

}  // namespace
}  // namespace tilemesh
