#include "npy.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/input_file.hpp"
#include "tilemesh/base/math.hpp"
#include "tilemesh/types/strided.hpp"

#include "files.hpp"

namespace tilemesh::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kHeaderAlignment = 64;
constexpr std::size_t kLongestHeader = 1 << 20;

[[noreturn]] void broken(const std::string& what) {
  throw Error(ErrorCode::invalid_file, what);
}

struct Code {
  std::string_view code;
  DType dtype;
};
constexpr std::array<Code, kComputedDTypeCount> kCodes = {{{"f4", DType::f32},
                                                           {"f2", DType::f16},
                                                           {"V2", DType::bf16},
                                                           {"f8", DType::f64},
                                                           {"i8", DType::i64},
                                                           {"i4", DType::i32},
                                                           {"i2", DType::i16},
                                                           {"i1", DType::i8},
                                                           {"u8", DType::u64},
                                                           {"u4", DType::u32},
                                                           {"u2", DType::u16},
                                                           {"u1", DType::u8},
                                                           {"b1", DType::boolean}}};

DType parse_descr(std::string_view descr) {
  for (const Code& code : kCodes) {
    if (descr.size() != 3 || descr.substr(1) != code.code) {
      continue;
    }
    if (descr[0] == '<' || descr[0] == '|' || (descr[0] == '>' && size_of(code.dtype) == 1)) {
      return code.dtype;
    }
    if (descr[0] == '>') {
      throw Error(
          ErrorCode::unsupported,
          fmt::format("its elements \"{}\" are big-endian: save it as \"<{}\"", descr, code.code));
    }
  }
  throw Error(
      ErrorCode::unsupported,
      fmt::format("its elements \"{}\" are none of ours: save floats, integers or bools", descr));
}

struct Header {
  DType dtype = DType::f32;
  bool fortran_order = false;
  Shape shape;
};

/// Reads the Python dict literal of a header.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Header parse() {
    Header header;
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        has_descr = true;
        header.dtype = descr();
      } else if (key == "fortran_order") {
        has_order = true;
        header.fortran_order = boolean();
      } else if (key == "shape") {
        has_shape = true;
        header.shape = shape();
      } else {
        broken(fmt::format("its header has the unknown key \"{}\"", key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!has_descr || !has_order || !has_shape) {
      broken("its header lacks descr, fortran_order or shape");
    }
    return header;
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
      ++at_;
    }
  }
  bool accept(char wanted) {
    skip_spaces();
    if (at_ < text_.size() && text_[at_] == wanted) {
      ++at_;
      return true;
    }
    return false;
  }
  void expect(char wanted) {
    if (!accept(wanted)) {
      broken(fmt::format("its header should have \"{}\" at byte {}", wanted, at_));
    }
  }
  std::string_view quoted() {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    const std::size_t end =
        quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : std::string_view::npos;
    if (end == std::string_view::npos) {
      broken(fmt::format("its header should have a quoted word at byte {}", at_));
    }
    const std::string_view result = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return result;
  }
  DType descr() {
    skip_spaces();
    if (at_ < text_.size() && text_[at_] == '[') {
      throw Error(ErrorCode::unsupported, "its elements are structured: save one field");
    }
    return parse_descr(quoted());
  }
  bool boolean() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return word == "True";
      }
    }
    broken(fmt::format("its header should have True or False at byte {}", at_));
  }
  Shape shape() {
    Dims dims;
    expect('(');
    while (!accept(')')) {
      dims.push_back(size());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return Shape(dims);
  }
  std::int64_t size() {
    skip_spaces();
    std::int64_t value = 0;
    const char* first = text_.data() + at_;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) {
      broken(fmt::format("its header should have a size at byte {}", at_));
    }
    at_ += static_cast<std::size_t>(end - first);
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// A header read, and where the elements begin.
struct Start {
  Header header;
  std::uint64_t elements_at = 0;
};

/// Splits off the text of a header, from the first bytes of a file.
std::string_view header_text(std::span<const std::byte> start, std::uint64_t file_bytes) {
  if (start.empty()) {
    broken("it is empty, no .npy file");
  }
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (text.substr(0, kMagic.size()) != kMagic) {
    broken("it is no .npy file: it begins with other bytes");
  }
  const std::size_t fixed = kMagic.size() + 2;
  const int major = text.size() > kMagic.size() ? std::to_integer<int>(start[kMagic.size()]) : 1;
  if (major < 1 || major > 3) {
    throw Error(ErrorCode::unsupported,
                fmt::format("its format version is {}, versions 1 to 3 are read", major));
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  if (start.size() < fixed + length_bytes) {
    broken("it was cut short within its header");
  }
  std::uint32_t length = 0;
  std::memcpy(&length, start.data() + fixed, length_bytes);
  const std::size_t begin = fixed + length_bytes;
  if (length > kLongestHeader || length > start.size() - begin) {
    broken(fmt::format("its header should have {} bytes, the file has {}", length, file_bytes));
  }
  return text.substr(begin, length);
}

/// Reads the header and checks the size of the elements against it.
Start parse_start(std::span<const std::byte> bytes, std::uint64_t file_bytes) {
  const std::string_view text = header_text(bytes, file_bytes);
  Start start;
  start.elements_at = static_cast<std::uint64_t>(
      reinterpret_cast<const std::byte*>(text.data() + text.size()) - bytes.data());
  std::int64_t wanted = 0;
  try {
    start.header = HeaderParser(text).parse();
    wanted = checked_mul(start.header.shape.element_count(), size_of(start.header.dtype));
  } catch (const Error& error) {
    // A shape that can't be is the file's fault here.
    const bool from_shape = error.code() == ErrorCode::invalid_argument;
    throw Error(from_shape ? ErrorCode::invalid_file : error.code(), error.what());
  }
  const std::uint64_t there = file_bytes - start.elements_at;
  if (there != static_cast<std::uint64_t>(wanted)) {
    broken(
        fmt::format("its elements {}{} should have {} bytes, the file has {}: it was cut short "
                    "or appended to",
                    to_string(start.header.dtype), start.header.shape.to_string(), wanted, there));
  }
  return start;
}

Dims fortran_strides(const Shape& shape) {
  Dims strides;
  std::int64_t stride = 1;
  for (const std::int64_t size : shape) {
    strides.push_back(stride);
    stride *= size;
  }
  return strides;
}

/// The elements of a file in row-major order; bools are 0 or 1.
HostArray make_array(const Header& header, std::vector<std::byte> elements) {
  HostArray array{header.dtype, header.shape, std::move(elements)};
  if (array.dtype == DType::boolean) {
    for (std::byte& value : array.bytes) {
      value = value == std::byte{0} ? std::byte{0} : std::byte{1};
    }
  }
  if (header.fortran_order && array.shape.element_count() > 0) {
    const std::vector<std::byte> columns = array.bytes;
    copy_strided({columns.data(), array.dtype, array.shape, fortran_strides(array.shape)},
                 {array.bytes.data(), array.dtype, array.shape, row_major_strides(array.shape)});
  }
  return array;
}

std::string python_shape(const Shape& shape) {
  std::string text = "(";
  for (const std::int64_t size : shape) {
    text += fmt::format("{}, ", size);
  }
  if (shape.rank() > 1) {
    text.erase(text.size() - 2);
  } else if (shape.rank() == 1) {
    text.pop_back();
  }
  return text + ")";
}

std::string_view code_of(DType dtype) {
  if (is_storage(dtype)) {
    return "u1";  // NumPy has no name for them: the bytes as they are
  }
  for (const Code& code : kCodes) {
    if (code.dtype == dtype) {
      return code.code;
    }
  }
  detail::check_failed("dtype", "an element type without a NumPy code", __FILE__, __LINE__);
}

std::string make_header(const HostArray& array) {
  const char order = size_of(array.dtype) == 1 ? '|' : '<';
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': {}, }}",
                                 order, code_of(array.dtype), python_shape(array.shape));
  const std::size_t fixed = kMagic.size() + 4;
  text.resize(round_up(fixed + text.size() + 1, kHeaderAlignment) - fixed - 1, ' ');
  text += '\n';
  std::string header(kMagic);
  header += '\x01';
  header += '\0';
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace

HostArray parse_npy(std::span<const std::byte> file) {
  const Start start = parse_start(file, file.size());
  const std::span<const std::byte> elements = file.subspan(start.elements_at);
  return make_array(start.header, {elements.begin(), elements.end()});
}

HostArray read_npy(const std::filesystem::path& path) {
  constexpr std::uint64_t kMostOfAHeader = kLongestHeader + 64;
  const InputFile file(path);
  try {
    const Start start =
        parse_start(file.bytes(0, std::min(file.size(), kMostOfAHeader)), file.size());
    return make_array(start.header, file.bytes(start.elements_at, file.size() - start.elements_at));
  } catch (const Error& error) {
    throw error.code() == ErrorCode::io ? error : error.in(fmt::format("\"{}\"", path.string()));
  }
}

void write_npy(const std::filesystem::path& path, const HostArray& array) {
  std::string bytes = make_header(array);
  bytes.append(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
  write_file(path, bytes);
}

}  // namespace tilemesh::cli
