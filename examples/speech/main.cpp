// Finds speech in a WAV file with the Silero voice activity detector. The recurrent state is made
// on the mesh once and donated from step to step: only audio goes in, only a probability comes out.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <tilemesh/tilemesh.hpp>

#include "wav.hpp"

namespace examples {
namespace {

namespace tm = tilemesh;  // not at global scope, where C has a struct of that name

constexpr int kRate = 16000;  // samples a second
constexpr int kWindow = 512;  // samples a step
constexpr int kContext = 64;  // samples of the step before that the model wants again
constexpr double kStepSeconds = static_cast<double>(kWindow) / kRate;

struct Segment {
  double begin = 0;
  double end = 0;
};

/// Speech starts at 0.5 and ends after 0.1 s below 0.35; pieces under 0.25 s are no speech.
std::vector<Segment> find_segments(const std::vector<float>& probabilities) {
  constexpr double kMinSilence = 0.1;
  constexpr double kMinSpeech = 0.25;
  std::vector<Segment> segments;
  bool speaking = false;
  Segment current;
  for (std::size_t i = 0; i <= probabilities.size(); ++i) {
    const bool at_end = i == probabilities.size();
    const double now = static_cast<double>(i) * kStepSeconds;
    if (!at_end && probabilities[i] >= (speaking ? 0.35F : 0.5F)) {
      current = {speaking ? current.begin : now, now + kStepSeconds};
      speaking = true;
    } else if (speaking && (at_end || now - current.end >= kMinSilence)) {
      if (current.end - current.begin >= kMinSpeech) {
        segments.push_back(current);
      }
      speaking = false;
    }
  }
  return segments;
}

/// Rows of bars, one column for some steps, the highest probability of them.
void print_chart(const std::vector<float>& probabilities) {
  constexpr std::size_t kColumns = 90;
  constexpr int kRows = 6;
  const std::size_t per_column = (probabilities.size() + kColumns - 1) / kColumns;
  std::vector<float> columns;
  for (std::size_t i = 0; i < probabilities.size(); i += per_column) {
    const auto first = probabilities.begin() + static_cast<std::ptrdiff_t>(i);
    const auto last = probabilities.begin() +
                      static_cast<std::ptrdiff_t>(std::min(i + per_column, probabilities.size()));
    columns.push_back(*std::max_element(first, last));
  }
  static constexpr std::array<const char*, 9> kBars = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  for (int row = kRows - 1; row >= 0; --row) {
    std::printf("%5s │", row == kRows - 1 ? "1.0" : row == 0 ? "0.0" : "");
    for (const float value : columns) {
      const float level = value * kRows - static_cast<float>(row);
      std::fputs(kBars[static_cast<std::size_t>(std::clamp(level * 8.0F + 0.5F, 0.0F, 8.0F))],
                 stdout);
    }
    std::puts("");
  }
  const double seconds = static_cast<double>(probabilities.size()) * kStepSeconds;
  std::printf("      └");
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::fputs("─", stdout);
  }
  std::printf("\n       0 s%*.1f s\n", static_cast<int>(columns.size()) - 5, seconds);
}

void detect(const std::string& model_path, const std::string& audio_path, const tm::Mesh& mesh) {
  const std::vector<float> audio = read_wav(audio_path, kRate);

  tm::Graph graph = tm::import_onnx(
      model_path, {.shapes = {{"input", {1, kContext + kWindow}}, {"state", {2, 1, 128}}},
                   .values = {{"sr", tm::make_constant<std::int64_t>({kRate}, {})}}});
  const tm::Binary binary =
      tm::compile({graph}, {.mesh = mesh.shape(), .states = {{"state", "stateN"}}});
  const tm::Executable step = tm::prepare(mesh, binary.program());

  tm::Tensor state = tm::zeros(step.input("state"));
  tm::Tensor window = tm::empty(step.input("input"));
  std::vector<float> samples(kContext + kWindow, 0.0F);
  std::vector<float> probabilities;
  const tm::Counters before = mesh.counters();
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t at = 0; at + kWindow <= audio.size(); at += kWindow) {
    std::copy(samples.end() - kContext, samples.end(), samples.begin());
    std::copy_n(audio.begin() + static_cast<std::ptrdiff_t>(at), kWindow,
                samples.begin() + kContext);
    tm::copy(tm::Tensor::borrow(std::span(samples), {.shape = {1, kContext + kWindow}}, nullptr),
             window);
    std::vector<tm::Tensor> out = tm::run(step, {window, tm::donate(std::move(state))});
    probabilities.push_back(out[0].item<float>());
    state = std::move(out[1]);
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  const tm::Counters moved = mesh.counters() - before;

  print_chart(probabilities);
  const auto steps = static_cast<std::int64_t>(probabilities.size());
  for (const Segment& segment : find_segments(probabilities)) {
    std::printf("speech from %5.2f s to %5.2f s\n", segment.begin, segment.end);
  }
  if (steps == 0) {
    std::puts("the audio is shorter than one window");
    return;
  }
  const double seconds = static_cast<double>(steps) * kStepSeconds;
  std::printf("%lld steps of %d samples on a mesh of %s: real-time factor %.4f (%.0f us a step)\n",
              static_cast<long long>(steps), kWindow, mesh.shape().to_string().c_str(),
              spent.count() / seconds, spent.count() / static_cast<double>(steps) * 1e6);
  std::printf(
      "per step: %lld bytes from host to device (the audio), %lld back (the probability), "
      "%lld conversions\n",
      static_cast<long long>(moved.host_to_device_bytes / steps),
      static_cast<long long>(moved.device_to_host_bytes / steps),
      static_cast<long long>(moved.conversions / steps));
}

}  // namespace

int main_or_throw(int argc, char** argv) {
  if (argc != 3 && !(argc == 5 && std::string(argv[3]) == "--mesh")) {
    std::fputs("usage: tilemesh-speech MODEL.onnx AUDIO.wav [--mesh RxC]\n", stderr);
    return 2;
  }
  const auto shape = argc == 5 ? tm::MeshShape::parse(argv[4]) : tm::MeshShape{1, 1};
  detect(argv[1], argv[2], tm::Mesh::open({.shape = shape}));
  return 0;
}

}  // namespace examples

int main(int argc, char** argv) {
  try {
    return examples::main_or_throw(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tilemesh-speech: error: %s\n", error.what());
    return 1;
  }
}
