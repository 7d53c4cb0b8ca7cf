// How compute threads wait for each other: they spin for about as long as sleeping and being woken
// would cost, then sleep. A thread that spins for ever is ruinous as soon as anything else runs on
// the same cores: it keeps the core from the thread that it waits for. One that sleeps at once pays
// some 50 us at each of the hundreds of barriers of a token. Included once, by ggml-cpu.c, behind
// ggml_thread_cpu_relax().
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined(__linux__)
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

// A limit that follows what happens: halved by each wait that ended in sleep (the other thread has
// no core: spinning is in its way), doubled by each that did not.
struct rouse_spin {
    int64_t limit_ns;
    int64_t least_ns;
    int64_t most_ns;
    int64_t deadline_ns; // of the wait at hand; 0 = no time was taken yet
    int     rounds;
};

static inline int64_t rouse_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

// Most waits are over within some hundred nanoseconds, so the clock is read every 32 rounds only.
static inline bool rouse_spin_more(struct rouse_spin * spin) {
    ggml_thread_cpu_relax();
    if (++spin->rounds % 32 != 0) {
        return true;
    }
    const int64_t now = rouse_now_ns();
    if (spin->deadline_ns == 0) {
        spin->deadline_ns = now + spin->limit_ns;
    }
    return now < spin->deadline_ns;
}

static inline void rouse_spin_done(struct rouse_spin * spin, bool slept) {
    const int64_t next = slept ? spin->limit_ns / 2 : spin->limit_ns * 2;
    spin->limit_ns     = next < spin->least_ns ? spin->least_ns : next > spin->most_ns ? spin->most_ns : next;
    spin->deadline_ns  = 0;
    spin->rounds       = 0;
}

// At a barrier (the others are computing), and between two graphs (one thread chooses a token and
// hands it out).
static _Thread_local struct rouse_spin rouse_at_barrier = { 100000, 5000, 200000, 0, 0 };
static _Thread_local struct rouse_spin rouse_for_work   = { 500000, 5000, 1000000, 0, 0 };

// Returns when *value is no longer `old`. Who changes it calls rouse_wake() afterwards.
static inline void rouse_wait_while(atomic_int * value, int old, atomic_int * sleepers) {
    bool slept = false;
    while (atomic_load_explicit(value, memory_order_relaxed) == old) {
        if (rouse_spin_more(&rouse_at_barrier)) {
            continue;
        }
#if defined(__linux__)
        // Either the kernel sees the new value here, or the one who writes it sees the sleeper.
        slept = true;
        atomic_fetch_add_explicit(sleepers, 1, memory_order_seq_cst);
        syscall(SYS_futex, (int *) value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
        atomic_fetch_sub_explicit(sleepers, 1, memory_order_seq_cst);
#endif
    }
    rouse_spin_done(&rouse_at_barrier, slept);
}

static inline void rouse_wake(atomic_int * value, atomic_int * sleepers) {
#if defined(__linux__)
    if (atomic_load_explicit(sleepers, memory_order_seq_cst) > 0) {
        syscall(SYS_futex, (int *) value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
#else
    (void) value;
    (void) sleepers;
#endif
}
