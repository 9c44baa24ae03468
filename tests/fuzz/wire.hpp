#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilemesh::fuzz {

/// A field of a protobuf message as it lies on the wire. A message among them is known by its place
/// in ONNX's schema, since its bytes don't tell.
struct WireField {
  enum class Kind : std::uint8_t {
    model,
    graph,
    node,
    attribute,
    tensor,
    sparse,
    value_info,
    type,
    tensor_type,
    shape,
    dim,
    pair,
    opset,
    leaf
  };
  std::uint32_t number = 0;
  int wire = 0;             ///< 0: a varint, 1 and 5: eight and four bytes, 2: bytes with a length
  std::uint64_t value = 0;  ///< of a varint
  std::string bytes = {};   ///< of the others
  Kind kind = Kind::leaf;   ///< other than leaf: a message, whose fields are read
  std::vector<WireField> fields = {};
};

/// The fields of a message; nothing if the bytes are none.
std::optional<std::vector<WireField>> parse_wire(std::string_view bytes, WireField::Kind kind);
std::string write_wire(const std::vector<WireField>& fields);

}  // namespace tilemesh::fuzz
