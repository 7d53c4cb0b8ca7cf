// How long /health takes while a load is held blocked, and while the load's threads keep every core
// busy with page faults: the I/O thread must not wait for either. Wanted: p99 <= 5 ms.
//
//   health_latency [--smoke] [SAMPLES]
//
// Prints one line per sample, "arm,connection,latency_ns", after "#" lines with the quantiles. The
// arms are interleaved in blocks, since a shared machine changes from second to second. The client
// stamps before write() and after the read() that completed the answer; "fresh" includes connect().
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "http/test_client.h"
#include "server/fake_engine.h"
#include "server/model_server.h"

namespace rouse {
namespace {

constexpr std::string_view kRequest = "GET /health HTTP/1.1\r\nHost: h\r\n\r\n";
constexpr std::string_view kExpected = "{\"status\":\"loading model\"}";
constexpr int kBlocks = 10;

// What a load does to the machine: fresh pages, faulted in and given back, on every core.
class BusyLoad {
 public:
  explicit BusyLoad(unsigned threads) {
    for (unsigned thread = 0; thread < threads; ++thread) {
      threads_.emplace_back([this] {
        constexpr size_t kBytes = 64U << 20U;
        while (!stop_) {
          void* const pages = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
          CHECK(pages != MAP_FAILED);
          ::munmap(pages, kBytes);
        }
      });
    }
  }
  ~BusyLoad() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

struct Arm {
  std::string name;
  bool busy = false;
  bool fresh = false;
  std::vector<int64_t> samples_ns = {};
};

void Measure(Arm& arm, int port, int count) {
  auto client = std::make_unique<http::test::Client>(port);
  for (int sample = 0; sample < count; ++sample) {
    const MonoTime start = MonoNow();
    if (arm.fresh) client = std::make_unique<http::test::Client>(port);
    client->Say(kRequest);
    const std::string heard = client->HearUntil(kExpected);
    const MonoTime end = MonoNow();
    CHECK(heard.ends_with(kExpected));
    arm.samples_ns.push_back(end - start);
  }
}

void PrintQuantiles(const Arm& arm) {
  std::vector<int64_t> sorted = arm.samples_ns;
  std::sort(sorted.begin(), sorted.end());
  const auto rank = [&](double share) {
    const auto at = static_cast<size_t>(share * static_cast<double>(sorted.size()));
    return static_cast<double>(sorted[std::min(at, sorted.size() - 1)]) / kNsPerUs;
  };
  std::printf("# %-14s n %zu  p50 %.0f us  p90 %.0f us  p99 %.0f us  max %.0f us\n",
              arm.name.c_str(), sorted.size(), rank(0.5), rank(0.9), rank(0.99),
              static_cast<double>(sorted.back()) / kNsPerUs);
}

int Main(int argc, char** argv) {
  int samples = 5000;
  for (int at = 1; at < argc; ++at) {
    const std::string_view word = argv[at];
    if (word == "--smoke") {
      samples = 200;
    } else if (std::from_chars(word.data(), word.data() + word.size(), samples).ec != std::errc()) {
      std::fprintf(stderr, "usage: health_latency [--smoke] [SAMPLES]\n");
      return 2;
    }
  }

  const auto control = std::make_shared<server::FakeControl>();
  control->load.Shut();
  auto server = server::ModelServer::Start({});
  CHECK(server.ok());
  server::ModelServer::RunOptions run;
  run.model = {"fake", "/proc/self/exe", {"/proc/self/exe"}, 1, {}};
  run.engine = std::make_unique<server::FakeEngine>(control);
  (*server)->Run(std::move(run));
  CHECK(control->load.AwaitWaiter());

  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<Arm> arms = {{.name = "blocked-kept"},
                           {.name = "blocked-fresh", .fresh = true},
                           {.name = "busy-kept", .busy = true},
                           {.name = "busy-fresh", .busy = true, .fresh = true}};
  for (int block = 0; block < kBlocks; ++block) {
    for (Arm& arm : arms) {
      const BusyLoad busy(arm.busy ? cores : 0);
      Measure(arm, (*server)->port(), std::max(1, samples / kBlocks));
    }
  }
  control->load.Open();

  std::printf("# /health during a load that is held blocked; busy: %u threads fault pages in\n",
              cores);
  for (const Arm& arm : arms) PrintQuantiles(arm);
  std::printf("arm,connection,latency_ns\n");
  for (const Arm& arm : arms) {
    for (const int64_t ns : arm.samples_ns) {
      std::printf("%s,%s,%lld\n", arm.busy ? "busy" : "blocked", arm.fresh ? "fresh" : "kept",
                  static_cast<long long>(ns));
    }
  }
  return 0;
}

}  // namespace
}  // namespace rouse

int main(int argc, char** argv) { return rouse::Main(argc, argv); }
