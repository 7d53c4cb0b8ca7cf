// Keeps the machine from suspending while a run idles, when the user asks for it (--inhibit-sleep)
// and systemd runs. Never by itself: a machine that suspends by its owner's will is a finding.
#pragma once

#include "base/result.h"
#include "os/process.h"

namespace rouse::lab {

// A process that holds systemd's lock against sleep and idle; the lock ends with it, and it ends
// with the Child, also when the tool is killed. kUnsupported where systemd does not run, kState
// with its own words when it refuses.
Result<os::Child> InhibitSleep();

}  // namespace rouse::lab
