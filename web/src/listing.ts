// Which runs the list shows and in which order. Pure: runs.ts draws it, test/listing.test.ts holds
// it.

import { duration, range, words as spaced } from "./format";
import type { RunLine } from "./feed";

export interface Column {
  key: "run" | "name" | "target" | "started" | "status" | "conditions" | "attempts" | "failed" | "result";
  title: string;
  definition: string;
  numeric: boolean;
  sort: (run: RunLine) => number | string;
  text: (run: RunLine) => string;
}

export const COLUMNS: Column[] = [
  { key: "run", title: "run", definition: "Its number: rouse report NUMBER.", numeric: true, sort: (run) => run.run, text: (run) => String(run.run) },
  { key: "name", title: "name", definition: "The experiment's name, from its plan.", numeric: false, sort: (run) => run.name.toLowerCase(), text: (run) => run.name || "(no name)" },
  { key: "target", title: "server and model", definition: "What was measured: “builtin” is rouse's own server.", numeric: false, sort: (run) => targetWords(run).toLowerCase(), text: targetWords },
  { key: "result", title: "first token", definition: "The median of the fastest condition, and of the slowest.", numeric: true, sort: (run) => run.result?.slowest_ns ?? Infinity, text: outcomeWords },
  { key: "started", title: "started", definition: "In your own time zone.", numeric: false, sort: (run) => run.started, text: (run) => startedWords(run.started, new Date()) },
  { key: "status", title: "status", definition: "complete, running, paused, interrupted or failed.", numeric: false, sort: (run) => run.status, text: (run) => spaced(run.status) },
  { key: "conditions", title: "conditions", definition: "How many states were measured.", numeric: true, sort: (run) => run.conditions, text: (run) => String(run.conditions) },
  { key: "attempts", title: "attempts", definition: "Requests of all conditions together; unmeasured first ones are not counted.", numeric: true, sort: (run) => run.attempts, text: (run) => run.attempts.toLocaleString("en-US") },
  { key: "failed", title: "failed", definition: "Attempts without a first token. They stay in every figure.", numeric: true, sort: (run) => run.failed, text: (run) => (run.failed > 0 ? `✕ ${run.failed.toLocaleString("en-US")}` : "–") },
];

/** "42 ms – 1.05 s"; "none came" where every median failed; nothing of a run that goes on. */
export function outcomeWords(run: RunLine): string {
  const { result } = run;
  if (!result || result.conditions === 0) return "–";
  const { fastest_ns: fastest, slowest_ns: slowest } = result;
  if (fastest === null || slowest === null) return "✕ none came";
  const some = result.without > 0 ? ", ✕" : "";
  return (fastest === slowest ? duration(fastest) : range(duration(fastest), duration(slowest))) + some;
}

export function targetWords(run: RunLine): string {
  return [run.target, run.model].filter(Boolean).join(" · ");
}

/** "today 03:12", "28 Nov 03:12", "28 Nov 2025". */
export function startedWords(started: string, now: Date): string {
  const at = new Date(started);
  if (Number.isNaN(at.getTime())) return started;
  const time = `${String(at.getHours()).padStart(2, "0")}:${String(at.getMinutes()).padStart(2, "0")}`;
  if (at.toDateString() === now.toDateString()) return `today ${time}`;
  const month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][at.getMonth()]!;
  return `${at.getDate()} ${month} ` + (at.getFullYear() === now.getFullYear() ? time : String(at.getFullYear()));
}

export interface Wish {
  text: string; // words that all must be found; "#3" is run 3
  sort: Column["key"];
  down: boolean;
}

export const NEWEST: Wish = { text: "", sort: "run", down: true };

export function fits(run: RunLine, text: string): boolean {
  const haystack = [run.name, run.target, run.model, run.status, run.kind, run.started, run.failed > 0 ? "failures" : ""].join(" ").toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => {
    const number = /^#?(\d+)$/.exec(word)?.[1];
    if (word.startsWith("#") && number) return String(run.run) === number;
    return word === "" || haystack.includes(word) || String(run.run) === number;
  });
}

export function shownRuns(runs: Iterable<RunLine>, wish: Wish): RunLine[] {
  const column = COLUMNS.find((each) => each.key === wish.sort) ?? COLUMNS[0]!;
  return [...runs].filter((run) => fits(run, wish.text)).sort((a, b) => {
    const [left, right] = [column.sort(a), column.sort(b)];
    // Of equals the newest first, either way.
    return left === right ? b.run - a.run : (left < right ? -1 : 1) * (wish.down ? -1 : 1);
  });
}

/** The wish as the address keeps it, so that going back from a run finds the list as it was. */
export function wishOf(hash: string): Wish {
  const kept = new URLSearchParams(hash.replace(/^#/, ""));
  const sort = COLUMNS.find((each) => each.key === kept.get("sort"))?.key ?? NEWEST.sort;
  return { text: kept.get("find") ?? "", sort, down: kept.has("sort") ? kept.get("order") === "down" : NEWEST.down };
}

export function hashOf(wish: Wish): string {
  const kept = new URLSearchParams();
  if (wish.text) kept.set("find", wish.text);
  if (wish.sort !== NEWEST.sort || wish.down !== NEWEST.down) {
    kept.set("sort", wish.sort);
    kept.set("order", wish.down ? "down" : "up");
  }
  const text = kept.toString();
  return text ? `#${text}` : "";
}

export function countWords(shown: number, all: number, running: number): string {
  const some = shown === all ? `${all.toLocaleString("en-US")} ${all === 1 ? "run" : "runs"}` : `${shown.toLocaleString("en-US")} of ${all.toLocaleString("en-US")} runs`;
  return some + (running > 0 ? `, ${running} running` : "");
}
