// Pictures that are rows on one time axis, in HTML: the stacked bar per condition, the ladder of
// costs, and the shifts of a comparison. They need no redraw when the window changes, and print.

import { h, place, unbroken } from "./dom";
import { duration, list, quantity, range, signed, tick, words as spaced } from "./format";
import { inkOn, STAGE_GLOSS, stageColor } from "./looks";
import { number, term, type Definitions } from "./define";
import { atLeast, inUnit, numberOf, type Comparison, type Condition, type Contrast, type Interval, type StageLook, type Value } from "./data";
import { gradeOf, isNamed, isSure, ladderOrder, type Grade } from "./answer";

/** Round steps for an axis from 0 to `max`. */
export function ticks(low: number, high: number, wanted = 4): number[] {
  const span = high - low;
  if (!(span > 0)) return [low];
  const raw = span / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= raw)!;
  const found: number[] = [];
  for (let at = Math.ceil(low / step); at * step <= high * (1 + 1e-9); at++) found.push(at * step || 0);
  return found;
}

const share = (value: number, low: number, high: number): string => `${(100 * (value - low)) / (high - low)}%`;

/** Ticks from `low` to `high` on a track that ends at `end`. */
function axis(low: number, high: number, unit: string, end = high): HTMLElement {
  const marks = ticks(low, high).map((at) => {
    const mark = h("span", { class: "tick" }, h("span", {}, tick(at, (value) => quantity(value, unit))));
    return place(mark, { left: share(at, low, end) });
  });
  return h("div", { class: "row axis", "aria-hidden": "true" }, h("div", { class: "row-name" }),
    h("div", { class: "track" }, marks), h("div", { class: "row-value" }));
}

function gridLines(low: number, high: number, end = high): HTMLElement[] {
  return ticks(low, high).map((at) => place(h("span", { class: at === 0 ? "grid zero" : "grid" }), { left: share(at, low, end) }));
}

function whisker(low: number | null, high: number | null, from: number, to: number): HTMLElement | null {
  if (low === null && high === null) return null;
  const left = Math.max(low ?? from, from);
  const right = Math.min(high ?? to, to);
  const classes = ["whisker", low === null || low < from ? "open-left" : "", high === null || high > to ? "open-right" : ""];
  return place(h("span", { class: classes.filter(Boolean).join(" ") }),
    { left: share(left, from, to), width: `${(100 * Math.max(0, right - left)) / (to - from)}%` });
}

export function intervalText(interval: Interval, unit = "ns"): string {
  if (!interval) return "";
  const [low, high] = interval.map((each) => numberOf(each));
  if (low === undefined) return "";
  const end = high === undefined ? `≥ ${quantity(atLeast(interval[1]) ?? 0, unit)}` : quantity(high, unit);
  return high === undefined ? `${quantity(low, unit)} – ${end}` : range(quantity(low, unit), end);
}

export function swatch(stage: string, letter: string): HTMLElement {
  return place(h("span", { class: `swatch stage-${stage}`, "aria-hidden": "true" }, letter),
    { backgroundColor: stageColor(stage), color: inkOn(stageColor(stage)) });
}

/** Stages that are seen; those that are there but too short for it are named behind them. */
export function stageLegend(stages: StageLook[], used: Set<string>, define: Definitions, short: StageLook[] = []): HTMLElement {
  return h("ul", { class: "legend stages", "aria-label": "Stages" }, stages.filter((stage) => used.has(stage.name))
    .map((stage) => h("li", {}, swatch(stage.name, stage.letter),
      h("span", {}, term(stage.words, define.text(`stage_${stage.name}_ns`)), h("small", {}, STAGE_GLOSS[stage.name] ?? "")))),
    short.length ? h("li", { class: "short" }, h("small", {}, `too short to see: ${short.map((stage) => stage.words).join(", ")}`)) : null);
}

/** Of at least so many bars the longest is broken when it is more than so many times the next;
 * src/report/terminal_bar.h has the same two. */
const BREAK_FROM_BARS = 4;
const BREAK_ABOVE = 3;
/** The part of a track that only broken bars reach. */
const BEYOND = 0.16;

/** The longest that is drawn in full, so that one far longer than the others does not flatten them. */
export function unbrokenLimit(lengths: number[]): number {
  const sorted = lengths.filter((each) => each > 0).sort((a, b) => b - a);
  const [first = 0, second = 0] = sorted;
  return sorted.length >= BREAK_FROM_BARS && first > BREAK_ABOVE * second ? second : first;
}

/** What of each length is drawn when all together may be `room` long: the longest give way, so
 * that what is short keeps its length. */
export function cutTo(lengths: number[], room: number): number[] {
  let [left, most] = [room, 0];
  const sorted = [...lengths].sort((a, b) => a - b);
  for (const [at, length] of sorted.entries()) {
    most = left / (sorted.length - at);
    if (length > most) break;
    left -= length;
  }
  return lengths.map((length) => Math.min(length, most));
}

export interface BarScale {
  axis: number; // where the ticks end
  end: number; // where the track ends: the same, unless bars are broken
  full: number; // longer medians are broken
}

/** Half again as far as the longest full median, so that one wide interval does not flatten all bars. */
export function barScale(conditions: Condition[]): BarScale {
  const medians = conditions.flatMap(({ ttft_ns }) => numberOf(ttft_ns.median) ?? []);
  const full = unbrokenLimit(medians);
  let top = full;
  for (const { ttft_ns } of conditions) {
    if ((numberOf(ttft_ns.median) ?? 0) <= full) top = Math.max(top, numberOf(ttft_ns.median_ci?.[1]) ?? 0);
  }
  const axis = Math.min(top, full * 1.5) || 1;
  return { axis, end: medians.some((median) => median > full) ? axis / (1 - BEYOND) : axis, full };
}

/** "12.3" or "123": how many times as long. */
export function times(ratio: number): string {
  return ratio < 10 ? ratio.toFixed(1) : String(Math.round(ratio));
}

/** What the caption says of broken bars; "" when there are none. */
export function brokenWords(conditions: Condition[]): string {
  const { full } = barScale(conditions);
  const broken = conditions.flatMap((each) => { const median = numberOf(each.ttft_ns.median) ?? 0; return median > full ? { name: each.name, median } : []; });
  const longest = conditions.find((each) => numberOf(each.ttft_ns.median) === full);
  if (broken.length === 0 || !longest) return "";
  const told = broken.map(({ name, median }) => `“${name}” takes ${duration(median)}, ${times(median / full)} times “${longest.name}”`);
  return ` The scale is made for the others, and a bar with a gap (//) is broken there: ${list(told)}.`;
}

function stageBar(stages: StageLook[], typical: Record<string, Value>, median: number, scale: BarScale, define: Definitions, see: (stage: string, ns: number, drawn: number) => void): HTMLElement {
  const broken = median > scale.full;
  const spent = stages.flatMap((stage) => { const ns = typical[stage.name]; return ns !== null && ns !== undefined && ns > 0 ? { stage, ns } : []; });
  const drawn = broken ? cutTo(spent.map(({ ns }) => ns), scale.end) : spent.map(({ ns }) => ns);
  return place(h("div", { class: broken ? "stack broken" : "stack" }, spent.map(({ stage, ns }, at) => {
    const length = drawn[at]!;
    const cut = length < ns;
    see(stage.name, ns, length);
    const color = stageColor(stage.name);
    return place(
      h("div", { class: `segment stage-${stage.name}${cut ? " cut" : ""}`, "data-stage": stage.name, "data-ns": ns,
        "data-def": `${duration(ns)}, ${Math.round((100 * ns) / median)} % of the median attempt. ${cut ? `Broken at the gap: it is ${times(ns / length)} times as long as it is drawn. ` : ""}${define.text(`stage_${stage.name}_ns`)}` },
        h("span", {}, h("b", {}, stage.letter), h("i", {}, ` ${duration(ns)}`)), cut ? h("em", { class: "cut-mark" }) : null),
      { flex: `${length} ${length} 0`, backgroundColor: color, color: inkOn(color) });
  })), { width: share(broken ? scale.end : median, 0, scale.end) });
}

export function conditionBars(conditions: Condition[], stages: StageLook[], define: Definitions): HTMLElement {
  const scale = barScale(conditions);
  const known = conditions.some((each) => numberOf(each.ttft_ns.median) !== undefined);
  const used = new Set<string>();
  const short = new Set<string>();
  const rows = conditions.map((condition) => {
    const { ttft_ns: summary, median_attempt: typical } = condition;
    const median = numberOf(summary.median);
    const track = h("div", { class: "track" }, known ? gridLines(0, scale.axis, scale.end) : []);
    const told: string[] = [];
    const words = new Map(stages.map((stage) => [stage.name, stage.words]));
    if (median !== undefined && typical) {
      track.append(stageBar(stages, typical.stages_ns, median, scale, define, (stage, ns, drawn) => {
        // Half a percent of the axis is about two pixels.
        (drawn >= 0.005 * scale.end ? used : short).add(stage);
        told.push(`${words.get(stage)} ${duration(ns)}`);
      }));
    } else if (summary.n > 0) {
      track.append(h("div", { class: "stack failed" }, h("div", { class: "segment" }, h("span", {}, "✕ the median attempt failed"))));
    }
    const interval = summary.median_ci;
    // Of a broken bar the interval lies where the scale does not reach; it stands beside it in words.
    const ci = interval && (median ?? 0) <= scale.full && whisker(numberOf(interval[0]) ?? null, numberOf(interval[1]) ?? null, 0, scale.end);
    if (ci) track.append(ci);
    const limit = atLeast(summary.median);
    const value = median !== undefined ? duration(median) : limit !== undefined ? `≥ ${duration(limit)}` : "–";
    const failed = summary.censored > 0 ? h("span", { class: "failed-count" }, `✕ ${summary.censored} of ${summary.n} failed`) : null;
    const alternative = `${condition.name}: median ${value}` + (told.length ? `, of it ${told.join(", ")}` : "");
    return h("div", { class: "row", role: "listitem", "data-condition": condition.name },
      h("div", { class: "row-name" }, h("strong", {}, condition.name),
        condition.changed ? h("small", {}, changedWords(condition)) : null),
      h("div", { class: "track-box", role: "img", "aria-label": alternative }, track),
      h("div", { class: "row-value" }, number(value, define.text("ttft_ns", `median of ${summary.n}, failures ranked behind every success`), "number big"),
        h("small", {}, intervalText(interval) || (summary.null_reasons["median_ci"] ?? "")), failed));
  });
  return h("div", { class: "tracks bars" }, stageLegend(stages, used, define, stages.filter(({ name }) => short.has(name) && !used.has(name))), h("div", { role: "list" }, rows), known ? axis(0, scale.axis, "ns", scale.end) : null);
}

function changedWords(condition: Condition): string {
  const layers = list(spaced(condition.changed ?? "").split(", "));
  return `differs ${condition.base ? `from “${condition.base}” ` : ""}in ${layers === "idle" ? "idle time" : layers}`;
}

export const GRADES: Record<Grade, [string, string]> = {
  faster: ["faster, for sure", "the whole interval lies below 0: with this change the first token comes earlier"],
  proved: ["proved", "one layer was changed, it was read back in every attempt of both sides, no other layer differed, and the interval excludes 0"],
  costs: ["costs, not proved", "the interval excludes 0, but not exactly one layer was changed and read back"],
  no_cost: ["may be chance", "the interval holds 0: the difference may be chance"],
  undecided: ["too few to tell", "too few attempts for an interval"],
};

export interface Step {
  name: string;
  base: string | null;
  from: number; // where the bar begins: 0, or the base's median
  to: number; // ... and ends
  low: number | null;
  high: number | null;
  contrast: Contrast | null;
}

/** The rows of the waterfall: each condition from its base's median on, warmest first. */
export function ladderSteps(conditions: Condition[], contrasts: Contrast[]): Step[] {
  const medians = new Map(conditions.map((each) => [each.name, numberOf(each.ttft_ns.median)]));
  const order = ladderOrder(contrasts, conditions.map((each) => each.name));
  const steps: Step[] = [];
  const last = order.at(-1);
  for (const name of order) {
    const median = medians.get(name);
    const contrast = contrasts.find((each) => each.condition === name) ?? null;
    const base = contrast ? medians.get(contrast.base) : undefined;
    if (contrast && base !== undefined && contrast.cost_ns !== null) {
      const [low, high] = contrast.ci_ns ?? [null, null];
      steps.push({ name, base: contrast.base, from: base, to: base + contrast.cost_ns,
        low: low === null ? null : base + low, high: high === null ? null : base + high, contrast });
    } else if (median !== undefined && contrasts.some((each) => each.base === name)) {
      steps.push({ name, base: null, from: 0, to: median, low: null, high: null, contrast: null });
    }
  }
  const end = last === undefined ? undefined : medians.get(last);
  // Only a chain, each step from the one before, ends in "everything lost".
  const chain = steps.every((step, index) => index === 0 || step.base === steps[index - 1]!.name);
  if (steps.length > 1 && chain && end !== undefined) {
    steps.push({ name: last!, base: null, from: 0, to: end, low: null, high: null, contrast: null });
  }
  return steps;
}

/** Whether the run takes layers away one by one; else it changes something that cannot be lost. */
export function losesLayers(contrasts: Contrast[]): boolean {
  return contrasts.some((each) => !isNamed(each) && each.layer !== "idle");
}

/** "What each lost layer costs", or what else the run changes. */
export function ladderTitle(contrasts: Contrast[]): string {
  if (losesLayers(contrasts)) return "What each lost layer costs";
  return contrasts.every((each) => each.layer === "idle") ? "What each idle time costs" : "What each change costs";
}

/** As of the bars above, and the same when a step would begin beyond it. */
export function ladderScale(steps: Step[]): BarScale & { low: number } {
  const reach = steps.map((each) => Math.max(each.from, each.to));
  const limit = unbrokenLimit(reach);
  const full = steps.some((each) => each.from > limit) ? Math.max(...reach) : limit;
  const wide = Math.max(...steps.map((each) => (each.to > full ? 0 : (each.high ?? 0))));
  const axis = Math.max(Math.min(wide, full * 1.35), full) * 1.02;
  return { low: Math.min(0, ...steps.map((each) => each.to)), axis, end: reach.some((each) => each > full) ? axis / (1 - BEYOND) : axis, full };
}

/** What the caption says of broken steps; "" when there are none. */
export function brokenSteps(steps: Step[]): string {
  if (steps.length < 2) return "";
  const { full } = ladderScale(steps);
  const broken = steps.filter((each) => each.to > full).map((each) => `${each.contrast?.cost_ns ? `${signed(each.contrast.cost_ns, duration)} of ` : ""}“${each.name}”`);
  return broken.length === 0 ? "" : ` Broken at the gap (//), and longer than drawn: ${list(broken)}.`;
}

export function ladder(conditions: Condition[], contrasts: Contrast[], stages: StageLook[], define: Definitions): HTMLElement | null {
  const steps = ladderSteps(conditions, contrasts);
  if (steps.length < 2) return null;
  const { low, axis: top, end: high, full } = ladderScale(steps);
  const rows = steps.map((step, index) => {
    const { contrast } = step;
    const track = h("div", { class: "track" }, gridLines(low, top, high));
    const broken = step.to > full;
    const stage = stages.find((each) => each.name === contrast?.holder);
    const sure = contrast === null || isSure(gradeOf(contrast));
    const left = Math.min(step.from, step.to);
    const bar = place(h("div", { class: `fall${contrast ? "" : " whole"}${sure ? "" : " unsure"}${broken ? " broken" : ""}`, "data-from": step.from, "data-to": step.to }, broken ? h("em", { class: "cut-mark" }) : null),
      { left: share(left, low, high), width: `max(2px, ${(100 * (broken ? high - left : Math.abs(step.to - step.from))) / (high - low)}%)` });
    if (contrast && stage && sure) {
      bar.classList.add(`stage-${stage.name}`);
      place(bar, { backgroundColor: stageColor(stage.name), color: inkOn(stageColor(stage.name)) });
      bar.append(h("span", {}, stage.letter));
    }
    track.append(bar);
    const ci = contrast && !broken && whisker(step.low, step.high, low, high);
    if (ci) track.append(ci);
    if (!contrast) {
      return h("div", { class: "row", role: "listitem" },
        h("div", { class: "row-name" }, h("strong", {}, step.name), h("small", {}, index > 0 && index === steps.length - 1 ? "all of it lost" : losesLayers(contrasts) ? "nothing lost" : "what the others are held against")),
        h("div", { class: "track-box" }, track),
        h("div", { class: "row-value" }, number(duration(step.to), define.text("ttft_ns", "median"), "number big")));
    }
    const [grade, meaning] = GRADES[gradeOf(contrast)];
    const interval = contrast.ci_ns && contrast.ci_ns[0] !== null && contrast.ci_ns[1] !== null
      ? range(duration(contrast.ci_ns[0]), duration(contrast.ci_ns[1])) : "no interval";
    const cause = contrast.causes?.find((each) => each.layer === contrast.layer) ?? contrast.causes?.[0];
    return h("div", { class: "row step", role: "listitem", "data-condition": step.name },
      h("div", { class: "row-name" }, h("strong", {}, isNamed(contrast) ? contrast.condition : contrast.title), h("small", {}, `“${contrast.base}” → “${step.name}”`)),
      h("div", { class: "track-box" }, track,
        cause && sure ? h("p", { class: "evidence" }, stage ? `${stage.words}: ` : "", cause.evidence, ".") : null),
      h("div", { class: "row-value" },
        number(contrast.cost_ns === null ? "–" : signed(contrast.cost_ns, duration),
          `Hodges-Lehmann shift of the TTFT, ${contrast.paired ? "paired by block" : "unpaired"}, ${contrast.n} against ${contrast.n_base} attempts`, "number big"),
        h("small", {}, unbroken(interval)), h("span", { class: `grade ${gradeOf(contrast)}`, "data-def": meaning }, grade)));
  });
  return h("div", { class: "tracks ladder" }, h("div", { role: "list" }, rows), axis(low, top, "ns", high));
}

/** Shift of each condition between two runs, with margin and 0. */
export function shiftTracks(comparisons: Comparison[], define: Definitions): HTMLElement {
  const unit = define.unit(comparisons[0]?.metric ?? "ttft_ns");
  const data = comparisons.map((each) => ({
    each,
    value: inUnit<number | null>(each.shift, "value") ?? null,
    ci: inUnit<[number | null, number | null] | null>(each.shift, "ci") ?? null,
    margin: inUnit<number | null>(each, "margin_" + unit) ?? null,
  }));
  const known = data.flatMap(({ value, ci, margin }) => [value, ci?.[0], ci?.[1], margin, margin === null ? null : -margin])
    .filter((each): each is number => typeof each === "number");
  const reach = Math.max(1, ...known.map(Math.abs)) * 1.08;
  const [low, high] = [-reach, reach];
  const rows = data.map(({ each, value, ci, margin }) => {
    const track = h("div", { class: "track" }, gridLines(low, high));
    for (const at of margin === null ? [] : each.expect === "increase" ? [margin] : each.expect === "decrease" ? [-margin] : [-margin, margin]) {
      track.append(place(h("span", { class: "margin" }), { left: share(at, low, high) }));
    }
    const ends = ci && whisker(ci[0], ci[1], low, high);
    if (ends) track.append(ends);
    if (value !== null) track.append(place(h("span", { class: `point ${value < 0 ? "less" : "more"}`, "data-value": value }), { left: share(value, low, high) }));
    const ratio = each.ratio.value;
    const change = typeof ratio === "number" ? signed(Math.round((ratio - 1) * 1000) / 10, (size) => `${size} %`) : "";
    const told = value === null ? (each.shift.null_reason ?? "–") : signed(value, (size) => quantity(size, unit));
    return h("div", { class: "row", role: "listitem", "data-condition": each.treatment.condition },
      h("div", { class: "row-name" }, h("strong", {}, each.name || each.treatment.condition), each.verdict ? h("div", {}, verdictBadge(each.verdict)) : null,
        h("small", {}, each.treatment.condition === each.control.condition ? "" : `${each.treatment.condition} − ${each.control.condition}`)),
      h("div", { class: "track-box", role: "img", "aria-label": `${each.treatment.condition}: shift ${told}` }, track),
      h("div", { class: "row-value" }, number(told, `${each.shift.estimator}, ${each.shift.paired ? "paired by block" : "unpaired"}. ${define.text(each.metric)}`, "number big"),
        h("small", {}, change, ci && ci[0] !== null && ci[1] !== null ? ` (${range(quantity(ci[0], unit), quantity(ci[1], unit))})` : "")));
  });
  return h("div", { class: "tracks shifts" }, h("div", { role: "list" }, rows), axis(low, high, unit));
}

export function verdictBadge(verdict: Comparison["verdict"]): HTMLElement | null {
  if (!verdict) return null;
  const marks = { adopt: "✓ adopt", reject: "✕ reject", undecided: "? undecided" };
  return h("span", { class: `verdict ${verdict}` }, marks[verdict]);
}
