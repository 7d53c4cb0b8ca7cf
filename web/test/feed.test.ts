import { describe, expect, it } from "vitest";
import { after, NOTHING, type RunLine } from "../src/feed";
import { lastResults, progressWords, resultWords, roughly } from "../src/progress";
import { countWords, fits, hashOf, NEWEST, outcomeWords, shownRuns, startedWords, wishOf } from "../src/listing";
import { stateOf } from "../src/live";

function run(number: number, change: Partial<RunLine> = {}): RunLine {
  return { run: number, name: "quick", kind: "measure", status: "complete", target: "builtin", model: "smollm2-135m", started: "2026-01-02T03:04:05Z", ended: null,
    conditions: 5, attempts: 30, failed: 0, ...change };
}

describe("what came out of a run", () => {
  const of = (fastest: number | null, slowest: number | null, without = 0): string =>
    outcomeWords(run(1, { result: { fastest_ns: fastest, slowest_ns: slowest, conditions: 3, without } }));

  it("is told from the fastest to the slowest condition", () => {
    expect(of(42e6, 1.05e9)).toMatch(/^42\.0 ms\s?–\s?1\.05 s$/);
    expect(of(42e6, 42e6)).toBe("42.0 ms");
    expect(of(42e6, 42e6, 1)).toBe("42.0 ms, ✕");
    expect(of(null, null, 3)).toBe("✕ none came");
    expect(outcomeWords(run(1))).toBe("–"); // goes on
  });
});

describe("what the server tells", () => {
  const all = after(NOTHING, { type: "all", data: { database: "/d.sqlite", exists: true, problem: null, runs: [run(1), run(2)] } });

  it("begins with all of it, and replaces all of it when another file stands there", () => {
    expect([...all.runs.keys()]).toEqual([1, 2]);
    const other = after(all, { type: "all", data: { database: "/d.sqlite", exists: true, problem: null, runs: [run(7)] } });
    expect([...other.runs.keys()]).toEqual([7]);
  });

  it("changes and adds runs, and leaves the listing before as it was", () => {
    const changed = after(all, { type: "changed", data: { runs: [run(2, { attempts: 31 }), run(3)] } });
    expect([...changed.runs.keys()]).toEqual([1, 2, 3]);
    expect(changed.runs.get(2)?.attempts).toBe(31);
    expect(all.runs.get(2)?.attempts).toBe(30);
  });

  it("takes deleted runs away", () => {
    expect([...after(all, { type: "removed", data: { runs: [1, 9] } }).runs.keys()]).toEqual([2]);
  });

  it("keeps what it knew when the database is locked", () => {
    const locked = after(all, { type: "all", data: { database: "/d.sqlite", exists: true, problem: "it is locked", runs: [...all.runs.values()] } });
    expect(locked.problem).toBe("it is locked");
    expect(locked.runs.size).toBe(2);
  });
});

describe("the list", () => {
  const runs = [run(1, { name: "idle", started: "2026-01-01T00:00:00Z" }), run(2, { status: "running", attempts: 4 }), run(10, { target: "http://127.0.0.1:8080", failed: 2 })];
  const found = (text: string): number[] => shownRuns(runs, { ...NEWEST, text }).map((each) => each.run);

  it("shows the newest first", () => expect(found("")).toEqual([10, 2, 1]));
  it("finds by each word, whatever it stands in", () => {
    expect(found("quick builtin")).toEqual([2]);
    expect(found("RUNNING")).toEqual([2]);
    expect(found("8080")).toEqual([10]);
    expect(found("failures")).toEqual([10]);
    expect(found("quick nothing")).toEqual([]);
  });
  it("takes #1 for run 1 alone, and 1 for a number or a word", () => {
    expect(found("#1")).toEqual([1]);
    expect(fits(run(1), "135m")).toBe(true);
    expect(found("10")).toEqual([10]);
  });
  it("sorts by any column, equals by the newest", () => {
    expect(shownRuns(runs, { text: "", sort: "name", down: false }).map((each) => each.run)).toEqual([1, 10, 2]);
    expect(shownRuns(runs, { text: "", sort: "name", down: true }).map((each) => each.run)).toEqual([10, 2, 1]);
    expect(shownRuns(runs, { text: "", sort: "attempts", down: false }).map((each) => each.run)).toEqual([2, 10, 1]);
  });
  it("keeps its wish in the address, and takes any address", () => {
    expect(hashOf(NEWEST)).toBe("");
    const wish = { text: "a&b #3", sort: "failed", down: false } as const;
    expect(wishOf(hashOf(wish))).toEqual(wish);
    expect(wishOf("#sort=nonsense&order=up")).toEqual({ text: "", sort: "run", down: false });
    expect(wishOf("#%%%")).toEqual(NEWEST);
  });
  it("counts", () => {
    expect(countWords(1, 1, 0)).toBe("1 run");
    expect(countWords(3, 1234, 1)).toBe("3 of 1,234 runs, 1 running");
  });
  it("says when in the reader's own time", () => {
    const now = new Date(2026, 0, 2, 12, 0);
    expect(startedWords(new Date(2026, 0, 2, 3, 4).toISOString(), now)).toBe("today 03:04");
    expect(startedWords(new Date(2025, 10, 28, 3, 4).toISOString(), now)).toBe("28 Nov 2025");
    expect(startedWords("soon", now)).toBe("soon");
  });
});

describe("a running run", () => {
  const now_ms = Date.UTC(2026, 0, 2, 3, 10);
  const progress = { alive: true, done: 3, total: 9, condition: "idle 1 min", doing: "idle for 1 min, without any contact",
    until_wall_ns: (now_ms + 20_000) * 1e6, updated_wall_ns: (now_ms - 40_000) * 1e6, eta_ns: 300e9 };

  it("tells what is waited for and how long", () => {
    const words = progressWords(run(4, { status: "running", progress }), now_ms)!;
    expect(words.share).toBeCloseTo(1 / 3);
    expect(words.done).toBe("3 of 9 attempts done");
    expect(words.now).toMatch(/^“idle 1 min”: idle for 1 min, 20 s more \(until \d\d:\d\d\)$/);
    expect(words.left).toMatch(/^about 4 min left, until \d\d:\d\d$/); // 300 s told 40 s ago
    expect(words.gone).toBeNull();
  });
  it("tells of a process that is no more, instead of a time that never comes", () => {
    const words = progressWords(run(4, { status: "running", progress: { ...progress, alive: false } }), now_ms)!;
    expect(words.gone).toContain("rouse measure --resume 4");
    expect([words.now, words.left]).toEqual(["", ""]);
  });
  it("says no time that is over", () => {
    const late = progressWords(run(4, { status: "running", progress: { ...progress, eta_ns: 1e9, until_wall_ns: (now_ms - 1) * 1e6 } }), now_ms)!;
    expect(late.left).toBe("nearly done");
    expect(late.now).toContain("over by now");
  });
  it("has nothing to tell of a run that does not run, or that never told", () => {
    expect(progressWords(run(4, { progress }), now_ms)).toBeNull();
    expect(progressWords(run(4, { status: "running", progress: null }), now_ms)).toBeNull();
  });
  it("gives a guess no more digits than it has", () => {
    expect([99e9, 100e9, 3600e9, 7200e9, 50 * 3600e9, -5].map(roughly)).toEqual(["99 s", "2 min", "60 min", "2 h 00 min", "2 days", "0 s"]);
  });
  it("shows the newest results first, without primes, failures as such", () => {
    const recent = [1, 2, 3].map((id) => ({ id, condition: "c", outcome: id === 3 ? "timeout" : "ok", prime: id === 1, ttft_ns: id === 3 ? null : 7e6, end_ns: 9e9 }));
    expect(lastResults(recent, 5).map((each) => each.id)).toEqual([3, 2]);
    expect(lastResults(recent, 1).map((each) => each.id)).toEqual([3]);
    expect(lastResults(recent, 5).map(resultWords)).toEqual(["✕ timeout after 9.00 s", "7.00 ms"]);
  });
  it("is drawn anew when an attempt has come or it has ended", () => {
    const states = [run(4), run(4, { attempts: 31 }), run(4, { status: "paused" }), run(4, { failed: 1 })].map(stateOf);
    expect(states[0]).not.toBe(states[1]);
    expect(states[0]).not.toBe(states[2]);
  });
});
