#include "wire.hpp"

namespace tilemesh::fuzz {
namespace {

using Kind = WireField::Kind;

struct Child {
  Kind parent;
  std::uint32_t number;
  Kind kind;
};

/// Fields of onnx.proto that are messages.
constexpr Child kChildren[] = {
    {Kind::model, 7, Kind::graph},       {Kind::model, 8, Kind::opset},
    {Kind::model, 14, Kind::pair},       {Kind::graph, 1, Kind::node},
    {Kind::graph, 5, Kind::tensor},      {Kind::graph, 15, Kind::sparse},
    {Kind::graph, 11, Kind::value_info}, {Kind::graph, 12, Kind::value_info},
    {Kind::graph, 13, Kind::value_info}, {Kind::node, 5, Kind::attribute},
    {Kind::attribute, 5, Kind::tensor},  {Kind::attribute, 6, Kind::graph},
    {Kind::attribute, 10, Kind::tensor}, {Kind::attribute, 11, Kind::graph},
    {Kind::tensor, 13, Kind::pair},      {Kind::sparse, 1, Kind::tensor},
    {Kind::sparse, 2, Kind::tensor},     {Kind::value_info, 2, Kind::type},
    {Kind::type, 1, Kind::tensor_type},  {Kind::tensor_type, 2, Kind::shape},
    {Kind::shape, 1, Kind::dim}};

Kind child_of(Kind parent, std::uint32_t number) {
  for (const Child& child : kChildren) {
    if (child.parent == parent && child.number == number) return child.kind;
  }
  return Kind::leaf;
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool done() const { return bytes_.empty(); }

  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) return std::nullopt;
      const auto byte = static_cast<std::uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    return std::nullopt;
  }

  std::optional<std::string> take(std::uint64_t count) {
    if (count > bytes_.size()) return std::nullopt;
    std::string taken(bytes_.substr(0, count));
    bytes_.remove_prefix(count);
    return taken;
  }

 private:
  std::string_view bytes_;
};

bool read_body(Reader& reader, WireField& field, Kind parent) {
  if (field.wire == 0) {
    const auto value = reader.varint();
    field.value = value.value_or(0);
    return value.has_value();
  }
  std::optional<std::uint64_t> count;
  if (field.wire == 1) count = 8;
  if (field.wire == 5) count = 4;
  if (field.wire == 2) count = reader.varint();
  if (!count) return false;
  std::optional<std::string> bytes = reader.take(*count);
  if (!bytes) return false;
  field.bytes = std::move(*bytes);
  field.kind = field.wire == 2 ? child_of(parent, field.number) : Kind::leaf;
  if (field.kind != Kind::leaf) {
    if (auto fields = parse_wire(field.bytes, field.kind)) {
      field.fields = std::move(*fields);
    } else {
      field.kind = Kind::leaf;
    }
  }
  return true;
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

}  // namespace

std::optional<std::vector<WireField>> parse_wire(std::string_view bytes, WireField::Kind kind) {
  std::vector<WireField> fields;
  Reader reader(bytes);
  while (!reader.done()) {
    const auto tag = reader.varint();
    if (!tag) return std::nullopt;
    WireField field{.number = static_cast<std::uint32_t>(*tag >> 3),
                    .wire = static_cast<int>(*tag & 7)};
    if (!read_body(reader, field, kind)) return std::nullopt;
    fields.push_back(std::move(field));
  }
  return fields;
}

std::string write_wire(const std::vector<WireField>& fields) {
  std::string out;
  for (const WireField& field : fields) {
    put_varint(out, static_cast<std::uint64_t>(field.number) << 3 |
                        static_cast<std::uint64_t>(field.wire));
    if (field.wire == 0) {
      put_varint(out, field.value);
      continue;
    }
    const std::string bytes =
        field.kind == WireField::Kind::leaf ? field.bytes : write_wire(field.fields);
    if (field.wire == 2) put_varint(out, bytes.size());
    out += bytes;
  }
  return out;
}

}  // namespace tilemesh::fuzz
