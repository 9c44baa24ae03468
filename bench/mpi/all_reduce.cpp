// Times MPI_Allreduce of floats by sum, in place, and prints {"us": x}: the median of some rounds
// of calls. All ranks spin. Run by tools/bench.py with two ranks bound to cores.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <mpi.h>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: mpi-all-reduce BYTES CALLS\n", stderr);
    return 2;
  }
  constexpr int kRounds = 7;
  const auto count = static_cast<int>(std::atoll(argv[1]) / static_cast<long long>(sizeof(float)));
  const int calls = std::max(1, std::atoi(argv[2]));
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  {
    std::vector<float> values(static_cast<std::size_t>(count));
    std::vector<double> times;
    for (int round = -1; round < kRounds; ++round) {  // the first warms up
      std::fill(values.begin(), values.end(), 0.0F);  // sums of sums stay finite
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      for (int i = 0; i < calls; ++i) {
        MPI_Allreduce(MPI_IN_PLACE, values.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      }
      const double us = (MPI_Wtime() - start) * 1e6 / calls;
      if (round >= 0) {
        times.push_back(us);
      }
    }
    if (rank == 0) {
      std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
      std::printf("{\"us\": %.4f}\n", times[kRounds / 2]);
    }
  }
  MPI_Finalize();
  return 0;
}
