#include "compiler/onnx/tensor.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include "tilemesh/compiler/onnx_tensor.hpp"

#include "compiler/onnx/testing.hpp"

/// Elements in every form that ONNX stores them.
namespace tilemesh::onnx_importer::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A folder that goes when the test ends.
class OnnxTensor : public ::testing::Test {
 protected:
  OnnxTensor()
      : folder_(fs::temp_directory_path() / ("tilemesh_tensor_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_ / "model");
  }
  ~OnnxTensor() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  ConstantData read(const onnx::TensorProto& tensor) const {
    return read_tensor(tensor, {folder_ / "model", root_.empty() ? root_ : folder_ / root_});
  }

  fs::path folder_;
  fs::path root_;  ///< below the folder
};

onnx::TensorProto typed(int type, std::int64_t count) {
  onnx::TensorProto tensor;
  tensor.set_name("t");
  tensor.set_data_type(type);
  tensor.add_dims(count);
  return tensor;
}

// Two or four to a byte, the first in the lowest bits, the rest of the last byte unused.
TEST_F(OnnxTensor, PackedElements) {
  const auto raw = [&](int type, std::int64_t count, const std::string& bytes) {
    onnx::TensorProto tensor = typed(type, count);
    tensor.set_raw_data(bytes);
    return read_as<float>(read(tensor));
  };
  EXPECT_THAT(raw(21, 3, "\x21\x0f"), ElementsAre(1, 2, 15));
  EXPECT_THAT(raw(22, 3, "\x81\x0f"), ElementsAre(1, -8, -1));
  EXPECT_THAT(raw(23, 3, "\x21\x0f"), ElementsAre(0.5F, 1, -6));
  EXPECT_THAT(raw(25, 5, "\xe4\x03"), ElementsAre(0, 1, 2, 3, 3));
  EXPECT_THAT(raw(26, 5, "\xe4\x03"), ElementsAre(0, 1, -2, -1, -1));
  EXPECT_THAT(raw(17, 2, "\x38\x7e"), ElementsAre(1, 448));
  EXPECT_THAT(raw(24, 2, "\x7f\x80"), ElementsAre(1, 2));
  EXPECT_THAT(error_of([&] { raw(22, 3, "\x81"); }), HasSubstr("holds 1 bytes"));
  onnx::TensorProto fields = typed(22, 3);
  fields.add_int32_data(0x81);
  fields.add_int32_data(0x0f);
  EXPECT_THAT(read_as<int>(read(fields)), ElementsAre(1, -8, -1));
  onnx::TensorProto eights = typed(19, 1);
  eights.add_int32_data(0x7b);
  EXPECT_THAT(read_as<float>(read(eights)), ElementsAre(57344));
}

TEST_F(OnnxTensor, TypedFieldsOfEveryType) {
  for (const int type : {2, 3, 4, 5, 6, 9}) {
    onnx::TensorProto tensor = typed(type, 2);
    tensor.add_int32_data(0);
    tensor.add_int32_data(1);
    EXPECT_THAT(read_as<float>(read(tensor)), ElementsAre(0, 1)) << type;
  }
  onnx::TensorProto negative = typed(3, 1);
  negative.add_int32_data(-5);
  EXPECT_THAT(read_as<float>(read(negative)), ElementsAre(-5));
  onnx::TensorProto half = typed(10, 1);
  half.add_int32_data(0x3c00);
  EXPECT_THAT(read_as<float>(read(half)), ElementsAre(1));
  onnx::TensorProto bfloat = typed(16, 1);
  bfloat.add_int32_data(0xbf80);
  EXPECT_THAT(read_as<float>(read(bfloat)), ElementsAre(-1));
  onnx::TensorProto i64 = typed(7, 1);
  i64.add_int64_data((std::int64_t{1} << 53) + 1);
  EXPECT_THAT(read_as<std::int64_t>(read(i64)), ElementsAre((std::int64_t{1} << 53) + 1));
  for (const int type : {12, 13}) {
    onnx::TensorProto tensor = typed(type, 1);
    tensor.add_uint64_data(4000000000);
    EXPECT_THAT(read_as<std::int64_t>(read(tensor)), ElementsAre(4000000000));
  }
  onnx::TensorProto f64 = typed(11, 1);
  f64.add_double_data(0.1);
  EXPECT_THAT(read_as<double>(read(f64)), ElementsAre(0.1));
}

TEST_F(OnnxTensor, BoolsAreZeroOrOne) {
  onnx::TensorProto tensor = typed(9, 3);
  tensor.set_raw_data(std::string("\0\1\7", 3));
  const ConstantData data = read(tensor);
  EXPECT_THAT(*data.bytes, ElementsAre(std::byte{0}, std::byte{1}, std::byte{1}));
}

TEST_F(OnnxTensor, NothingIsATensorToo) {
  const onnx::TensorProto tensor = typed(1, 0);
  EXPECT_EQ(read(tensor).shape, Shape({0}));
}

onnx::TensorProto external(const std::string& location, const std::string& offset,
                           const std::string& length) {
  onnx::TensorProto tensor = typed(2, 3);
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  const auto add = [&](const char* key, const std::string& value) {
    if (value.empty()) return;
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  };
  add("location", location);
  add("offset", offset);
  add("length", length);
  return tensor;
}

TEST_F(OnnxTensor, ExternalDataLiesBesideTheModel) {
  write("model/weights.bin", "abcdefgh");
  EXPECT_THAT(read_as<int>(read(external("weights.bin", "", ""))), ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(read_as<int>(read(external("./weights.bin", "5", "3"))), ElementsAre('f', 'g', 'h'));
}

TEST_F(OnnxTensor, ExternalDataStaysWhereItBelongs) {
  write("model/weights.bin", "abcdefgh");
  write("secret.bin", "abcdefgh");
  fs::create_symlink(folder_ / "secret.bin", folder_ / "model" / "link.bin");
  const std::string inside = (folder_ / "model" / "weights.bin").string();
  const std::string real = fs::canonical(folder_).string();
  for (const std::string& location :
       {std::string("../secret.bin"), std::string("x/../../secret.bin"), std::string("link.bin")}) {
    EXPECT_THAT(error_of([&] { read(external(location, "", "")); }),
                AllOf(HasSubstr("invalid_file: "), HasSubstr("tensor \"t\""),
                      HasSubstr("which leads to \"" + real + "/secret.bin\""),
                      HasSubstr("allow it with --data-root " + real + " (")))
        << location;
  }
  for (const std::string& location : {std::string(".."), std::string("/etc/passwd"), inside}) {
    EXPECT_THAT(error_of([&] { read(external(location, "", "")); }), HasSubstr("--data-root"))
        << location;
  }
  EXPECT_THAT(error_of([&] { read(external("missing.bin", "", "")); }), HasSubstr("io: "));
  EXPECT_THAT(error_of([&] { read(external(".", "", "")); }), HasSubstr("io: "));
  for (const std::string& location : {std::string(), std::string("weights.bin\0x", 13)}) {
    EXPECT_THAT(error_of([&] { read(external(location, "", "")); }),
                HasSubstr("which names no file"));
  }
  EXPECT_THAT(error_of([] { read_tensor(external("weights.bin", "", ""), {}); }),
              HasSubstr("name the directory of the model"));
}

// As model hubs lay models out: names that are links to blobs.
TEST_F(OnnxTensor, ExternalDataMayLieInARootThatTheUserNames) {
  fs::create_directories(folder_ / "blobs");
  write("blobs/1", "abcdefgh");
  write("secret.bin", "abcdefgh");
  fs::create_symlink("../blobs/1", folder_ / "model" / "weights.bin");
  fs::create_symlink("../secret.bin", folder_ / "model" / "link.bin");
  const std::string absolute = (folder_ / "blobs" / "1").string();
  EXPECT_THAT(error_of([&] { read(external("weights.bin", "", "")); }), HasSubstr("--data-root"));
  for (const char* root : {"blobs", ".", "model/../blobs"}) {
    root_ = root;
    for (const std::string& location :
         {std::string("weights.bin"), std::string("../blobs/1"), absolute}) {
      EXPECT_THAT(read_as<int>(read(external(location, "", ""))), ElementsAre('a', 'b', 'c'));
    }
  }
  root_ = "blobs";
  EXPECT_THAT(
      error_of([&] { read(external("link.bin", "", "")); }),
      AllOf(HasSubstr("secret.bin"), HasSubstr("out of the model's folder"), HasSubstr("blobs")));
  root_ = "nowhere";
  EXPECT_THAT(error_of([&] { read(external("link.bin", "", "")); }), HasSubstr("io: "));
}

TEST_F(OnnxTensor, ExternalDataIsARegularFile) {
  ASSERT_EQ(::mkfifo((folder_ / "model" / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { read(external("pipe", "", "")); }),
              AllOf(HasSubstr("io: tensor \"t\""), HasSubstr("it is a pipe")));
  root_ = "/";
  EXPECT_THAT(error_of([&] { read(external("/dev/zero", "", "")); }), HasSubstr("it is a device"));
  EXPECT_THAT(error_of([&] { read(external("/proc/self/maps", "", "")); }),
              HasSubstr("which has 0"));
  fs::create_symlink("loop", folder_ / "model" / "loop");
  EXPECT_THAT(error_of([&] { read(external("loop", "", "")); }), HasSubstr("io: tensor \"t\""));
}

TEST_F(OnnxTensor, ExternalDataIsMeasured) {
  write("model/weights.bin", "abcdefgh");
  EXPECT_THAT(error_of([&] { read(external("weights.bin", "6", "")); }),
              HasSubstr("wants 3 bytes from byte 6"));
  EXPECT_THAT(error_of([&] { read(external("weights.bin", "9223372036854775807", "")); }),
              HasSubstr("which has 8"));
  EXPECT_THAT(error_of([&] { read(external("weights.bin", "", "4")); }),
              HasSubstr("holds 4 bytes"));
  for (const char* number : {"-1", "1x", "99999999999999999999"}) {
    EXPECT_THAT(error_of([&] { read(external("weights.bin", number, "")); }),
                HasSubstr("a number from 0 is wanted"));
  }
}

TEST_F(OnnxTensor, FilesOfTests) {
  const auto tensor = tensor_proto("input", floats({2}, {1, 2})).SerializeAsString();
  EXPECT_THAT(read_as<float>(read_onnx_tensor(write("t.pb", tensor))), ElementsAre(1, 2));
  EXPECT_THAT(error_of([&] { read_onnx_tensor(folder_ / "none.pb"); }), HasSubstr("io: "));
  EXPECT_THAT(error_of([&] { read_onnx_tensor(write("g.pb", "garbage")); }),
              HasSubstr("invalid_file: "));
  EXPECT_THAT(error_of([&] { read_onnx_tensor(write("e.pb", "")); }), HasSubstr("holds no tensor"));
  // SequenceProto{name: "seq", elem_type: TENSOR}
  EXPECT_THAT(error_of([&] { read_onnx_tensor(write("s.pb", "\n\003seq\020\001")); }),
              HasSubstr("unsupported: "));
}

}  // namespace
}  // namespace tilemesh::onnx_importer::testing
