// The pictures of a run that show every attempt: against idle time or by condition, distributions,
// the order of the run, stages, counters.

import * as Plot from "@observablehq/plot";
import { h, safeText } from "./dom";
import { bytes, duration, list, metricName, plural, quantity, range, tick, words as spaced } from "./format";
import { currentTheme, FAILURE, rampColor, stageColor, symbolOf } from "./looks";
import { term, type Definitions } from "./define";
import { axisMarks, axisName, crosses, dots, FRAME, INK, MUTED, placeAxis, scaleOf, spread, timeAxis, type Picture } from "./plots";
import { ticks } from "./tracks";
import { numberOf, type Columns, type Condition, type Row, type StageLook } from "./data";

export interface RunData {
  rows: Row[]; // counted ones, in the order of the run
  columns: Columns;
  conditions: Condition[]; // warmest first
  stages: StageLook[];
  define: Definitions;
  open: (at: number) => void; // shows one attempt
}

interface Look {
  color: (key: string) => string;
  symbol: (key: string) => string;
  keys: string[];
}

export function lookOf(keys: string[]): Look {
  const theme = currentTheme();
  const place = new Map(keys.map((key, index) => [key, index]));
  return {
    keys,
    color: (key) => rampColor(place.get(key) ?? 0, keys.length, theme),
    symbol: (key) => symbolOf(place.get(key) ?? 0),
  };
}

/** The layers that were cold, by proof, in words; those cold in all attempts are told once. */
export function coldWords(bits: number, layers: string[], always: number): string {
  const names = layers.filter((_, place) => (bits >> place) & 1 && !((always >> place) & 1)).map(spaced);
  return names.length === 0 ? "none of these cold" : names.join(" + ");
}

function bitCount(bits: number): number {
  let count = 0;
  for (let rest = bits; rest; rest &= rest - 1) count++;
  return count;
}

function legend(look: Look, label: (key: string) => string = (key) => key): HTMLElement {
  return h("ul", { class: "legend" }, look.keys.map((key) => h("li", {}, symbolMark(look, key), label(key))));
}

function symbolMark(look: Look, key: string): Element {
  const drawn = Plot.dot([0], { x: 7, y: 7, r: 5, symbol: look.symbol(key) as Plot.DotOptions["symbol"], fill: look.color(key), stroke: look.color(key) })
    .plot({ width: 14, height: 14, margin: 0, x: { type: "identity" }, y: { type: "identity" } });
  drawn.setAttribute("aria-hidden", "true");
  return drawn;
}

/** Opens the attempt under the pointer when its dot is clicked. */
function clickable(plot: Element, data: RunData): Element {
  plot.addEventListener("click", () => {
    const value = (plot as Element & { value?: { at?: number } }).value;
    if (typeof value?.at === "number") data.open(value.at);
  });
  plot.classList.add("clickable");
  return plot;
}

const told = (row: Row): string =>
  `${row.condition} #${row.id ?? row.at}\n${row.ok ? `TTFT ${duration(row.ttft)}` : `${spaced(row.outcome)} after ${duration(row.waited)}`}` +
  (row.block === null ? "" : `\nblock ${row.block}, position ${row.position ?? "–"}`);

const timeOf = (row: Row): number | null => row.ttft ?? row.waited;

function tip<T extends Row & { x: number; y: number }>(rows: T[], text: (row: T) => string = told): Plot.Markish {
  return Plot.tip(rows, Plot.pointer({ x: "x", y: "y", title: (row: T) => safeText(text(row)), fill: "var(--card)", maxRadius: 30 }));
}

function failureMarks<T extends { x: number; y: number }>(rows: T[]): Plot.Markish {
  return crosses(rows, FAILURE[currentTheme()]);
}

// ---- TTFT against idle time, or by condition ----

export function idlePicture(data: RunData): Picture {
  const { rows, columns, conditions } = data;
  const declared = new Map(conditions.map((each) => [each.name, each.idle_ns ?? null]));
  const idleOf = (row: Row): number => declared.get(row.condition) ?? row.idle ?? 0;
  const levels = [...new Set(rows.map(idleOf))].sort((a, b) => a - b);
  const byIdle = levels.length > 1 && levels.length <= 24;
  const always = rows.reduce((bits, row) => bits & row.cold, rows[0]?.cold ?? 0);
  const cold = [...new Set(rows.map((row) => row.cold))].sort((a, b) => bitCount(a) - bitCount(b) || a - b);
  const key = (row: Row): string => String(row.cold);
  const columnsOf = byIdle ? levels.map((level) => (level === 0 ? "0 s" : tick(level))) : conditions.map((each) => each.name);
  const columnOf = (row: Row): number => (byIdle ? levels.indexOf(idleOf(row)) : columnsOf.indexOf(row.condition));
  const failed = rows.filter((row) => !row.ok).length;
  const inAll = columns.cold_layers.filter((_, place) => (always >> place) & 1).map(spaced);
  return {
    id: "every-attempt",
    title: byIdle ? "Idle time" : "Every attempt",
    caption: [
      byIdle ? "Each dot is one attempt. Look for the idle time from which on the dots jump: the layer that its shape names was lost by then, as read back right before the request."
        : "Each dot is one attempt. Look whether a condition's dots lie together, and whether the shape (the layers that were cold, by proof) goes with the time.",
      failed > 0 ? ` A cross is a failure, drawn where its waiting ended.` : "",
      inAll.length > 0 ? ` Cold in all of them: ${list(inAll)}.` : "",
      byIdle ? " Idle times stand in steps, not to scale." : "",
    ],
    alternative: () => columnsOf.map((name, index) => {
      const there = rows.filter((row) => columnOf(row) === index && row.ok).map((row) => row.ttft ?? 0).sort((a, b) => a - b);
      return there.length ? `${name}: ${plural(there.length, "attempt")} from ${duration(there[0])} to ${duration(there.at(-1))}` : `${name}: no success`;
    }).join("; "),
    draw: (width) => {
      const look = lookOf(cold.map(String));
      const flat = !byIdle && (width < 560 || Math.max(...columnsOf.map((name) => name.length)) * 7 > (width - 76) / columnsOf.length);
      const seen = new Map<number, number>();
      const all = rows.flatMap((row) => {
        const y = timeOf(row);
        if (y === null) return [];
        const column = columnOf(row);
        const count = seen.get(column) ?? 0;
        seen.set(column, count + 1);
        return [{ ...row, x: column + spread(count) * (flat ? 0.4 : 0.62) + (flat ? 0.1 : 0), y }];
      });
      if (all.length === 0) return nothingToDraw();
      const axis = timeAxis(all.map((row) => row.y), flat ? width - 40 : 320);
      const medians = conditions.flatMap((each) => {
        const median = numberOf(each.ttft_ns.median);
        const column = byIdle ? levels.indexOf(each.idle_ns ?? 0) : columnsOf.indexOf(each.name);
        return median === undefined || column < 0 ? [] : [{ column, median }];
      });
      const place = scaleOf(axis);
      const names = { domain: [-0.5, columnsOf.length - 0.5], ticks: columnsOf.map((_, index) => index), tickFormat: (index: number) => oneLine(columnsOf[index] ?? "", 60), label: null, tickSize: 0 };
      const looks = { stroke: (row: Row) => look.color(key(row)), fill: (row: Row) => look.color(key(row)), fillOpacity: 0.35, symbol: ((row: Row) => look.symbol(key(row))) as unknown as Plot.DotOptions["symbol"], r: 4 };
      const good = all.filter((row) => row.ok);
      const bad = all.filter((row) => !row.ok);
      const turn = <T extends { x: number; y: number }>(list: T[]): T[] => (flat ? list.map((row) => ({ ...row, x: row.y, y: row.x })) : list);
      const plot = Plot.plot({
        ...FRAME, width, height: flat ? 60 * columnsOf.length + 56 : 360, marginLeft: flat ? 8 : 64, marginRight: 12, marginBottom: 34, marginTop: flat ? 18 : 12,
        color: { type: "identity" }, symbol: { type: "identity" } as Plot.ScaleOptions,
        ...(flat ? { x: place, y: { ...names, axis: null, domain: [columnsOf.length - 0.5, -0.5] } } : { y: place, x: { ...names, tickRotate: !byIdle && width / columnsOf.length < 90 ? -12 : 0 } }),
        marks: [
          ...axisMarks(flat ? "x" : "y", axis),
          flat ? Plot.text(columnsOf.map((name, index) => ({ name: oneLine(name, width / 7), index })), { frameAnchor: "left", y: (each: { index: number }) => each.index - 0.34, text: "name", textAnchor: "start", fill: MUTED }) : null,
          ...(flat ? [Plot.ruleX(medians, { x: "median", y1: (each) => each.column - 0.14, y2: (each) => each.column + 0.34, stroke: INK, strokeWidth: 2 })]
            : [Plot.ruleY(medians, { y: "median", x1: (each) => each.column - 0.38, x2: (each) => each.column + 0.38, stroke: INK, strokeWidth: 2 })]),
          dots(turn(good), { x: "x", y: "y", ...looks }), failureMarks(turn(bad)), tip(turn(all)),
        ].filter(Boolean) as Plot.Markish[],
      });
      return h("div", {}, legend(look, (bits) => coldWords(Number(bits), columns.cold_layers, always)), axisName(flat ? "→" : "↑", "time to first token", axis), clickable(plot, data));
    },
  };
}

// ---- distributions ----

export function stepsOf(rows: Row[], n: number): { x: number; y: number }[] {
  const values = rows.filter((row) => row.ttft !== null).map((row) => row.ttft!).sort((a, b) => a - b);
  const steps = [{ x: values[0] ?? 0, y: 0 }];
  values.forEach((x, index) => steps.push({ x, y: (index + 1) / n }));
  return values.length ? steps : [];
}

const LEVELS = [["median", 0.5], ["p90", 0.9], ["p95", 0.95], ["p99", 0.99]] as const;

/** "n = 6, needs 72", for people. */
function refusedWords({ n, ttft_ns }: Condition): string {
  const reason = ttft_ns.null_reasons["p95_ci"] ?? "";
  const needed = /needs (\d+)/.exec(reason)?.[1];
  return needed ? `p95 would need ${needed} attempts; “n” here is ${n}` : `no p95: ${reason}`;
}

export function ecdfPicture(data: RunData): Picture {
  const { conditions, rows } = data;
  const supported = (each: Condition): { name: string; level: number; low: number; high: number | null }[] =>
    LEVELS.flatMap(([name, level]) => {
      const interval = each.ttft_ns[`${name}_ci`];
      const low = numberOf(interval?.[0]);
      return low === undefined ? [] : [{ name, level, low, high: numberOf(interval?.[1]) ?? null }];
    });
  const refused = conditions.find((each) => each.ttft_ns.null_reasons["p95_ci"]);
  return {
    id: "distributions", title: "Distributions and tails", short: "Tails",
    caption: ["The share of attempts that had their first token by then: the further left a curve rises, the faster. Look at its upper right end: a long flat tail is what users remember. ",
      "Bars are the 95 % intervals of median, p90, p95 and p99, where n supports them",
      refused ? ` (${refusedWords(refused)})` : "",
      ". A curve that ends below 100 % had failures."],
    alternative: () => conditions.map((each) => `${each.name}: ` + (supported(each).map(({ name, low, high }) => `${name} between ${duration(low)} and ${high === null ? "unbounded" : duration(high)}`).join(", ") || `n = ${each.n}, no interval`)).join("; "),
    draw: (width) => {
      const times = rows.flatMap((row) => timeOf(row) ?? []);
      if (times.length === 0) return nothingToDraw();
      const axis = placeAxis(times, width - 60);
      const curves = conditions.map((each) => {
        const own = rows.filter((row) => row.condition === each.name);
        return { each, steps: stepsOf(own, own.filter((row) => row.ttft !== null || !row.ok).length), end: axis.domain[1] };
      });
      const span = (at: number): number => (axis.type === "log" ? Math.log(at) : at);
      const fitsBehind = (at: number): boolean => ((span(at) - span(axis.domain[0])) / (span(axis.domain[1]) - span(axis.domain[0]))) * (width - 58) < width - 58 - 40;
      const band = conditions.length > 6 ? 78 : 100;
      const plots = curves.map(({ each, steps, end }, index) => {
        const last = index === curves.length - 1;
        const drawn = steps.length ? [...steps, { x: end, y: steps.at(-1)!.y }] : [];
        const intervals = supported(each);
        return Plot.plot({
          ...FRAME, width, height: band + (last ? 26 : 0), marginLeft: 44, marginRight: 14, marginTop: 24, marginBottom: last ? 34 : 8,
          x: scaleOf(axis), y: { domain: [0, 1], ticks: [0, 0.5, 1], tickFormat: "%", label: null, tickSize: 0 },
          color: { type: "identity" },
          marks: [
            ...axisMarks("x", axis, last),
            Plot.text([oneLine(each.name, width / 8)], { frameAnchor: "top-left", dy: -18, dx: -44, text: (name: string) => name, fill: INK, fontWeight: "600" }),
            Plot.ruleY([0, 1], { stroke: MUTED, strokeOpacity: 0.35 }),
            Plot.areaY(drawn, { x: "x", y: "y", curve: "step-after", fill: INK, fillOpacity: 0.07 }),
            Plot.ruleY(intervals, { y: "level", x1: "low", x2: (one) => one.high ?? end, stroke: MUTED, strokeWidth: 5, strokeOpacity: 0.45 }),
            Plot.lineY(drawn, { x: "x", y: "y", curve: "step-after", stroke: INK, strokeWidth: 1.6 }),
            // Behind its bar, or before it where the picture ends.
            ...[true, false].map((behind) => Plot.text(intervals.filter((one) => fitsBehind(one.high ?? end) === behind), {
              x: (one) => (behind ? (one.high ?? end) : one.low), y: "level", text: "name", dx: behind ? 4 : -4, textAnchor: behind ? "start" : "end", fontSize: 10, fill: MUTED })),
            Plot.tip(drawn, Plot.pointerX({ x: "x", y: "y", title: (step: { x: number; y: number }) => `${each.name}\n${Math.round(step.y * 1000) / 10} % within ${duration(step.x)}`, fill: "var(--card)" })),
          ],
        });
      });
      return h("div", {}, h("div", { role: "img", "aria-label": "" }, plots), axisName("→", "time to first token", axis));
    },
  };
}

// ---- the order of the run ----

export function driftWords(conditions: Condition[]): string[] {
  return conditions.flatMap(({ name, sequence }) => {
    const found: string[] = [];
    const ci = sequence.second_half_shift_ci_ns;
    if (sequence.drifts && ci) found.push(`${name} drifts: its second half is ${duration(Math.abs(sequence.second_half_shift_ns ?? 0))} ${(sequence.second_half_shift_ns ?? 0) > 0 ? "slower" : "faster"} (${range(duration(ci[0]), duration(ci[1]))})`);
    if (sequence.depends) found.push(`${name}: neighbours resemble each other (lag-1 autocorrelation ${sequence.lag1_autocorrelation?.toFixed(2)}, limit ${sequence.lag1_limit?.toFixed(2)})`);
    return found;
  });
}

export function orderPicture(data: RunData): Picture {
  const { rows, conditions } = data;
  const drift = driftWords(conditions);
  const placed = rows.map((row, index) => ({ row, x: row.position ?? index }));
  return {
    id: "order", title: "Order and drift", short: "Order",
    caption: ["The attempts in the order in which they were made; bands are blocks, each of which holds every condition once. Look for a slope or a jump that all conditions share: that is the machine, not the layer. ",
      drift.length ? h("strong", {}, drift.join("; ") + ".") : "No condition drifts, as far as its n can tell."],
    alternative: () => `${rows.length} attempts in order. ${drift.length ? drift.join("; ") : "No drift found"}.`,
    draw: (width) => {
      const look = lookOf(conditions.map((each) => each.name));
      const all = placed.flatMap(({ row, x }) => {
        const y = timeOf(row);
        return y === null ? [] : [{ ...row, x, y }];
      });
      if (all.length === 0) return nothingToDraw();
      const axis = timeAxis(all.map((row) => row.y), 300);
      const blocks = new Map<number, [number, number]>();
      for (const { row, x } of placed) {
        if (row.block === null) continue;
        const known = blocks.get(row.block);
        blocks.set(row.block, known ? [Math.min(known[0], x), Math.max(known[1], x)] : [x, x]);
      }
      const bands = [...blocks].filter(([block]) => block % 2 === 1 && blocks.size <= 200).map(([, [from, to]]) => ({ from: from - 0.5, to: to + 0.5 }));
      const plot = Plot.plot({
        ...FRAME, width, height: 320, marginLeft: 64, marginRight: 12, marginBottom: 36,
        x: { label: "place in the run →", labelAnchor: "right", labelOffset: 32, ticks: wholeTicks(placed.length ? Math.max(...placed.map(({ x }) => x)) : 0, Math.floor(width / 110)), tickFormat: "d" }, y: scaleOf(axis), color: { type: "identity" }, symbol: { type: "identity" } as Plot.ScaleOptions,
        marks: [
          ...axisMarks("y", axis),
          Plot.rectX(bands, { x1: "from", x2: "to", fill: MUTED, fillOpacity: 0.09 }),
          all.length < 400 ? Plot.lineY(all.filter((row) => row.ok), { x: "x", y: "y", z: "condition", stroke: (row: Row) => look.color(row.condition), strokeOpacity: 0.3 }) : null,
          dots(all.filter((row) => row.ok), { x: "x", y: "y", stroke: (row: Row) => look.color(row.condition), fill: (row: Row) => look.color(row.condition), fillOpacity: 0.35, symbol: ((row: Row) => look.symbol(row.condition)) as unknown as Plot.DotOptions["symbol"], r: 4 }),
          failureMarks(all.filter((row) => !row.ok)), tip(all),
        ].filter(Boolean) as Plot.Markish[],
      });
      return h("div", {}, legend(look), axisName("↑", "time to first token", axis), clickable(plot, data));
    },
  };
}

function wholeTicks(last: number, most: number): number[] {
  const step = Math.max(1, ...ticks(0, last, Math.max(2, most)).slice(1, 2));
  return Array.from({ length: Math.floor(last / step) + 1 }, (_, at) => at * step);
}

// ---- stage by stage ----

export function shownStages(data: RunData): { shown: StageLook[]; small: StageLook[] } {
  const longest = Math.max(0, ...data.conditions.map((each) => numberOf(each.ttft_ns.median) ?? 0));
  const most = (stage: StageLook): number => Math.max(0, ...data.conditions.map((each) => numberOf(each.stages_ns[stage.name]?.median) ?? 0));
  const shown = data.stages.filter((stage) => most(stage) >= 0.01 * longest && most(stage) > 0);
  return { shown, small: data.stages.filter((stage) => !shown.includes(stage)) };
}

export function stagesPicture(data: RunData): Picture {
  const { conditions, rows, columns } = data;
  const { shown, small } = shownStages(data);
  const order = new Map(conditions.map((each, index) => [each.name, index]));
  return {
    id: "stages", title: "Stage by stage", short: "Stages",
    caption: ["Each stage on its own axis: the bar is its median, the line its 95 % interval, dots are attempts. Look for the stage in which a condition differs from the one above it. ",
      small.length ? `Below 1 % of the longest TTFT everywhere, or not told: ${list(small.map((each) => each.words))}.` : ""],
    alternative: () => shown.map((stage) => `${stage.words}: ` + conditions.map((each) => `${each.name} ${duration(numberOf(each.stages_ns[stage.name]?.median))}`).join(", ")).join("; "),
    draw: (width) => {
      const across = width > 900 ? 3 : width > 560 ? 2 : 1;
      const each = Math.floor((width - (across - 1) * 24) / across);
      const names = Math.min(130, Math.max(...conditions.map((one) => one.name.length * 6.6 + 10)));
      const plots = shown.map((stage) => {
        const column = columns.values[`stage_${stage.name}_ns`] ?? [];
        const seen = new Map<string, number>();
        const points = rows.flatMap((row) => {
          const x = column[row.at];
          if (x === null || x === undefined || !row.ok) return [];
          const count = seen.get(row.condition) ?? 0;
          seen.set(row.condition, count + 1);
          return [{ ...row, x, y: (order.get(row.condition) ?? 0) + spread(count) * 0.5 }];
        });
        const medians = conditions.map((one, index) => ({ index, value: numberOf(one.stages_ns[stage.name]?.median) ?? 0,
          low: numberOf(one.stages_ns[stage.name]?.median_ci?.[0]) ?? null, high: numberOf(one.stages_ns[stage.name]?.median_ci?.[1]) ?? null }));
        const high = Math.max(1, ...points.map((point) => point.x), ...medians.map((one) => one.value)) * 1.04;
        const plot = Plot.plot({
          ...FRAME, width: each, height: conditions.length * 30 + 34, marginLeft: names, marginRight: 18, marginTop: 4, marginBottom: 28,
          x: { domain: [0, high], ticks: Math.max(2, Math.floor((each - names) / 75)), tickFormat: (value: number) => tick(value), label: null, grid: true },
          y: { domain: [conditions.length - 0.5, -0.5], ticks: conditions.map((_, index) => index), tickFormat: (index: number) => oneLine(conditions[index]?.name ?? "", 19), tickSize: 0, label: null },
          color: { type: "identity" },
          marks: [
            Plot.rect(medians, { x1: 0, x2: "value", y1: (one) => one.index - 0.32, y2: (one) => one.index + 0.32, fill: stageColor(stage.name), fillOpacity: 0.85 }),
            dots(points, { x: "x", y: "y", r: 2.2, fill: INK, fillOpacity: 0.5 }),
            Plot.ruleY(medians.filter((one) => one.low !== null), { y: "index", x1: "low", x2: (one) => one.high ?? high, stroke: INK, strokeWidth: 1.5 }),
            tip(points, (row) => `${row.condition} #${row.id}\n${stage.words} ${duration(row.x)}`),
          ],
        });
        plot.setAttribute("role", "img");
        plot.setAttribute("aria-label", safeText(`${stage.words}: ` + conditions.map((one) => `${one.name} ${duration(numberOf(one.stages_ns[stage.name]?.median))}`).join(", ")));
        return h("div", { class: "small" }, h("h3", {}, term(stage.words, data.define.text(`stage_${stage.name}_ns`))), clickable(plot, data));
      });
      return h("div", { class: `smalls across-${across}` }, plots);
    },
  };
}

/** A name where it has one line of at most so many letters. */
function oneLine(name: string, most: number): string {
  const text = safeText(name).replace(/\s+/g, " ");
  return text.length > most ? text.slice(0, Math.max(1, Math.floor(most) - 1)) + "…" : text;
}

function nothingToDraw(): HTMLElement {
  return h("p", { class: "remark" }, "No attempt has a time that could be drawn.");
}

// ---- counters beside TTFT ----

const PREFERRED = ["page_cache_resident_ratio", "target_read_bytes", "target_major_faults", "target_minor_faults", "target_cpu_ns",
  "psi_io_full_us", "target_run_queue_wait_ns", "psi_memory_some_us", "machine_disk_read_bytes", "target_rss_bytes", "cpu_clock_hz"];

export function countersOf(data: RunData): string[] {
  const varied = Object.entries(data.columns.values).filter(([name, column]) => {
    const home = data.define.metric(name)?.home;
    if (home !== undefined && home !== "counter" && home !== "state") return false;
    let first: number | undefined;
    return data.rows.some((row) => {
      const value = column[row.at];
      if (value === null || value === undefined) return false;
      first ??= value;
      return value !== first;
    });
  }).map(([name]) => name);
  const rank = (name: string): number => (PREFERRED.indexOf(name) + 1 || 99);
  return varied.sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

export function countersPicture(data: RunData, all: boolean): Picture {
  const names = countersOf(data);
  const shown = all ? names : names.slice(0, 6);
  return {
    id: "counters", title: "Counters beside TTFT",
    caption: ["What the operating system counted during that same request, against its TTFT. Look for a counter that rises with the time: it points at the cause. It proves none; the contrasts above do."],
    alternative: () => `TTFT against ${list(shown.map((name) => metricName(name, data.define.unit(name))))}.`,
    draw: (width) => {
      const look = lookOf(data.conditions.map((each) => each.name));
      const across = width > 900 ? 3 : width > 560 ? 2 : 1;
      const each = Math.floor((width - (across - 1) * 24) / across);
      const plots = shown.map((name) => {
        const unit = data.define.unit(name);
        const format = (value: number): string => (unit === "bytes" && value > 0 ? bytes(value) : quantity(value, unit));
        const column = data.columns.values[name] ?? [];
        const points = data.rows.flatMap((row) => {
          const [x, y] = [column[row.at], timeOf(row)];
          return x === null || x === undefined || y === null ? [] : [{ ...row, x, y }];
        });
        const axis = timeAxis(points.map((point) => point.y), 180);
        const plot = Plot.plot({
          ...FRAME, width: each, height: 210, marginLeft: 58, marginRight: 16, marginBottom: 30, marginTop: 6,
          x: { ticks: Math.max(2, Math.floor(each / 110)), tickFormat: (value: number) => tick(value, format), label: null, nice: true, ...(unit === "ratio" ? { domain: [-0.04, 1.04], ticks: [0, 0.5, 1] } : {}) },
          y: scaleOf(axis), color: { type: "identity" }, symbol: { type: "identity" } as Plot.ScaleOptions,
          marks: [
            ...axisMarks("y", axis),
            dots(points.filter((row) => row.ok), { x: "x", y: "y", r: 3.5, stroke: (row: Row) => look.color(row.condition), fill: (row: Row) => look.color(row.condition), fillOpacity: 0.35, symbol: ((row: Row) => look.symbol(row.condition)) as unknown as Plot.DotOptions["symbol"] }),
            failureMarks(points.filter((row) => !row.ok)), tip(points, (row) => `${told(row)}\n${metricName(name, unit)} ${format(row.x)}`),
          ],
        });
        plot.setAttribute("role", "img");
        plot.setAttribute("aria-label", `TTFT against ${metricName(name, unit)}`);
        return h("div", { class: "small" }, h("h3", {}, term(metricName(name, unit), data.define.text(name))), clickable(plot, data));
      });
      return h("div", {}, legend(look), axisName("↑", "time to first token, logarithmic where it spans much"), h("div", { class: `smalls across-${across}` }, plots));
    },
  };
}
