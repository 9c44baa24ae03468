#pragma once

namespace tilemesh::cpu {

/// Sets the number of OpenMP threads of the calling thread, which is what kernels look at.
void set_omp_threads(int threads);
int omp_threads();

/// Sets it as long as it lives; costs a load if it is right already.
class OmpThreads {
 public:
  explicit OmpThreads(int threads) : before_(omp_threads()), changed_(before_ != threads) {
    if (changed_) {
      set_omp_threads(threads);
    }
  }
  ~OmpThreads() {
    if (changed_) {
      set_omp_threads(before_);
    }
  }
  OmpThreads(const OmpThreads&) = delete;
  OmpThreads& operator=(const OmpThreads&) = delete;

 private:
  int before_;
  bool changed_;
};

}  // namespace tilemesh::cpu
