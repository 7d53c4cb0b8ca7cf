// The lab's own loads, as they run inside a child process of this binary (`rouse worker ROLE`):
// memory held as ballast, a busy processor, a busy disk, a busy server, and the co-tenant sentinel.
// The parent's side is lab/contention.h. Not for users: the arguments may change at any time.
//
// Protocol: when the load stands, one line of JSON goes to stdout, {"ready": true, ...}; SIGTERM
// ends the load, and a last line, {"report": true, ...}, tells what it did. A load that cannot be
// brought about prints {"error": "..."} and exits with 3. Its parent's end closes everything
// (os/process.h), so a worker never outlives the tool.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rouse::lab {

// "ballast BYTES", "cpu THREADS", "disk FILE", "requests URL API MODEL STREAMS
// [HEADER=VARIABLE...]", "sentinel PERIOD_NS"; "tier DIRECTORY BYTES" prints one line at its end
// and needs no SIGTERM. Returns the exit status: 0 after SIGTERM, 2 for bad arguments, 3 when the
// load did not stand.
int RunWorker(const std::vector<std::string>& arguments);

// A little fixed work: a hash over 128 KiB twice, some 0.04 ms of an idle core and small enough to
// stay in its cache. Returns the hash, so that it can't be left out.
uint64_t SentinelUnit();

}  // namespace rouse::lab
