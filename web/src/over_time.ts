// What was sampled while an attempt ran (`samples` of rouse.attempt/1), as lanes on its time axis:
// growth of a counter per interval, and the page cache as a strip of the file that changes with time.
// Pure; lanes.ts draws it.

import { bytes, duration, list, metricName, percent, quantity, significant } from "./format";
import type { Definitions } from "./define";
import type { Attempt, Samples } from "./data";
import type { Block, Lane } from "./lanes";

/** A counter that is drawn, the unit of its rate, and the counter that is a part of it. */
const DRAWN: { name: string; label: string; part?: string }[] = [
  { name: "target_read_bytes", label: "reads" },
  { name: "target_major_faults", label: "major faults" },
  { name: "target_minor_faults", label: "minor faults" },
  { name: "psi_io_some_us", label: "I/O pressure", part: "psi_io_full_us" },
  { name: "psi_memory_some_us", label: "memory pressure", part: "psi_memory_full_us" },
  { name: "psi_cpu_some_us", label: "CPU pressure" },
];

const isPressure = (name: string): boolean => name.startsWith("psi_");

/** The strips with what "" stands for: the same as before. */
export function stripsOf(samples: Samples): string[] {
  let last = "";
  return (samples.page_cache ?? []).map((strip) => (last = strip === "" ? last : strip));
}

/** The share of the file that a strip of digits tells: 0 none, 9 all of a part. */
export function shareOf(strip: string): number {
  let sum = 0;
  for (const digit of strip) sum += Number(digit);
  return strip.length === 0 ? 0 : sum / (9 * strip.length);
}

export interface Interval {
  from: number;
  to: number;
  grown: number;
}

/** How much a total grew from each sample to the next; a gap where one of the two was not read. */
export function growth(samples: Samples, name: string): Interval[] {
  const total = samples.totals[name] ?? [];
  return samples.at_ns.slice(1).flatMap((to, index) => {
    const [before, now, from] = [total[index], total[index + 1], samples.at_ns[index]!];
    return typeof before === "number" && typeof now === "number" && to > from ? [{ from, to, grown: now - before }] : [];
  });
}

/** What of an interval's length was waited through. */
const waited = (each: Interval): number => (each.grown * 1e3) / (each.to - each.from);

function rate(name: string, unit: string, each: Interval): string {
  if (isPressure(name)) return percent(waited(each));
  const perSecond = each.grown / ((each.to - each.from) / 1e9);
  return unit === "bytes" ? `${bytes(perSecond)}/s` : `${significant(perSecond)}/s`;
}

function counterLane({ name, label, part }: (typeof DRAWN)[number], samples: Samples, define: Definitions): Lane | null {
  const intervals = growth(samples, name);
  const all = intervals.reduce((sum, each) => sum + each.grown, 0);
  if (all <= 0) return null;
  const unit = define.unit(name);
  const height = (each: Interval): number => (isPressure(name) ? Math.min(1, waited(each)) : each.grown / (each.to - each.from) / most);
  const most = Math.max(...intervals.map((each) => each.grown / (each.to - each.from)));
  const partOf = new Map(part ? growth(samples, part).map((each) => [each.from, each]) : []);
  const blocks = intervals.filter((each) => each.grown > 0).flatMap((each): Block[] => {
    const full = partOf.get(each.from);
    const title = `${label}: ${quantity(each.grown, unit)} between ${duration(each.from)} and ${duration(each.to)} (${rate(name, unit, each)})` +
      (full ? `, ${quantity(full.grown, unit)} of it for all that wanted to run` : "") + `; ${quantity(all, unit)} in all.`;
    const block = { from: each.from, to: each.to, kind: "rate", label: "", title, top: 1 - height(each), bottom: 1, value: each.grown };
    return full && full.grown > 0 ? [block, { ...block, kind: "rate-part", top: 1 - Math.min(1, waited(full)), value: full.grown }] : [block];
  });
  const peak = intervals.reduce((best, each) => (height(each) > height(best) ? each : best));
  return {
    name: label, blocks,
    definition: `${define.text(name, "operating system, sampled during the attempt")} Read ${samples.at_ns.length} times; the lane's height is ${isPressure(name) ? "all of the time" : rate(name, unit, peak)}.`,
    summary: `${label}: ${quantity(all, unit)} in all, most between ${duration(peak.from)} and ${duration(peak.to)} (${rate(name, unit, peak)})`,
  };
}

/** Runs of equal letters: [letter, begin, end). */
function runs(text: string): [string, number, number][] {
  const found: [string, number, number][] = [];
  for (let at = 0; at < text.length; at++) {
    const last = found.at(-1);
    if (last && last[0] === text[at]) last[2] = at + 1;
    else found.push([text[at]!, at, at + 1]);
  }
  return found;
}

function cacheLane(samples: Samples): Lane | null {
  const strips = stripsOf(samples);
  if (strips.length < 2) return null;
  const blocks: Block[] = [];
  for (let at = 0; at + 1 < strips.length;) {
    let next = at + 1;
    while (next + 1 < strips.length && strips[next] === strips[at]) next++;
    const [strip, from, to] = [strips[at]!, samples.at_ns[at]!, samples.at_ns[next]!];
    for (const [digit, begin, end] of runs(strip)) {
      if (digit === "0") continue;
      const place = `${percent(begin / strip.length)} to ${percent(end / strip.length)} of the file`;
      const much = digit === "9" ? "all" : `about ${percent(Number(digit) / 9)}`;
      blocks.push({ from, to, kind: "resident", label: "", top: begin / strip.length, bottom: end / strip.length, share: Number(digit) / 9, value: Number(digit),
        title: `page cache from ${duration(from)} to ${duration(to)}: ${much} of this part, ${place}; ${percent(shareOf(strip))} of the whole file.` });
    }
    at = next;
  }
  const [first, last] = [shareOf(strips[0]!), shareOf(strips.at(-1)!)];
  const full = strips.findIndex((strip) => /^9+$/.test(strip));
  return {
    name: "page cache", blocks, height: 52,
    definition: `The model file from its first byte (top) to its last (bottom); dark is resident. Looked at ${strips.length} times, 8 pages of each of ${strips[0]!.length} equal parts. Source: operating system (cachestat).`,
    summary: `page cache over time: ${percent(first)} of the file at first, ${percent(last)} at last` + (full > 0 ? `, all of it from ${duration(samples.at_ns[full])} on` : ""),
  };
}

export interface OverTime {
  lanes: Lane[];
  remark: string;
}

/** The lanes of what was sampled, and what is to be said of the rest. */
export function overTime(attempt: Attempt, define: Definitions): OverTime {
  const samples = attempt.samples;
  if (!samples || samples.at_ns.length < 2) {
    const reason = attempt.null_reasons["samples"];
    return { lanes: [], remark: "Faults, reads, pressure and the page cache over time were not recorded for this attempt" + (reason ? ` (${reason}).` : ".") };
  }
  const found = DRAWN.map((each) => ({ each, known: growth(samples, each.name).length > 0, lane: counterLane(each, samples, define) }));
  const cache = cacheLane(samples);
  const zero = found.filter(({ known, lane }) => known && !lane).map(({ each }) => each.label);
  const unknown = found.filter(({ known }) => !known).map(({ each }) => metricName(each.name, define.unit(each.name)));
  const reason = attempt.null_reasons["samples.page_cache"];
  return {
    lanes: [cache, ...found.map(({ lane }) => lane)].filter((lane) => lane !== null),
    remark: [`Sampled ${samples.at_ns.length} times.`,
      zero.length ? `Zero throughout: ${list(zero)}.` : "",
      unknown.length ? `Could not be read: ${list(unknown)}.` : "",
      cache ? "" : `The page cache over time was not recorded${reason ? ` (${reason})` : ""}.`].filter(Boolean).join(" "),
  };
}
