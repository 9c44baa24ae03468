#include "terminal.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

namespace tilemesh::cli {
namespace {

constexpr std::chrono::milliseconds kQuietTime(500);
constexpr std::chrono::milliseconds kShortestInterval(50);
constexpr int kBarColumns = 30;
constexpr std::string_view kEraseLine = "\r\x1b[K";

bool coloured() {
  return ::isatty(STDERR_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n') || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result;
}

std::string printable_line(std::string_view text) {
  std::string result = printable(text);
  for (std::size_t at = result.find('\n'); at != std::string::npos; at = result.find('\n', at)) {
    result.replace(at, 1, "\\x0a");
  }
  return result;
}

void print_error(std::string_view message) {
  const std::string text = printable(message);
  std::fflush(stdout);
  if (coloured()) {
    fmt::print(stderr, "\x1b[1mtilemesh: \x1b[31merror:\x1b[0m {}\n", text);
  } else {
    fmt::print(stderr, "tilemesh: error: {}\n", text);
  }
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

std::string format_seconds(double seconds) {
  if (seconds < 1e-3) {
    return fmt::format("{:.1f} us", seconds * 1e6);
  }
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr std::array<std::string_view, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) {
    return fmt::format("{} B", bytes);
  }
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) {
    value /= 1024;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

Progress::Progress()
    : on_terminal_(::isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

Progress::~Progress() {
  clear();
}

void Progress::show(std::string_view what, double done) {
  const auto now = std::chrono::steady_clock::now();
  if (!on_terminal_ || now - start_ < kQuietTime || now - last_ < kShortestInterval) {
    return;
  }
  last_ = now;
  shown_ = true;
  const double part = std::clamp(done, 0.0, 1.0);
  const int full = static_cast<int>(part * kBarColumns);
  fmt::print(stderr, "{}[{:#<{}}{: <{}}] {:3.0f}% {}", kEraseLine, "", full, "", kBarColumns - full,
             part * 100, printable(what));
  std::fflush(stderr);
}

void Progress::clear() {
  if (shown_) {
    fmt::print(stderr, "{}", kEraseLine);
    std::fflush(stderr);
    shown_ = false;
  }
}

}  // namespace tilemesh::cli
