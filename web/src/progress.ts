// A running run: how far it is, what is waited for, what came last. For the list of runs and for a
// run's own page.

import { h, place, safeText } from "./dom";
import { duration, plural, words as spaced } from "./format";
import type { Progress, Recent, RunLine } from "./feed";

export interface ProgressWords {
  share: number; // 0 to 1
  done: string;
  now: string; // what is waited for
  left: string; // of all, or ""
  gone: string | null; // the process that measured is no more: what to do
}

/** 8 s, 4 min, 1 h 20 min: no more digits than a guess has. */
export function roughly(ns: number): string {
  const seconds = Math.max(0, Math.round(ns / 1e9));
  if (seconds < 100) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 100) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${String(minutes % 60).padStart(2, "0")} min` : `${Math.round(hours / 24)} days`;
}

function clock(ms: number): string {
  const at = new Date(ms);
  return `${String(at.getHours()).padStart(2, "0")}:${String(at.getMinutes()).padStart(2, "0")}`;
}

function doingWords(progress: Progress, now_ms: number): string {
  // "idle for 20 s, without any contact": the second half is said once, in the docs.
  const doing = progress.doing === "preparing" ? "brings about its state, then sends the request" : progress.doing.split(",")[0]!;
  if (progress.until_wall_ns === null) return doing;
  const rest = progress.until_wall_ns / 1e6 - now_ms;
  return rest > 0 ? `${doing}, ${roughly(rest * 1e6)} more (until ${clock(progress.until_wall_ns / 1e6)})` : `${doing}, over by now`;
}

export function progressWords(run: RunLine, now_ms: number): ProgressWords | null {
  const { progress } = run;
  if (run.status !== "running" || !progress || progress.total <= 0) return null;
  // What was left then, less what has passed since.
  const left_ns = progress.eta_ns - (now_ms * 1e6 - progress.updated_wall_ns);
  return {
    share: Math.min(1, progress.done / progress.total),
    done: `${progress.done} of ${plural(progress.total, "attempt")} done`,
    now: progress.alive ? (progress.condition ? `“${progress.condition}”: ` : "") + doingWords(progress, now_ms) : "",
    left: !progress.alive ? "" : left_ns > 1e9 ? `about ${roughly(left_ns)} left, until ${clock(now_ms + left_ns / 1e6)}` : "nearly done",
    gone: progress.alive ? null : `Its process has ended without finishing. “rouse measure --resume ${run.run}” goes on where it stopped.`,
  };
}

/** Newest first, at most `most`; unmeasured primes are left out. */
export function lastResults(recent: Recent[], most: number): Recent[] {
  return recent.filter((each) => !each.prime).reverse().slice(0, most);
}

export function resultWords(each: Recent): string {
  return each.outcome === "ok" ? duration(each.ttft_ns) : `✕ ${spaced(each.outcome)}` + (each.end_ns === null ? "" : ` after ${duration(each.end_ns)}`);
}

function resultRows(recent: Recent[]): HTMLElement[] {
  const time = (each: Recent): number => each.ttft_ns ?? each.end_ns ?? 0;
  const longest = Math.max(1, ...recent.map(time));
  return recent.map((each) => h("li", {}, h("span", { class: "last-name" }, each.condition),
    h("span", { class: "last-bar", "aria-hidden": "true" }, place(h("span", { class: each.outcome === "ok" ? "" : "failed" }), { width: `${(100 * time(each)) / longest}%` })),
    h("span", { class: each.outcome === "ok" ? "last-value" : "last-value failed" }, resultWords(each))));
}

/** The card of one running run; `tick` brings its clocks up to date. */
export class ProgressCard {
  readonly element = h("section", { class: "running" });
  private readonly bar = h("span");
  private readonly track: HTMLElement;
  private readonly done = h("strong");
  private readonly left = h("span");
  private readonly now = h("p", { class: "now" });
  private readonly gone = h("p", { class: "gone", role: "alert" });
  private readonly last = h("ol", { class: "last" });
  private run: RunLine;

  constructor(run: RunLine, title: (Node | string | null)[], private readonly most: number) {
    this.run = run;
    this.track = h("div", { class: "bar", role: "progressbar", "aria-valuemin": 0, "aria-label": `Attempts of run ${run.run} that are done` }, this.bar);
    this.element.append(...title.filter((each) => each !== null), this.track, h("p", { class: "far" }, this.done, " · ", this.left), this.now, this.gone,
      h("p", { class: "last-title" }, "Time to first token, newest first"), this.last);
    this.show(run);
  }

  show(run: RunLine): void {
    this.run = run;
    const recent = lastResults(run.recent ?? [], this.most);
    this.last.replaceChildren(...resultRows(recent));
    this.last.previousElementSibling!.toggleAttribute("hidden", recent.length === 0);
    this.tick(Date.now());
  }

  tick(now_ms: number): void {
    const words = progressWords(this.run, now_ms);
    this.track.toggleAttribute("hidden", !words);
    this.done.textContent = words?.done ?? (this.run.progress === null ? "It has not told how far it is." : "It has just begun.");
    this.left.textContent = words?.left ?? "";
    (this.left.previousSibling as Text).data = words?.left ? " · " : "";
    this.now.textContent = safeText(words?.now ?? "");
    this.gone.textContent = words?.gone ?? "";
    this.gone.toggleAttribute("hidden", !words?.gone);
    if (!words) return;
    place(this.bar, { width: `${100 * words.share}%` });
    this.track.setAttribute("aria-valuemax", String(this.run.progress!.total));
    this.track.setAttribute("aria-valuenow", String(this.run.progress!.done));
  }
}
