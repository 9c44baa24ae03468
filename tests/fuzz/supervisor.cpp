#include "supervisor.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kBatch = 2000;  // mutants of a child, after which a fresh one goes on
constexpr std::uint64_t kNone = ~std::uint64_t{0};

/// What a child tells its parent, in memory that both have.
struct Board {
  std::atomic<std::uint64_t> current{kNone};
  std::atomic<std::int64_t> begun{0};
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Outcome::count)> outcomes{};
  std::atomic<std::int64_t> slowest{0};  // nanoseconds
  std::atomic<std::uint64_t> slowest_number{0};
  std::atomic<std::int64_t> most_bytes{0};
  std::array<char, 2000> said{};  // of the current mutant
};

std::int64_t now() {
  return Clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

std::int64_t resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

/// Exit codes of a child that ended itself.
enum : int { kFinished = 0, kFaulty = 41, kTooLarge = 42 };

struct Child {
  pid_t process = -1;
  int messages = -1;
  Board* board = nullptr;
  std::uint64_t end = 0;  // of its numbers

  bool running() const { return process > 0; }
};

class Supervisor {
 public:
  Supervisor(const SuperviseOptions& options,
             const std::function<Outcome(std::uint64_t, std::string&)>& attempt)
      : options_(options),
        attempt_(attempt),
        next_(options.from),
        end_(options.from + options.count) {}

  Tally run() {
    std::vector<Child> children(static_cast<std::size_t>(std::max(options_.jobs, 1)));
    for (Child& child : children) {
      void* memory =
          ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      TILEMESH_CHECK(memory != MAP_FAILED, "no memory for a child's board");
      child.board = new (memory) Board;
      child.messages = ::memfd_create("messages", MFD_CLOEXEC);
    }
    while (step(children))
      ::usleep(2000);
    for (Child& child : children) {
      add(*child.board);
      ::close(child.messages);
      ::munmap(child.board, sizeof(Board));
    }
    return tally_;
  }

 private:
  /// Looks after every child once; false at the end.
  bool step(std::vector<Child>& children) {
    bool any = false;
    for (Child& child : children) {
      if (!child.running() && next_ < end_ && tally_.faults.size() < options_.most_faults) {
        const std::uint64_t from = next_;
        next_ = std::min(end_, from + kBatch);
        start(child, from, next_);
      }
      if (!child.running()) continue;
      any = true;
      watch(child);
    }
    return any;
  }

  void start(Child& child, std::uint64_t from, std::uint64_t end) {
    child.end = end;
    child.board->current = from;
    child.board->begun = now();
    std::fflush(nullptr);
    TILEMESH_CHECK(::ftruncate(child.messages, 0) == 0, "a child's messages can't be emptied");
    child.process = ::fork();
    TILEMESH_CHECK(child.process >= 0, "no process for the mutants");
    if (child.process == 0) live(child, from);
  }

  void watch(Child& child) {
    int status = 0;
    const double seconds = static_cast<double>(now() - child.board->begun) * 1e-9;
    const bool hangs = seconds > options_.seconds_a_mutant;
    if (hangs) ::kill(child.process, SIGKILL);
    if (::waitpid(child.process, &status, hangs ? 0 : WNOHANG) != child.process) return;
    child.process = -1;
    if (!hangs && WIFEXITED(status) && WEXITSTATUS(status) == kFinished) return;
    const std::uint64_t number = child.board->current;
    tally_.faults.push_back({number, describe(child, status, hangs)});
    std::printf("fault at %llu: %s\n", static_cast<unsigned long long>(number),
                tally_.faults.back().text.c_str());
    if (number + 1 < child.end && tally_.faults.size() < options_.most_faults)
      start(child, number + 1, child.end);
  }

  std::string describe(const Child& child, int status, bool hangs) const {
    std::string said(child.board->said.data());
    if (hangs) return fmt::format("no end within {} s", options_.seconds_a_mutant);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kFaulty) return said;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kTooLarge)
      return fmt::format("{} MiB resident", child.board->most_bytes >> 20);
    const std::string how = WIFSIGNALED(status) ? fmt::format("signal {} ({})", WTERMSIG(status),
                                                              ::strsignal(WTERMSIG(status)))
                                                : fmt::format("exit code {}", WEXITSTATUS(status));
    return how + first_messages(child.messages);
  }

  /// What a sanitizer or an abort has to say begins its report.
  static std::string first_messages(int descriptor) {
    std::string text(2500, '\0');
    const ssize_t count = ::pread(descriptor, text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return text.empty() ? "" : "\n" + text;
  }

  [[noreturn]] void live(Child& child, std::uint64_t from) {
    ::dup2(child.messages, STDERR_FILENO);
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    Board& board = *child.board;
    const std::int64_t fresh = resident_bytes();
    for (std::uint64_t number = from; number < child.end; ++number) {
      board.said[0] = '\0';
      board.begun = now();
      board.current = number;
      const Outcome outcome = attempt_once(number, board);
      ++board.outcomes[static_cast<std::size_t>(outcome)];
      const std::int64_t took = now() - board.begun;
      if (took > board.slowest) {
        board.slowest = took;
        board.slowest_number = number;
      }
      board.most_bytes = std::max<std::int64_t>(board.most_bytes, resident_bytes());
      if (is_fault(outcome)) ::_exit(kFaulty);
      if (resident_bytes() - fresh > options_.most_bytes) ::_exit(kTooLarge);
    }
    ::_exit(kFinished);
  }

  Outcome attempt_once(std::uint64_t number, Board& board) const {
    std::string text;
    Outcome outcome = Outcome::exception;
    try {
      outcome = attempt_(number, text);
    } catch (const Error& error) {
      outcome = error.code() == ErrorCode::internal ? Outcome::internal : Outcome::refused;
      text = error.what();
    } catch (const std::exception& error) {
      text = fmt::format("{}: {}", typeid(error).name(), error.what());
    }
    text = fmt::format("{}: {}", to_string(outcome), text);
    std::snprintf(board.said.data(), board.said.size(), "%s", text.c_str());
    return outcome;
  }

  void add(const Board& board) {
    for (std::size_t i = 0; i < tally_.outcomes.size(); ++i)
      tally_.outcomes[i] += board.outcomes[i];
    if (static_cast<double>(board.slowest) * 1e-9 > tally_.slowest_seconds) {
      tally_.slowest_seconds = static_cast<double>(board.slowest) * 1e-9;
      tally_.slowest = board.slowest_number;
    }
    tally_.most_bytes = std::max<std::int64_t>(tally_.most_bytes, board.most_bytes);
  }

  const SuperviseOptions& options_;
  const std::function<Outcome(std::uint64_t, std::string&)>& attempt_;
  std::uint64_t next_;
  std::uint64_t end_;
  Tally tally_;
};

}  // namespace

Tally supervise(const SuperviseOptions& options,
                const std::function<Outcome(std::uint64_t number, std::string& text)>& attempt) {
  return Supervisor(options, attempt).run();
}

}  // namespace tilemesh::fuzz
