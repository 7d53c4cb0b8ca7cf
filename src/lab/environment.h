// What a run ran on, as names and values that two runs can be compared by. Read once, before the
// first attempt.
#pragma once

#include <map>
#include <string>

#include "lab/plan.h"
#include "os/proc_root.h"

namespace rouse::lab {

// kernel, cpu, cpus, memory_bytes, boot_id, clocksource, free_page_reporting ("on": the host takes
// free memory back; "off"), disk (of the model's file), model_file,
// model_bytes, model_mtime_ns, model_sha256. What cannot be read is left out.
// The hash of a file is remembered by device, inode, size and mtime beside the models folder; the
// first time it costs a whole read (past the page cache, where the file system can).
std::map<std::string, std::string> ReadEnvironment(const os::ProcRoot& root,
                                                   const std::string& model_file);

// Of two readings of one run, before and after a pause: "model_sha256: it was 61..., it is 9e..."
// when the model's file is another one now, with whose answers the run must not be mixed; else "".
std::string OtherModel(const std::map<std::string, std::string>& before,
                       const std::map<std::string, std::string>& now);
// "kernel: it was Linux 6.1, it is Linux 6.2; ..." for what else should stay and did not; else "".
std::string OtherMachine(const std::map<std::string, std::string>& before,
                         const std::map<std::string, std::string>& now);

}  // namespace rouse::lab
