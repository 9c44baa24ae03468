#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "compiler/onnx/node.hpp"
#include "compiler/onnx/tensor.hpp"

/// Signals and their spectra, and sequences and what they are made of.
namespace tilemesh::onnx_importer {
namespace {

// A hostile model could ask for any size.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 25;

// The axis was an attribute before opset 20.
std::int64_t dft_axis(const Node& node, int rank) {
  if (rank < 2) node.invalid("it wants a last dim of real and imaginary parts behind the signal's");
  std::int64_t axis = node.version() < 20 ? node.integer("axis", 1) : -2;
  if (node.version() >= 20 && node.has(2)) axis = node.known_integer(2, "axis");
  axis = node.normal_axis(axis, rank);
  if (axis == rank - 1) node.invalid("its axis is that of the real and imaginary parts");
  return axis;
}

void dft(Node& node) {
  const Value x = node.in(0);
  const std::int64_t axis = dft_axis(node, node.rank(x));
  const bool inverse = node.integer("inverse", 0) != 0;
  const bool onesided = node.integer("onesided", 0) != 0;
  const std::int64_t size = node.shape(x)[static_cast<int>(axis)];
  const std::int64_t whole = inverse && onesided ? 2 * (size - 1) : size;
  node.set(0, node.emit("dft", {x},
                        {{"axis", axis},
                         {"inverse", std::int64_t{inverse}},
                         {"onesided", std::int64_t{onesided}},
                         {"length", node.has(1) ? node.known_integer(1, "dft_length") : whole}}));
}

// The indices of overlapping frames of a signal.
Value frame_indices(Node& node, std::int64_t frames, std::int64_t step, std::int64_t length) {
  if (frames > kMaxElements / length) {
    node.unsupported(
        fmt::format("it cuts the signal into {} frames of {}: up to {} elements are "
                    "supported",
                    frames, length, kMaxElements));
  }
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(frames * length));
  for (std::int64_t frame = 0; frame < frames; ++frame) {
    for (std::int64_t i = 0; i < length; ++i)
      indices.push_back(frame * step + i);
  }
  return node.constant(make_constant(Shape{frames, length}, indices));
}

// Frames of the signal, weighted, and the spectrum of each.
void stft(Node& node) {
  Value signal = node.in(0);
  if (node.rank(signal) == 2) {
    const Shape shape = node.shape(signal);
    signal = node.reshape(signal, Shape{shape[0], shape[1], 1});
  }
  if (node.rank(signal) != 3) {
    node.invalid(fmt::format("its signal is {}, [N,length,1 or 2] is wanted",
                             node.shape(signal).to_string()));
  }
  const std::int64_t size = node.shape(signal)[1];
  const std::int64_t step = node.known_integer(1, "frame_step");
  const bool windowed = node.has(2);
  const std::int64_t length = node.has(3) ? node.known_integer(3, "frame_length")
                              : windowed  ? node.shape(node.in(2)).element_count()
                                          : size;
  if (step < 1 || length < 1 || length > size) {
    node.invalid(
        fmt::format("it cuts a signal of {} into frames of {}, {} apart", size, length, step));
  }
  const std::int64_t frames = (size - length) / step + 1;
  Value framed = node.emit("gather", {signal, frame_indices(node, frames, step, length)},
                           {{"axis", std::int64_t{1}}});
  if (windowed) {
    framed = node.emit("mul", {framed, node.reshape(node.in(2), Shape{length, 1})});
  }
  node.set(0, node.emit("dft", {framed},
                        {{"axis", std::int64_t{2}},
                         {"inverse", std::int64_t{0}},
                         {"onesided", node.integer("onesided", 1)},
                         {"length", length}}));
}

double mel_of(double hertz) {
  return 2595 * std::log10(1 + hertz / 700);
}
double hertz_of(double mel) {
  return 700 * (std::pow(10, mel / 2595) - 1);
}

/// The bins of a spectrum where the triangles of a mel filter bank begin, peak and end.
std::vector<std::int64_t> mel_corners(const Node& node, std::int64_t bands, std::int64_t length) {
  const auto rate = static_cast<double>(node.known_integer(2, "sample_rate"));
  const double low = mel_of(node.known_number(3, "lower_edge_hertz"));
  const double high = mel_of(node.known_number(4, "upper_edge_hertz"));
  const double step = (high - low) / static_cast<double>(bands + 2);
  std::vector<std::int64_t> corners;
  for (std::int64_t i = 0; i < bands + 2; ++i) {
    const double hertz = hertz_of(low + static_cast<double>(i) * step);
    const double bin = std::floor(static_cast<double>(length + 1) * hertz / rate);
    if (!(bin >= 0 && bin <= static_cast<double>(length / 2))) {
      node.invalid(fmt::format("a band ends in bin {} of {}", bin, length / 2 + 1));
    }
    corners.push_back(static_cast<std::int64_t>(bin));
  }
  return corners;
}

void mel_weight_matrix(Node& node) {
  const std::int64_t bands = node.known_integer(0, "num_mel_bins");
  const std::int64_t length = node.known_integer(1, "dft_length");
  if (bands < 0 || length < 1 || bands > kMaxElements ||
      length / 2 + 1 > kMaxElements / (bands + 1)) {
    node.unsupported(fmt::format("it makes {} bands of a spectrum of {}", bands, length));
  }
  const std::vector<std::int64_t> corners = mel_corners(node, bands, length);
  std::vector<double> weights(static_cast<std::size_t>((length / 2 + 1) * bands));
  for (std::int64_t band = 0; band < bands; ++band) {
    const auto corner = corners.begin() + band;
    const auto set = [&](std::int64_t bin, std::int64_t part, std::int64_t whole) {
      weights[static_cast<std::size_t>(bin * bands + band)] =
          static_cast<double>(part) / static_cast<double>(whole);
    };
    if (corner[0] == corner[1]) set(corner[1], 1, 1);
    for (std::int64_t bin = corner[0]; corner[0] != corner[1] && bin <= corner[1]; ++bin)
      set(bin, bin - corner[0], corner[1] - corner[0]);
    for (std::int64_t bin = corner[1]; bin < corner[2]; ++bin)
      set(bin, corner[2] - bin, corner[2] - corner[1]);
  }
  const DType dtype = dtype_of(node.integer("output_datatype", 1), "output_datatype");
  node.set(0,
           node.cast(node.constant(make_constant(Shape{length / 2 + 1, bands}, weights)), dtype));
}

void tf_idf(Node& node) {
  if (node.has_attribute("pool_strings")) {
    node.unsupported("programs have no strings: number the words before, as pool_int64s");
  }
  const std::int64_t longest = node.required_integer("max_gram_length");
  node.set(0, node.emit("ngram_counts", {node.in(0)},
                        {{"mode", node.text("mode", "TF")},
                         {"shortest", node.required_integer("min_gram_length")},
                         {"longest", longest},
                         {"max_skip", node.required_integer("max_skip_count")},
                         {"pool", node.required_integers("pool_int64s")},
                         {"starts", node.required_integers("ngram_counts")},
                         {"columns", node.required_integers("ngram_indexes")},
                         {"weights", node.numbers("weights")}}));
}

constexpr OnnxOp kRows[] = {
    {.name = "DFT", .since = 17, .handler = dft, .values_needed = 0b110},
    {.name = "MelWeightMatrix",
     .since = 17,
     .handler = mel_weight_matrix,
     .values_needed = 0b11111},
    {.name = "TfIdfVectorizer", .since = 9, .handler = tf_idf},
    {.name = "STFT", .since = 17, .handler = stft, .values_needed = 0b1010},
};

}  // namespace

std::span<const OnnxOp> spectrum_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
