// How the threads of compute wait for each other where the engine was built without rouse's edits,
// and so with OpenMP. They meet at hundreds of barriers a token, and OpenMP's runtime (libgomp)
// lets a thread spin there for about 10 ms before it sleeps: harmless on idle cores, ruinous when
// anything else runs, since the spinning thread keeps the core from the one that it waits for.
// libgomp takes the limit from the environment only, when a process starts. With the edits the
// engine's own threads wait by what happens (third_party/llama/edits/threads.toml).
#pragma once

namespace rouse::engine {

// The environment that a process which computes should start with.
inline constexpr char kSpinVariable[] = "GOMP_SPINCOUNT";
inline constexpr char kSpinCount[] = "300";

// Does nothing with the edited engine. Else starts this program again, in the same process (same
// pid, parent and arguments), with that environment; about 2 ms. Returns, having done nothing, when
// the environment already says how to wait (GOMP_SPINCOUNT or OMP_WAIT_POLICY), or when starting
// failed. To be called first thing in main(), before there are threads or open files.
void RestartWithShortSpins(const char* const* argv);

}  // namespace rouse::engine
