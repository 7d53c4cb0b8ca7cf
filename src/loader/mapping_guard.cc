#include "loader/mapping_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>

namespace rouse::loader {
namespace {

constexpr uintptr_t kPageBytes = 4096;
constexpr size_t kSlots = 64;

// Read by the signal handler: plain atomics, no locks. `begin` is 0 while the slot is free, and
// written last.
struct Slot {
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<uintptr_t> broken_at{0};
};
std::array<Slot, kSlots> slots;
struct sigaction previous_action;

// Only what may be called in a signal handler: atomics, mmap and sigaction by system call.
void OnSigbus(int number, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Slot& slot : slots) {
    const uintptr_t begin = slot.begin.load();
    const uintptr_t end = slot.end.load();
    if (begin == 0 || address < begin || address >= end) continue;
    const uintptr_t page = address / kPageBytes * kPageBytes;
    // The lowest fault is the one that tells where the file ends.
    uintptr_t noted = slot.broken_at.load();
    while ((noted == 0 || page < noted) && !slot.broken_at.compare_exchange_weak(noted, page)) {
    }
    auto* const at = static_cast<char*>(info->si_addr) - (address - page);
    void* const zeros =
        mmap(at, end - page, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (zeros != MAP_FAILED) return;
  }
  // Not ours. As before: hand on, or let the kernel end the process when the access is tried again.
  if ((previous_action.sa_flags & SA_SIGINFO) != 0 && previous_action.sa_sigaction != nullptr) {
    previous_action.sa_sigaction(number, info, context);
    return;
  }
  if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(number);
    return;
  }
  struct sigaction plain{};
  plain.sa_handler = SIG_DFL;
  sigaction(SIGBUS, &plain, nullptr);
}

void InstallHandler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_sigaction = OnSigbus;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous_action);
  });
}

class SlotGuard : public MappingGuard {
 public:
  explicit SlotGuard(Slot& slot, uintptr_t begin) : slot_(slot), begin_(begin) {}
  ~SlotGuard() override {
    slot_.begin = 0;
    slot_.end = 0;
  }

  bool Broken() const override { return slot_.broken_at.load() != 0; }
  std::optional<int64_t> BrokenAt() const override {
    const uintptr_t at = slot_.broken_at.load();
    if (at == 0) return std::nullopt;
    return static_cast<int64_t>(at - begin_);
  }

 private:
  Slot& slot_;
  const uintptr_t begin_;
};

}  // namespace

std::unique_ptr<MappingGuard> MappingGuard::Over(const std::byte* address, int64_t bytes) {
  InstallHandler();
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto begin = reinterpret_cast<uintptr_t>(address) / kPageBytes * kPageBytes;
  const uintptr_t end = reinterpret_cast<uintptr_t>(address) + static_cast<uintptr_t>(bytes);
  for (Slot& slot : slots) {
    if (slot.end.load() != 0) continue;
    slot.broken_at = 0;
    slot.end = (end + kPageBytes - 1) / kPageBytes * kPageBytes;
    slot.begin = begin;
    return std::make_unique<SlotGuard>(slot, begin);
  }
  return nullptr;
}

}  // namespace rouse::loader
