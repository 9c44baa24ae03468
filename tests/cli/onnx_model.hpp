#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tilemesh::cli {

/// ONNX models written by hand, so that names may be any bytes and data anywhere.
class OnnxModel {
 public:
  /// f32[3]
  void input(const std::string& name) { graph_ += field(11, value(name)); }
  void output(const std::string& name) { graph_ += field(12, value(name)); }
  void node(const std::string& op, const std::vector<std::string>& inputs,
            const std::string& output, const std::string& name = "") {
    std::string text;
    for (const std::string& one : inputs) {
      text += field(1, one);
    }
    graph_ += field(1, text + field(2, output) + field(3, name) + field(4, op));
  }
  /// An f32 initializer of so many elements in a file.
  void external(const std::string& name, const std::string& location, std::int64_t count = 3) {
    graph_ += field(5, number(1, count) + number(2, 1) + field(8, name) +
                           field(13, field(1, "location") + field(2, location)) + number(14, 1));
  }
  void metadata(const std::string& key, const std::string& text) {
    metadata_ += field(14, field(1, key) + field(2, text));
  }

  std::string bytes() const {
    return number(1, 8) + field(7, graph_ + field(2, "g")) +
           field(8, field(1, "") + number(2, 17)) + metadata_;
  }
  /// A tensor's file: f32 elements.
  static std::string tensor(const std::vector<float>& values) {
    return number(1, static_cast<std::int64_t>(values.size())) + number(2, 1) +
           field(9, {reinterpret_cast<const char*>(values.data()), 4 * values.size()});
  }

 private:
  static std::string varint(std::uint64_t value) {
    std::string text;
    for (; value >= 128; value >>= 7) {
      text += static_cast<char>((value & 127) | 128);
    }
    return text + static_cast<char>(value);
  }
  static std::string field(std::uint64_t id, const std::string& content) {
    return varint(id << 3 | 2) + varint(content.size()) + content;
  }
  static std::string number(std::uint64_t id, std::int64_t value) {
    return varint(id << 3) + varint(static_cast<std::uint64_t>(value));
  }
  static std::string value(const std::string& name) {
    const std::string shape = field(1, number(1, 3));
    return field(1, name) + field(2, field(1, number(1, 1) + field(2, shape)));
  }

  std::string graph_;
  std::string metadata_;
};

}  // namespace tilemesh::cli
