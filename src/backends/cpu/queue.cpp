#include "backends/cpu/queue.hpp"

#include "tilemesh/device/worker_scope.hpp"

#include "backends/cpu/omp_threads.hpp"
#include "backends/cpu/program.hpp"

namespace tilemesh::cpu {

namespace {

/// A run on the device's own thread for a caller that waits on its stack.
struct HandedOver {
  CpuProgram& program;
  std::span<const DeviceAddress> bases;
  std::exception_ptr failure = nullptr;
};

}  // namespace

bool CpuQueue::try_run_inline(DeviceProgram& program, std::span<const DeviceAddress> bases) {
  auto& prepared = static_cast<CpuProgram&>(program);
  if (prepared.membership() != nullptr) {
    return false;
  }
  if (prepared.threads() > 1) {
    return hand_over(program, bases);
  }
  const detail::Strand::Claim claim(*core_, *lane_);
  if (!claim.held()) {
    return false;
  }
  const detail::WorkerScope scope;
  const OmpThreads guard(prepared.threads());
  prepared.run(bases);
  return true;
}

/// An OpenMP team belongs to the thread that opened it, so the device's own thread runs what needs
/// one. Allocates nothing: the event is recycled, the function fits its std::function.
bool CpuQueue::hand_over(DeviceProgram& program, std::span<const DeviceAddress> bases) {
  if (!core_->idle() || detail::on_worker_thread()) {
    return false;
  }
  HandedOver job{static_cast<CpuProgram&>(program), bases};
  Command command{.work = HostCommand{[run = &job] {
                    try {
                      run->program.run(run->bases);
                    } catch (...) {
                      run->failure = std::current_exception();
                    }
                  }}};
  const Event done = command.done.event();
  core_->enqueue(lane_, std::move(command));
  done.wait();
  if (job.failure) {
    std::rethrow_exception(job.failure);
  }
  return true;
}

}  // namespace tilemesh::cpu
