// The data of the page, `rouse.page/1` (README.md): its types, how it is found, and the attempts as
// rows over their columns. Nothing is computed here that C++ computes.

export type Value = number | null;
export type Estimate = number | { at_least: number } | null;
export type Interval = [Estimate, Estimate] | null;

export interface Summary {
  n: number;
  censored: number;
  confidence: number;
  median: Estimate;
  median_ci: Interval;
  p90: Estimate;
  p90_ci: Interval;
  p95: Estimate;
  p95_ci: Interval;
  p99: Estimate;
  p99_ci: Interval;
  min: Estimate;
  max: Estimate;
  null_reasons: Record<string, string>;
  not_measured?: number;
  successes_only?: Summary | null;
}

export interface ShortSummary {
  n: number;
  censored: number;
  median: Estimate;
  median_ci: Interval;
  min: Estimate;
  max: Estimate;
}

export interface Condition {
  name: string;
  base?: string | null;
  changed?: string | null;
  compound?: boolean;
  state?: Record<string, string>;
  idle_ns?: number | null;
  n: number;
  outcomes: Record<string, number>;
  ttft_ns: Summary;
  stages_ns: Record<string, ShortSummary>;
  counters: Record<string, ShortSummary>;
  median_attempt: { attempts: (number | null)[]; stages_ns: Record<string, Value> } | null;
  sequence: {
    lag1_autocorrelation: Value;
    lag1_limit: Value;
    second_half_shift_ns: Value;
    second_half_shift_ci_ns: [Value, Value] | null;
    drifts: boolean | null;
    depends: boolean | null;
  };
  outliers: { mad: number[]; tukey: number[] };
}

export interface Shift {
  estimator: string;
  method: string | null;
  paired: boolean;
  n_treatment: number;
  n_control: number;
  value?: Value;
  ci?: [Value, Value] | null;
  confidence: number;
  null_reason: string | null;
  [key: string]: unknown;
}

export interface Side extends Summary {
  run: number;
  condition: string;
  outcomes: Record<string, number>;
}

export interface Comparison {
  name: string;
  metric: string;
  statistic: string;
  expect: string | null;
  margin: string | null;
  confidence: number;
  treatment: Side;
  control: Side;
  shift: Shift;
  ratio: Shift;
  why_unpaired: string | null;
  verdict: "adopt" | "reject" | "undecided" | null;
  reason: string | null;
  would_change: string | null;
  guards: { guard: string; value: Value; held: boolean | null; null_reason: string | null }[];
  warnings: Warning[];
  [key: string]: unknown;
}

export interface Warning {
  code: string;
  message: string;
}

export interface VerificationCase {
  name: string;
  kind: "benefit" | "refused" | "recovery";
  does: string;
  expects: string;
  nothing_lost: string;
  bound_ns: Value;
  status: "planned" | "passed" | "failed" | "undecided" | "left_out" | "interrupted";
  took_ns: Value;
  detail: string;
}

export interface Verification {
  verdict: "passed" | "failed" | "not_shown" | "interrupted";
  cases: VerificationCase[];
}

export interface Report {
  run: number | null;
  name: string;
  kind: string;
  status: string;
  rouse_version: string;
  started: string;
  ended: string | null;
  seed: number | null;
  plan_hash: string | null;
  target: string | null;
  model: string | null;
  environment: Record<string, string>;
  calibration: { streams: number; samples: number; median_ns: Value; p99_ns: Value; max_ns: Value }[];
  conditions: Condition[];
  contrasts: Comparison[];
  hypotheses: (Comparison | { verdict: null; reason: string })[];
  /** The cases of a plan with `verify = true`; absent in reports of earlier versions. */
  verification?: Verification | null;
  primes: number;
  warning_counts: Record<string, number>;
  warnings: Warning[];
}

export interface Cause {
  cause: string;
  title: string;
  layer: string;
  claimed_ns?: number;
  evidence: string;
}

export interface Contrast {
  condition: string;
  base: string;
  layer: string;
  layer_name: string; // in words
  title: string;
  grade: "proved" | "costs" | "no_cost" | "undecided";
  why_not_proved: string | null;
  cost_ns: Value;
  ci_ns: [Value, Value] | null;
  confidence: number;
  paired: boolean;
  n: number;
  n_base: number;
  failures: number;
  stages?: Record<string, { here_ns: Value; usual_ns: Value; excess_ns: Value; source: string }>;
  holder?: string | null;
  causes?: Cause[];
}

export interface Explanation {
  attempts: number;
  failed: number;
  state_not_reached: number;
  contrasts: Contrast[];
  warm: { condition: string | null; n: number; ttft_ns: Value };
  boundary: string | null;
  next: { why: string; command: string };
}

export interface Metric {
  name: string;
  unit: string;
  home: string;
  summary: string;
}

export interface StageLook {
  name: string;
  letter: string;
  words: string;
}

export interface Columns {
  n: number;
  conditions: string[];
  outcomes: string[];
  cold_layers: string[];
  id: Value[];
  condition: number[];
  outcome: number[];
  prime: number[];
  cold: number[];
  block: Value[];
  position: Value[];
  outcome_detail: Record<string, string>;
  values: Record<string, Value[]>;
  details_per?: number;
  details?: string[];
}

export interface RunPage {
  schema: string;
  kind: "run";
  catalogue: Metric[];
  stages: StageLook[];
  report: Report;
  explanation: Explanation | null;
  plan_toml: string | null;
  attempts: Columns;
}

export interface ComparisonSide {
  run: number | null;
  name: string;
  target: string | null;
  model: string | null;
  started: string;
  plan_hash: string | null;
  environment: Record<string, string>;
  attempts: Columns;
}

export interface ComparisonPage {
  schema: string;
  kind: "comparison";
  catalogue: Metric[];
  stages: StageLook[];
  comparison: { comparisons: Comparison[]; only_treatment: string[]; only_control: string[] };
  sides: ComparisonSide[];
}

export type Page = RunPage | ComparisonPage;

/** One attempt, as the pictures need it. */
export interface Row {
  at: number; // its place in the columns
  id: number | null;
  condition: string;
  outcome: string;
  ok: boolean;
  counted: boolean; // in n: no prime, a request was sent
  prime: boolean;
  cold: number; // bits over `cold_layers`
  block: number | null;
  position: number | null;
  ttft: number | null;
  waited: number | null; // a failure: how long somebody waited
  idle: number | null;
}

const NOT_COUNTED = new Set(["state_not_reached", "interrupted"]);

export function rowsOf(columns: Columns): Row[] {
  const column = (name: string): Value[] => columns.values[name] ?? [];
  const [ttft, end, idle] = [column("ttft_ns"), column("mark_end_ns"), column("idle_ns")];
  return Array.from({ length: columns.n }, (_, at) => {
    const outcome = columns.outcomes[columns.outcome[at] ?? 0] ?? "";
    const ok = outcome === "ok";
    return {
      at,
      id: columns.id[at] ?? null,
      condition: columns.conditions[columns.condition[at] ?? 0] ?? "",
      outcome,
      ok,
      counted: columns.prime[at] === 0 && !NOT_COUNTED.has(outcome),
      prime: columns.prime[at] === 1,
      cold: columns.cold[at] ?? 0,
      block: columns.block[at] ?? null,
      position: columns.position[at] ?? null,
      ttft: ok ? (ttft[at] ?? null) : null,
      waited: ok ? null : (end[at] ?? ttft[at] ?? null),
      idle: idle[at] ?? null,
    };
  });
}

/** The number of an estimate, or undefined where there is none (or only a lower limit). */
export function numberOf(estimate: Estimate | undefined): number | undefined {
  return typeof estimate === "number" ? estimate : undefined;
}

export function atLeast(estimate: Estimate | undefined): number | undefined {
  return estimate !== null && typeof estimate === "object" ? estimate.at_least : undefined;
}

/** A member that carries its unit in its name: shift.value_ns, shift.ci_bytes. */
export function inUnit<T>(object: Record<string, unknown>, name: string): T | undefined {
  const key = Object.keys(object).find((each) => each === name || each.startsWith(name + "_"));
  return key === undefined ? undefined : (object[key] as T);
}

/** What one attempt carries beside its columns. */
export interface Attempt {
  id: number | null;
  condition: string;
  outcome: string;
  outcome_detail: string;
  api?: string;
  http_status?: Value;
  marks_ns: Record<string, Value>;
  ttft_ns: Value;
  stages_ns: Record<string, Value>;
  stage_source: Record<string, string>;
  segments: { stage: string; start_ns: number; end_ns: number }[];
  lanes: { name: string; start_ns: number; end_ns: number; bytes: Value }[];
  tokens: Record<string, Value>;
  counters: Record<string, Value>;
  state_before: Record<string, Reading>;
  state_at_send: Record<string, Reading>;
  state_after: Record<string, Reading>;
  null_reasons: Record<string, string>;
  warnings: Warning[];
  samples?: Samples | null;
  [key: string]: unknown;
}

/** What was read again and again while the attempt ran (docs/results_format.md). */
export interface Samples {
  at_ns: number[];
  totals: Record<string, Value[]>;
  page_cache?: string[] | null;
}

export interface Reading {
  value: number | string | null;
  proof: string;
  wanted: string;
  reached: boolean | null;
  detail: string;
  strip?: Value[] | null; // share per equal part of the file, where it was read
}

async function unpack(text: string): Promise<string> {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** The attempts' details, block by block as they are asked for. */
export class Details {
  private readonly blocks = new Map<number, Promise<Attempt[]>>();

  constructor(private readonly columns: Columns) {}

  private block(index: number): Promise<Attempt[]> {
    const known = this.blocks.get(index);
    if (known) return known;
    const packed = this.columns.details?.[index];
    const read = packed === undefined
      ? Promise.resolve<Attempt[]>([])
      : unpack(packed).then((text) => JSON.parse(text) as Attempt[]);
    this.blocks.set(index, read);
    return read;
  }

  async of(at: number): Promise<Attempt | undefined> {
    const per = this.columns.details_per ?? 1;
    return (await this.block(Math.floor(at / per)))[at % per];
  }

  /** The JSON of these attempts as it was written: one list. */
  async all(places: number[]): Promise<Attempt[]> {
    const found: Attempt[] = [];
    for (const at of places) {
      const attempt = await this.of(at);
      if (attempt) found.push(attempt);
    }
    return found;
  }
}

/** The server knows no such run; the message is its own. */
export class NotThere extends Error {}

export async function load(element: HTMLElement): Promise<Page> {
  const source = element.dataset["source"];
  if (source === undefined) return check(JSON.parse(element.textContent ?? ""));
  const answer = await fetch(source, { headers: { Accept: "application/json" } });
  if (answer.status === 404) throw new NotThere(await answer.text());
  if (!answer.ok) throw new Error(`${source}: HTTP ${answer.status}. ${await answer.text()}`);
  return check(await answer.json());
}

function check(page: Page): Page {
  if (page.schema !== "rouse.page/1") {
    throw new Error(`The data has the schema “${String(page.schema)}”; this page reads rouse.page/1.`);
  }
  return page;
}
