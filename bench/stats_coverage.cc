// How often the intervals hold what they should, and how often verdicts are wrong, by simulation
// with skewed data: the tables of docs/statistics.md. Prints Markdown; every number is a share of
// simulated experiments. --trials N (default 20,000; 400 with --smoke), seed fixed.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numbers>
#include <string>
#include <vector>

#include "stats/bootstrap.h"
#include "stats/contrast.h"
#include "stats/summary.h"
#include "stats/verdict.h"

namespace {

using rouse::stats::Expect;
using rouse::stats::Interval;
using rouse::stats::Random;
using rouse::stats::Shift;
using rouse::stats::Verdict;

double Normal(Random& random) {
  return std::sqrt(-2 * std::log(random.Unit())) * std::cos(2 * std::numbers::pi * random.Unit());
}

// Lognormal with sigma 0.5: skewed to the right as latencies are; its true quantiles are known.
double Latency(Random& random) { return 100 * std::exp(0.5 * Normal(random)); }

double TrueQuantile(double z) { return 100 * std::exp(0.5 * z); }
const double kTrueMean = 100 * std::exp(0.125);

std::vector<double> Draw(int n, Random& random) {
  std::vector<double> values;
  for (int i = 0; i < n; ++i) values.push_back(Latency(random));
  return values;
}

// Pairs that share their block's disturbance, so that differences are smaller than values.
void DrawPairs(int n, double shift, Random& random, std::vector<double>& t,
               std::vector<double>& c) {
  t.clear();
  c.clear();
  for (int i = 0; i < n; ++i) {
    const double block = 50 * random.Unit();
    c.push_back(block + Latency(random));
    t.push_back(block + Latency(random) + shift);
  }
}

std::string Share(int64_t hits, int64_t trials) {
  char text[32];
  if (trials == 0) return "-";
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(hits) / static_cast<double>(trials));
  return text;
}

bool Holds(const std::optional<Interval>& interval, double value) {
  return interval && interval->low <= value && value <= interval->high;
}

void PercentileTable(int trials) {
  std::printf(
      "Two-sided 95 %% order-statistic intervals (wanted: at least 0.95)\n\n"
      "| n | median | p90 | p95 |\n|---|---|---|---|\n");
  for (const int n : {6, 8, 12, 20, 36, 60, 72, 120}) {
    Random random(static_cast<uint64_t>(n));
    int64_t hits[3] = {0, 0, 0};
    int64_t counted[3] = {0, 0, 0};
    const double truth[3] = {TrueQuantile(0), TrueQuantile(1.2815515655446004),
                             TrueQuantile(1.6448536269514722)};
    for (int trial = 0; trial < trials; ++trial) {
      const auto summary = rouse::stats::Summarize({Draw(n, random), 0, {}});
      const rouse::stats::Quantile* const quantiles[3] = {&summary.median, &summary.p90,
                                                          &summary.p95};
      for (int which = 0; which < 3; ++which) {
        if (!quantiles[which]->low.Value()) continue;
        ++counted[which];
        hits[which] += Holds(Interval{quantiles[which]->low.value, quantiles[which]->high.value},
                             truth[which]);
      }
    }
    std::printf("| %d | %s | %s | %s |\n", n, Share(hits[0], counted[0]).c_str(),
                Share(hits[1], counted[1]).c_str(), Share(hits[2], counted[2]).c_str());
  }
}

void ShiftTable(int trials) {
  std::printf(
      "\n95 %% intervals for a shift of +20 (wanted: 0.95)\n\n"
      "| n | paired HL | two-sample HL | paired mean | two-sample mean |\n"
      "|---|---|---|---|---|\n");
  for (const int n : {6, 8, 10, 12, 16, 20, 30, 60}) {
    Random random(static_cast<uint64_t>(1000 + n));
    int64_t hits[4] = {0, 0, 0, 0};
    std::vector<double> t;
    std::vector<double> c;
    const int mean_trials = trials / 20;
    for (int trial = 0; trial < trials; ++trial) {
      DrawPairs(n, 20, random, t, c);
      hits[0] += Holds(rouse::stats::PairedShift(t, c, 0.95).ci, 20);
      hits[1] += Holds(rouse::stats::TwoSampleShift(t, c, 0.95).ci, 20);
      if (trial >= mean_trials) continue;
      const rouse::stats::BootstrapOptions options{static_cast<uint64_t>(trial + 1), 1000};
      hits[2] += Holds(rouse::stats::MeanShift(t, c, true, 0.95, options).ci, 20);
      hits[3] += Holds(rouse::stats::MeanShift(t, c, false, 0.95, options).ci, 20);
    }
    std::printf("| %d | %s | %s | %s | %s |\n", n, Share(hits[0], trials).c_str(),
                Share(hits[1], trials).c_str(), Share(hits[2], mean_trials).c_str(),
                Share(hits[3], mean_trials).c_str());
  }
}

// The percentile method and the bias-corrected one side by side: the reason for the choice.
void BootstrapTable(int trials) {
  std::printf(
      "\n95 %% intervals for a difference of percentiles (true difference 20 in all)\n\n"
      "| n | level | unpaired, percentile | unpaired, BC | paired, percentile | paired, BC "
      "|\n|---|---|---|---|---|---|\n");
  using rouse::stats::BootstrapKind;
  for (const auto& [n, level] : std::vector<std::pair<int, double>>{
           {36, 0.9}, {60, 0.9}, {120, 0.9}, {72, 0.95}, {120, 0.95}, {300, 0.95}}) {
    Random random(static_cast<uint64_t>(2000 + n));
    int64_t hits[4] = {0, 0, 0, 0};
    std::vector<double> t;
    std::vector<double> c;
    for (int trial = 0; trial < trials; ++trial) {
      DrawPairs(n, 20, random, t, c);
      for (int which = 0; which < 4; ++which) {
        const bool paired = which >= 2;
        const rouse::stats::BootstrapOptions options{static_cast<uint64_t>(trial + 1), 1000};
        std::vector<double> redrawn = rouse::stats::RedrawnQuantiles(
            t, c, level, paired, rouse::stats::Combine::kDifference, options);
        const double estimate =
            rouse::stats::NearestRank(t, level) - rouse::stats::NearestRank(c, level);
        hits[which] += Holds(BootstrapInterval(redrawn, estimate, 0.95,
                                               which % 2 == 0 ? BootstrapKind::kPercentile
                                                              : BootstrapKind::kBiasCorrected),
                             20);
      }
    }
    std::printf("| %d | %.2f | %s | %s | %s | %s |\n", n, level, Share(hits[0], trials).c_str(),
                Share(hits[1], trials).c_str(), Share(hits[2], trials).c_str(),
                Share(hits[3], trials).c_str());
  }
}

// Verdicts on data where the truth is known: A/A (no difference), and a true shift at the margin.
void VerdictTable(int trials) {
  std::printf(
      "\nVerdicts, margin 20, paired median. Wrong ones: A/A adopted, true -20 either way (its "
      "limit: 0.025), equal adopted at +20 (0.05)\n\n| n | A/A: decrease adopted | A/A: "
      "decrease rejected (right) | true -20: "
      "adopted | true -20: rejected | true -40: adopted (right) | true +20: equal adopted |\n"
      "|---|---|---|---|---|---|---|\n");
  for (const int n : {6, 10, 20, 40, 60}) {
    Random random(static_cast<uint64_t>(3000 + n));
    int64_t hits[6] = {0, 0, 0, 0, 0, 0};
    std::vector<double> t;
    std::vector<double> c;
    const auto verdict = [&](double shift, Expect expect) {
      DrawPairs(n, shift, random, t, c);
      const double confidence = rouse::stats::IntervalConfidence(expect, 0.95);
      return Judge(expect, 20, rouse::stats::PairedShift(t, c, confidence).ci);
    };
    for (int trial = 0; trial < trials; ++trial) {
      const Verdict same = verdict(0, Expect::kDecrease);
      hits[0] += same == Verdict::kAdopt;
      hits[1] += same == Verdict::kReject;
      const Verdict at_margin = verdict(-20, Expect::kDecrease);
      hits[2] += at_margin == Verdict::kAdopt;
      hits[3] += at_margin == Verdict::kReject;
      hits[4] += verdict(-40, Expect::kDecrease) == Verdict::kAdopt;
      hits[5] += verdict(20, Expect::kEqual) == Verdict::kAdopt;
    }
    std::printf("| %d |", n);
    for (const int64_t count : hits) std::printf(" %s |", Share(count, trials).c_str());
    std::printf("\n");
  }
}

// Whether "about N pairs would decide" keeps its word.
void PowerTable(int trials) {
  std::printf(
      "\nPower of the smallest detectable shift (sd of differences 71, wanted: at least "
      "0.8)\n\n| n | shift | found |\n|---|---|---|\n");
  for (const int n : {10, 20, 40, 60}) {
    Random random(static_cast<uint64_t>(4000 + n));
    // The spread of one difference of two latencies, measured once.
    const double sd = std::sqrt(2 * kTrueMean * kTrueMean * (std::exp(0.25) - 1));
    const double shift = rouse::stats::SmallestDetectableShift(n, sd, true, 0.95, 0.8);
    int64_t found = 0;
    std::vector<double> t;
    std::vector<double> c;
    for (int trial = 0; trial < trials; ++trial) {
      DrawPairs(n, shift, random, t, c);
      const Shift measured = rouse::stats::PairedShift(t, c, 0.95);
      found += measured.ci && measured.ci->low > 0;
    }
    std::printf("| %d | %.1f | %s |\n", n, shift, Share(found, trials).c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  int trials = 20'000;
  for (int index = 1; index < argc; ++index) {
    if (std::strcmp(argv[index], "--smoke") == 0) trials = 400;
    if (std::strcmp(argv[index], "--trials") == 0 && index + 1 < argc) {
      trials = std::atoi(argv[++index]);
    }
  }
  if (trials < 20) {
    std::fprintf(stderr, "stats_coverage: --trials must be at least 20\n");
    return 2;
  }
  std::printf("%d trials a cell (a twentieth of that for means and percentile differences)\n\n",
              trials);
  PercentileTable(trials);
  ShiftTable(trials);
  BootstrapTable(trials / 20);
  VerdictTable(trials);
  PowerTable(trials);
  return 0;
}
