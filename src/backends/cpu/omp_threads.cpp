#include "backends/cpu/omp_threads.hpp"

#include <omp.h>

namespace tilemesh::cpu {

void set_omp_threads(int threads) {
  omp_set_num_threads(threads);
}

int omp_threads() {
  return omp_get_max_threads();
}

}  // namespace tilemesh::cpu
