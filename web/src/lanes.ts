// One attempt on one time axis: what the client saw, what the request waited for, what went on
// beside it, what was sampled meanwhile, and the page cache as a strip over the file. Zoom with the buttons, the wheel with
// Ctrl, or + and - and the arrow keys; drag to move.

import { h, place, s, safeText } from "./dom";
import { bytes, duration, metricName, percent, plural, quantity, tick, words as spaced } from "./format";
import { inkOn, stageColor } from "./looks";
import { number, term, type Definitions } from "./define";
import { overTime } from "./over_time";
import { ticks } from "./tracks";
import { swatch } from "./tracks";
import type { Attempt, Reading, StageLook } from "./data";

export interface Block {
  from: number;
  to: number;
  kind: string; // a stage's name, or one of OTHERS
  label: string;
  title: string;
  top?: number; // of the lane's height, from above
  bottom?: number;
  share?: number; // how dark it is
  value?: number; // what is drawn
}

const OTHERS = new Set(["client", "lane", "try", "rate", "rate-part", "resident"]);

export interface Lane {
  name: string;
  blocks: Block[];
  definition: string;
  height?: number;
  summary?: string; // in words, where its blocks are too many
}

const PHASES: [string, string, string, string][] = [
  ["send_start", "connected", "connect", "from the intended send until the connection stood"],
  ["connected", "request_sent", "send", "until the request's last byte was written"],
  ["request_sent", "first_token", "wait", "until the read that completed the first token"],
  ["first_token", "end", "answer", "the rest of the answer"],
];

/** The lanes of an attempt, topmost first. Pure; the tests hold it against the data. */
export function lanesOf(attempt: Attempt, stages: StageLook[]): Lane[] {
  const marks = attempt.marks_ns;
  const client: Block[] = [];
  for (const [from, to, label, what] of PHASES) {
    const [start, end] = [marks[from], marks[to] ?? (to === "first_token" ? marks["end"] : null)];
    if (typeof start !== "number" || typeof end !== "number" || end < start) continue;
    client.push({ from: start, to: end, kind: "client", label, title: `${label}: ${duration(end - start)}, ${what}` });
  }
  const lanes: Lane[] = [{ name: "client", blocks: client, definition: "What the client saw, on this machine's monotonic clock; 0 is the intended send." }];
  const words = new Map(stages.map((stage) => [stage.name, stage]));
  const named = (kind: string, from: number, to: number, more: string): Block => ({
    from, to, kind, label: words.get(kind)?.letter ?? "", title: `${words.get(kind)?.words ?? kind}: ${duration(to - from)}${more}` });
  if (attempt.segments.length > 0) {
    const blocks = attempt.segments.map((each) => named(each.stage, each.start_ns, each.end_ns, ", told by the server"));
    const start = attempt.stages_ns["process_start"];
    if (typeof start === "number" && start > 0) blocks.unshift(named("process_start", 0, start, ", seen by the client"));
    lanes.push({ name: "request waits for", blocks, definition: "What the request was waiting for: the server's own timeline, joined with the client's marks. Source: server." });
  } else if (attempt.ttft_ns !== null) {
    let at = 0;
    const blocks = stages.flatMap((stage) => {
      const ns = attempt.stages_ns[stage.name];
      if (typeof ns !== "number" || ns <= 0) return [];
      at += ns;
      return [named(stage.name, at - ns, at, `, source: ${attempt.stage_source[stage.name] ?? "not told"}; its place is not known`)];
    });
    if (blocks.length) lanes.push({ name: "request waits for", blocks, definition: "The stages' lengths are measured; this server does not tell their order, so they stand in the usual one." });
  }
  const others = new Map<string, Block[]>();
  for (const lane of attempt.lanes) {
    const tried = lane.name.startsWith("try");
    const name = tried ? "connection tries" : lane.name;
    const long = lane.end_ns - lane.start_ns;
    const moved = lane.bytes === null ? "" : `, ${bytes(lane.bytes)}` + (long > 0 ? ` at ${bytes(lane.bytes / (long / 1e9))}/s` : "");
    const block = { from: lane.start_ns, to: lane.end_ns, kind: tried ? "try" : "lane", label: lane.bytes ? bytes(lane.bytes) : "", title: `${lane.name}: ${duration(long)}${moved}` };
    others.set(name, [...(others.get(name) ?? []), block]);
  }
  for (const [name, blocks] of others) {
    lanes.push({ name: spaced(name), blocks, definition: name === "connection tries"
      ? "Tries that a server which was still starting refused; each is recorded, and TTFT runs from the first intended send."
      : `Background work “${name}”, beside the request: it is in no stage's sum. Source: server.` });
  }
  return lanes;
}

const NO_TIME = 1; // an axis needs a length

export function fullRange(attempt: Attempt): [number, number] {
  const known = [...Object.values(attempt.marks_ns), attempt.ttft_ns, ...attempt.lanes.map((lane) => lane.end_ns), ...attempt.segments.map((each) => each.end_ns)]
    .filter((each): each is number => typeof each === "number");
  return [Math.min(0, ...attempt.lanes.map((lane) => lane.start_ns)), Math.max(NO_TIME, ...known)];
}

/** Keeps a zoomed range inside of the whole, and never narrower than a thousandth of it. */
export function zoomed([low, high]: [number, number], whole: [number, number], factor: number, about: number): [number, number] {
  const most = whole[1] - whole[0];
  const span = Math.min(most, Math.max(most / 5000, (high - low) * factor));
  const share = high > low ? (about - low) / (high - low) : 0.5;
  const from = Math.min(Math.max(whole[0], about - share * span), whole[1] - span);
  return [from, from + span];
}

const LANE = 26;
const NAMES = 132;

class LanePicture {
  readonly element: HTMLElement;
  private readonly svg = s("svg", { tabindex: 0, role: "group", "aria-roledescription": "zoomable timeline", class: "lanes" });
  private range: [number, number];
  private readonly whole: [number, number];

  constructor(private readonly attempt: Attempt, private readonly lanes: Lane[]) {
    this.whole = fullRange(attempt);
    this.range = this.toFirstToken();
    const button = (label: string, title: string, act: () => void): HTMLElement =>
      h("button", { type: "button", title, "aria-label": title, click: () => { act(); this.draw(); } }, label);
    const middle = (): number => (this.range[0] + this.range[1]) / 2;
    const bar = h("div", { class: "buttons", role: "group", "aria-label": "Zoom" },
      button("to the first token", "Show the time to the first token", () => (this.range = this.toFirstToken())),
      button("all", "Show all of the attempt", () => (this.range = this.whole)),
      button("+", "Zoom in", () => this.zoom(0.5, middle())), button("−", "Zoom out", () => this.zoom(2, middle())),
      button("←", "Earlier", () => this.move(-0.25)), button("→", "Later", () => this.move(0.25)));
    this.svg.setAttribute("aria-label", safeText(this.alternative()));
    this.element = h("div", { class: "lane-box" }, bar, this.svg);
    this.svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(Math.exp(event.deltaY / 200), this.timeAt(event.clientX));
      this.draw();
    }, { passive: false });
    this.svg.addEventListener("keydown", (event) => {
      const acts: Record<string, () => void> = { "+": () => this.zoom(0.5, middle()), "=": () => this.zoom(0.5, middle()), "-": () => this.zoom(2, middle()),
        ArrowLeft: () => this.move(-0.2), ArrowRight: () => this.move(0.2), "0": () => (this.range = this.whole), Home: () => (this.range = this.toFirstToken()) };
      const act = acts[event.key];
      if (!act) return;
      event.preventDefault();
      act();
      this.draw();
    });
    let from: number | null = null;
    this.svg.addEventListener("pointerdown", (event) => { from = event.clientX; });
    this.svg.addEventListener("pointermove", (event) => {
      if (from === null || event.buttons !== 1) return;
      this.move((from - event.clientX) / Math.max(1, this.width() - NAMES));
      from = event.clientX;
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  private toFirstToken(): [number, number] {
    const end = this.attempt.ttft_ns ?? this.attempt.marks_ns["end"] ?? this.whole[1];
    return [this.whole[0], Math.min(this.whole[1], end * 1.04)];
  }

  private width(): number {
    return Math.max(280, this.element.clientWidth);
  }

  private timeAt(clientX: number): number {
    const box = this.svg.getBoundingClientRect();
    const share = (clientX - box.left - this.names()) / Math.max(1, this.width() - this.names());
    return this.range[0] + share * (this.range[1] - this.range[0]);
  }

  private names(): number {
    return this.width() < 560 ? 0 : NAMES;
  }

  private zoom(factor: number, about: number): void {
    this.range = zoomed(this.range, this.whole, factor, about);
  }

  private move(share: number): void {
    const span = this.range[1] - this.range[0];
    const from = Math.min(Math.max(this.whole[0], this.range[0] + share * span), this.whole[1] - span);
    this.range = [from, from + span];
  }

  private alternative(): string {
    return this.lanes.map((lane) => lane.summary ?? `${lane.name}: ` + lane.blocks.slice(0, 24).map((block) => `${block.title} from ${duration(block.from)}`).join("; ")).join(". ");
  }

  draw(): void {
    const width = this.width();
    const names = this.names();
    const above = names === 0 ? 15 : 0; // names stand above their lanes on a phone
    const top = 30;
    let height = top;
    const places = this.lanes.map((lane) => {
      const tall = lane.height ?? LANE;
      height += above + tall + 4;
      return { y: height - tall - 4, tall };
    });
    height += 26;
    const [low, high] = this.range;
    const x = (ns: number): number => names + ((ns - low) / (high - low)) * (width - names - 4);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("width", String(width));
    this.svg.setAttribute("height", String(height));
    const grid = ticks(low, high, Math.max(2, Math.floor((width - names) / 110))).map((at) => s("g", { class: "grid" },
      s("line", { x1: x(at), x2: x(at), y1: top - 6, y2: height - 20 }), s("text", { x: x(at), y: height - 6, "text-anchor": x(at) < names + 14 ? "start" : x(at) > width - 24 ? "end" : "middle" }, tick(at))));
    const clip = s("clipPath", { id: "lane-clip" }, s("rect", { x: names, y: 0, width: width - names, height }));
    const rows = this.lanes.map((lane, index) => {
      const { y, tall } = places[index]!;
      const label = s("text", { x: 0, y: names === 0 ? y - 4 : y + tall / 2 + 4, class: "lane-name", "data-def": lane.definition }, lane.name);
      const blocks = lane.blocks.filter((block) => block.to >= low && block.from <= high).map((block) => {
        const [left, right] = [Math.max(x(block.from), names - 2), Math.min(x(block.to), width + 2)];
        const wide = Math.max(1.5, right - left);
        const isStage = !OTHERS.has(block.kind);
        const [upper, lower] = [(block.top ?? 0) * tall, (block.bottom ?? 1) * tall];
        const fill = isStage ? stageColor(block.kind) : null;
        const label = isStage ? (wide > 90 ? block.title.split(":")[0]! : block.label) : block.label;
        return s("g", { class: `block ${isStage ? "stage" : block.kind}`, "data-def": block.title, "data-kind": block.kind, "data-from": block.from, "data-to": block.to, ...(block.value === undefined ? {} : { "data-lane": lane.name, "data-value": block.value }) },
          s("rect", { x: left, y: y + upper, width: wide, height: Math.max(block.top === undefined ? 0 : 1, lower - upper), ...(block.top === undefined ? { rx: 2 } : {}), ...(fill ? { fill } : {}), ...(block.share === undefined ? {} : { "fill-opacity": 0.15 + 0.85 * block.share }) }),
          label && wide > label.length * 6.6 + 6 ? s("text", { x: left + wide / 2, y: y + LANE / 2 + 4, "text-anchor": "middle", ...(fill ? { fill: inkOn(fill) } : {}) }, label) : null);
      });
      return s("g", {}, s("rect", { x: names, y, width: width - names, height: tall, class: "lane-ground" }), s("g", { "clip-path": "url(#lane-clip)" }, blocks), label);
    });
    const flag = (name: string, text: string): SVGGElement | null => {
      const at = this.attempt.marks_ns[name];
      if (typeof at !== "number" || at < low || at > high) return null;
      const right = x(at) > width - 90;
      return s("g", { class: "flag" }, s("line", { x1: x(at), x2: x(at), y1: 16, y2: height - 20 }), s("text", { x: x(at) + (right ? -4 : 4), y: 14, "text-anchor": right ? "end" : "start" }, text));
    };
    this.svg.replaceChildren(clip, ...grid, ...rows, ...[flag("first_token", `first token ${duration(this.attempt.ttft_ns)}`),
      this.attempt.ttft_ns === null ? flag("end", `${spaced(this.attempt.outcome)} at ${duration(this.attempt.marks_ns["end"])}`) : null].filter((each) => each !== null));
  }
}

// ---- the page cache over the file ----

const MOMENTS: [keyof Attempt & string, string][] = [["state_before", "after it was set"], ["state_at_send", "right before the request"], ["state_after", "after the answer"]];

function strips(attempt: Attempt): HTMLElement | null {
  const rows = MOMENTS.flatMap(([moment, words]) => {
    const reading = (attempt[moment] as Record<string, Reading> | undefined)?.["page_cache"];
    if (!reading || typeof reading.value !== "number") return [];
    const parts = reading.strip;
    const picture = h("div", { class: "strip", role: "img", "aria-label": `${words}: ${percent(reading.value)} of the file in the page cache` });
    if (parts && parts.length > 0) {
      for (const part of parts) picture.append(place(h("span", { class: "part" }), { opacity: part === null ? "0" : String(0.06 + 0.94 * part) }));
    } else {
      picture.append(place(h("span", { class: "share" }), { width: percent(reading.value).replace(" ", "") }));
    }
    return [h("div", { class: "strip-row" }, h("span", { class: "strip-name" }, words), picture,
      number(percent(reading.value), `Share of the model file in the page cache. Proof: ${reading.proof}. ${reading.detail}`))];
  });
  if (rows.length === 0) return null;
  const placed = MOMENTS.some(([moment]) => ((attempt[moment] as Record<string, Reading> | undefined)?.["page_cache"]?.strip?.length ?? 0) > 0);
  return h("div", { class: "strips" }, h("h3", {}, "Page cache over the model file"), rows,
    h("p", { class: "remark" }, placed ? "The file from its first byte (left) to its last (right)." : "Filled from the left by its share; which parts of the file were resident was not recorded."));
}

// ---- facts beside it ----

const SHOWN_COUNTERS = ["target_read_bytes", "target_major_faults", "target_minor_faults", "target_cpu_ns", "target_run_queue_wait_ns",
  "psi_io_full_us", "psi_io_some_us", "psi_memory_full_us", "psi_cpu_some_us", "machine_disk_read_bytes", "cpu_clock_hz", "target_rss_bytes"];

function counterFacts(attempt: Attempt, define: Definitions): HTMLElement {
  const known = SHOWN_COUNTERS.filter((name) => attempt.counters[name] !== undefined && attempt.counters[name] !== null);
  const missing = SHOWN_COUNTERS.filter((name) => attempt.counters[name] === null);
  return h("div", {}, h("h3", {}, "Faults, reads, pressure during this request"),
    h("dl", { class: "facts" }, known.map((name) => h("div", {}, h("dt", {}, term(metricName(name, define.unit(name)), define.text(name))), h("dd", {}, quantity(attempt.counters[name], define.unit(name)))))),
    missing.length ? h("details", {}, h("summary", {}, `${plural(missing.length, "counter")} could not be read`),
      h("ul", {}, missing.map((name) => h("li", {}, `${metricName(name, define.unit(name))}: ${attempt.null_reasons[name] ?? "no reason told"}`)))) : null);
}

function stageTable(attempt: Attempt, stages: StageLook[], define: Definitions): HTMLElement {
  const rows = stages.flatMap((stage) => {
    const ns = attempt.stages_ns[stage.name];
    return typeof ns !== "number" ? [] : [h("tr", {}, h("th", { scope: "row" }, swatch(stage.name, stage.letter), " ", term(stage.words, define.text(`stage_${stage.name}_ns`))),
      h("td", { class: "n" }, duration(ns)), h("td", { class: "n" }, attempt.ttft_ns ? percent(ns / attempt.ttft_ns) : "–"), h("td", {}, attempt.stage_source[stage.name] ?? "–"))];
  });
  if (rows.length === 0) return h("p", { class: "remark" }, "There was no first token, so there are no stages.");
  return h("table", {}, h("caption", {}, "Stages, which sum to the TTFT"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "stage"), h("th", { scope: "col", class: "n" }, "time"), h("th", { scope: "col", class: "n" }, "share"), h("th", { scope: "col" }, "source"))), h("tbody", {}, rows));
}

function proofTable(attempt: Attempt): HTMLElement | null {
  const layers = [...new Set(MOMENTS.flatMap(([moment]) => Object.keys((attempt[moment] as object | undefined) ?? {})))].sort();
  if (layers.length === 0) return null;
  const shown = (reading: Reading | undefined): string => reading === undefined || reading.value === null ? "–" : typeof reading.value === "number" ? percent(reading.value) : reading.value;
  const rows = layers.map((layer) => {
    const readings = MOMENTS.map(([moment]) => (attempt[moment] as Record<string, Reading> | undefined)?.[layer]);
    const best = readings.find((each) => each && each.value !== null) ?? readings.find(Boolean);
    const reached = readings.map((each) => each?.reached).find((each) => each !== null && each !== undefined);
    return h("tr", {}, h("th", { scope: "row" }, spaced(layer)), h("td", {}, best?.wanted || "–"), readings.map((each) => h("td", {}, shown(each))),
      h("td", {}, reached === true ? "✓ yes" : reached === false ? "✕ no" : "–"), h("td", {}, best?.proof ?? "–"));
  });
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "States read back" }, h("table", {}, h("caption", {}, "States, read back"), h("thead", {}, h("tr", {}, ["layer", "wanted", "before", "at the send", "after", "reached", "proof"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows)));
}

export function attemptView(attempt: Attempt, stages: StageLook[], define: Definitions): HTMLElement {
  const told = attempt.outcome === "ok"
    ? h("p", { class: "told" }, h("strong", {}, `First token after ${duration(attempt.ttft_ns)}`), ` in “${attempt.condition}”`, attempt["block"] === null || attempt["block"] === undefined ? "." : `, block ${String(attempt["block"])}, position ${String(attempt["position"])}.`)
    : h("p", { class: "told" }, h("strong", { class: "failed-count" }, `✕ ${spaced(attempt.outcome)}`), ` in “${attempt.condition}”. `, attempt.outcome_detail);
  const sampled = overTime(attempt, define);
  const lanes = [...lanesOf(attempt, stages), ...sampled.lanes];
  const picture = fullRange(attempt)[1] > NO_TIME ? new LanePicture(attempt, lanes).element : h("p", { class: "remark" }, "No time of this attempt was recorded.");
  const used = new Set(lanes.flatMap((lane) => lane.blocks.map((block) => block.kind)));
  const view = h("div", { class: "attempt" }, told,
    h("ul", { class: "legend" }, stages.filter((stage) => used.has(stage.name)).map((stage) => h("li", {}, swatch(stage.name, stage.letter), term(stage.words, define.text(`stage_${stage.name}_ns`))))),
    picture, h("p", { class: "remark sampled" }, sampled.remark), strips(attempt),
    h("div", { class: "two" }, stageTable(attempt, stages, define), counterFacts(attempt, define)), proofTable(attempt),
    attempt.warnings.length ? h("ul", { class: "warnings" }, attempt.warnings.map((each) => h("li", {}, h("code", {}, each.code), " ", each.message))) : null,
    h("details", {}, h("summary", {}, "All of this attempt as JSON"), h("pre", { tabindex: 0 }, JSON.stringify(attempt, null, 1))));
  return view;
}
