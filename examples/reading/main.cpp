// Reads a line of text from a picture with the PP-OCR recognition model.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <tilemesh/tilemesh.hpp>

namespace examples {
namespace {

namespace tm = tilemesh;  // not at global scope, where C has a struct of that name

constexpr int kHeight = 48;  // rows that the model wants

struct Picture {
  int width = 0;
  int height = 0;
  std::vector<unsigned char> rgb;  // row by row
};

/// A binary PPM ("P6", 8 bits).
Picture read_ppm(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string magic;
  Picture picture;
  int maximum = 0;
  if (!(file >> magic >> picture.width >> picture.height >> maximum) || magic != "P6" ||
      maximum != 255 || picture.width < 1 || picture.height != kHeight || picture.width > 20000) {
    throw std::runtime_error(path + ": wants a binary PPM picture with 8 bits and " +
                             std::to_string(kHeight) + " rows");
  }
  file.get();
  picture.rgb.resize(static_cast<std::size_t>(picture.width) * kHeight * 3);
  if (!file.read(reinterpret_cast<char*>(picture.rgb.data()),
                 static_cast<std::streamsize>(picture.rgb.size()))) {
    throw std::runtime_error(path + ": the picture is cut short");
  }
  return picture;
}

/// Planes blue, green, red, scaled to [-1, 1]: what the model was trained on.
std::vector<float> to_planes(const Picture& picture) {
  const std::size_t pixels = static_cast<std::size_t>(picture.width) * kHeight;
  std::vector<float> planes(3 * pixels);
  for (std::size_t i = 0; i < pixels; ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      planes[c * pixels + i] = static_cast<float>(picture.rgb[3 * i + 2 - c]) / 127.5F - 1.0F;
    }
  }
  return planes;
}

/// One character a line; index 0 of the model's output is "nothing", the last one a space.
std::vector<std::string> read_characters(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> characters{""};
  for (std::string line; std::getline(file, line);) {
    characters.push_back(line);
  }
  if (characters.size() == 1) {
    throw std::runtime_error(path + ": holds no characters");
  }
  characters.emplace_back(" ");
  return characters;
}

struct Reading {
  std::string text;
  double confidence = 0;
};

/// Connectionist temporal classification, best path: repeated characters count once, "nothing"
/// separates.
Reading decode(const tm::Tensor& scores, const std::vector<std::string>& characters) {
  const std::vector<float> values = scores.values<float>();
  const auto steps = static_cast<std::size_t>(scores.shape()[1]);
  const auto classes = static_cast<std::size_t>(scores.shape()[2]);
  if (classes != characters.size()) {
    throw std::runtime_error("the model knows " + std::to_string(classes) +
                             " characters, the list " + std::to_string(characters.size()));
  }
  Reading reading;
  int count = 0;
  std::size_t last = 0;
  for (std::size_t t = 0; t < steps; ++t) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(t * classes);
    const auto best = std::max_element(first, first + static_cast<std::ptrdiff_t>(classes));
    const auto index = static_cast<std::size_t>(best - first);
    if (index != 0 && index != last) {
      reading.text += characters[index];
      reading.confidence += *best;
      ++count;
    }
    last = index;
  }
  reading.confidence /= std::max(count, 1);
  // The margins of the picture read as spaces.
  const auto begin = reading.text.find_first_not_of(' ');
  const auto end = reading.text.find_last_not_of(' ');
  reading.text = begin == std::string::npos ? "" : reading.text.substr(begin, end - begin + 1);
  return reading;
}

void read_line(const std::string& model_path, const std::string& characters_path,
               const std::string& picture_path, const tm::Mesh& mesh) {
  const Picture picture = read_ppm(picture_path);
  const std::vector<std::string> characters = read_characters(characters_path);
  tm::Model model =
      tm::Model::compile(mesh, model_path, {.shapes = {{"x", {1, 3, kHeight, picture.width}}}});
  const tm::Tensor image =
      tm::Tensor::adopt(to_planes(picture), {.shape = {1, 3, kHeight, picture.width}});
  const tm::NamedTensors outputs = model.run({{"x", image}});
  const Reading reading = decode(outputs.begin()->second, characters);
  std::printf("%s\n(confidence %.3f, on a mesh of %s)\n", reading.text.c_str(), reading.confidence,
              mesh.shape().to_string().c_str());
}

}  // namespace

int main_or_throw(int argc, char** argv) {
  if (argc != 4 && !(argc == 6 && std::string(argv[4]) == "--mesh")) {
    std::fputs("usage: tilemesh-reading MODEL.onnx CHARACTERS.txt PICTURE.ppm [--mesh RxC]\n",
               stderr);
    return 2;
  }
  const auto shape = argc == 6 ? tm::MeshShape::parse(argv[5]) : tm::MeshShape{1, 1};
  read_line(argv[1], argv[2], argv[3], tm::Mesh::open({.shape = shape}));
  return 0;
}

}  // namespace examples

int main(int argc, char** argv) {
  try {
    return examples::main_or_throw(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tilemesh-reading: error: %s\n", error.what());
    return 1;
  }
}
