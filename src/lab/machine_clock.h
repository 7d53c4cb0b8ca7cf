// Suspend, reboot and steps of the wall clock between two attempts of a run: all three change what
// a "warm" machine is, or what a time label means, and none may pass unnoticed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "os/proc_root.h"
#include "results/attempt.h"

namespace rouse::lab {

struct MachineClocks {
  std::string boot_id;         // new at every boot; "" when the kernel does not tell
  int64_t suspended_ns = 0;    // CLOCK_BOOTTIME - CLOCK_MONOTONIC: grows by a suspend
  int64_t wall_offset_ns = 0;  // wall clock - CLOCK_BOOTTIME: changes by a step, not by slewing
};

// About 15 us.
MachineClocks ReadMachineClocks(const os::ProcRoot& root);

// "rebooted", "suspended", "clock_stepped", for what happened between two readings. After a reboot
// the other two mean nothing and are left out.
std::vector<results::Warning> ClockWarnings(const MachineClocks& before, const MachineClocks& now);

// How long the machine was suspended between two readings of one boot; 0 when it was not.
int64_t SuspendedBetween(const MachineClocks& before, const MachineClocks& now);

}  // namespace rouse::lab
