// How long the statistics take: raw times in ns, one line per repetition, "name,n,ns". --smoke runs
// each once with small samples. The goals: a bootstrap of 10,000 resamples of n = 1,000 and a
// Hodges-Lehmann shift of 2 x 50,000 in less than a second each.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/time.h"
#include "stats/bootstrap.h"
#include "stats/contrast.h"
#include "stats/summary.h"

namespace {

using rouse::stats::Random;

std::vector<double> Draw(int n, uint64_t seed) {
  Random random(seed);
  std::vector<double> values;
  for (int i = 0; i < n; ++i) values.push_back(1e8 * std::exp(2 * random.Unit()));
  return values;
}

template <typename Work>
void Time(const char* name, int n, int repetitions, const Work& work) {
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const rouse::MonoTime start = rouse::MonoNow();
    const double result = work();
    const int64_t ns = rouse::MonoNow() - start;
    // The result is printed so that the work cannot be left out.
    std::printf("%s,%d,%lld,%.17g\n", name, n, static_cast<long long>(ns), result);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = argc > 1 && std::strcmp(argv[1], "--smoke") == 0;
  const int repetitions = smoke ? 1 : 5;
  const int large = smoke ? 500 : 50'000;
  const int middle = smoke ? 100 : 1000;
  const std::vector<double> t = Draw(large, 1);
  const std::vector<double> c = Draw(large, 2);
  const std::vector<double> t_middle = Draw(middle, 3);
  const std::vector<double> c_middle = Draw(middle, 4);
  const rouse::stats::BootstrapOptions options{1, smoke ? 200 : 10'000};
  std::printf("name,n,ns,result\n");
  Time("summary", large, repetitions,
       [&] { return rouse::stats::Summarize({t, 0, {}}).p99.high.value; });
  Time("paired_shift", large, repetitions,
       [&] { return rouse::stats::PairedShift(t, c, 0.95).ci->high; });
  Time("two_sample_shift", large, repetitions,
       [&] { return rouse::stats::TwoSampleShift(t, c, 0.95).ci->high; });
  Time("bootstrap_p95_paired", middle, repetitions, [&] {
    return rouse::stats::QuantileShift(t_middle, c_middle, 0.95, true, 0.95, options).ci->high;
  });
  Time("bootstrap_p95_unpaired", middle, repetitions, [&] {
    return rouse::stats::QuantileShift(t_middle, c_middle, 0.95, false, 0.95, options).ci->high;
  });
  Time("bootstrap_mean_paired", middle, repetitions,
       [&] { return rouse::stats::MeanShift(t_middle, c_middle, true, 0.95, options).ci->high; });
  return 0;
}
