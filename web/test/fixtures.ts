// Small pieces of data in the shape of rouse.page/1, for the tests of the page's logic.

import type { Attempt, Columns, Condition, Contrast, Report, StageLook, Summary } from "../src/data";

export const STAGES: StageLook[] = [
  ["queue", "q", "queue"], ["process_start", "s", "process start"], ["weights", "w", "weights"],
  ["runtime_init", "i", "runtime init"], ["tokenize", "t", "tokenizer"], ["prefill", "p", "prefill"],
  ["first_decode", "d", "first decode"], ["transport", "x", "transport"], ["unattributed", ".", "unattributed"],
].map(([name, letter, words]) => ({ name: name!, letter: letter!, words: words! }));

export const MS = 1e6;

export function summary(median: Summary["median"], change: Partial<Summary> = {}): Summary {
  return { n: 6, censored: 0, confidence: 0.95, median, median_ci: null, p90: null, p90_ci: null, p95: null, p95_ci: null,
    p99: null, p99_ci: null, min: median, max: median, null_reasons: {}, ...change };
}

export function condition(name: string, median: Summary["median"], change: Partial<Condition> = {}): Condition {
  return { name, n: 6, outcomes: { ok: 6 }, ttft_ns: summary(median), stages_ns: {}, counters: {},
    median_attempt: typeof median === "number" ? { attempts: [1], stages_ns: { prefill: median } } : null,
    sequence: { lag1_autocorrelation: null, lag1_limit: null, second_half_shift_ns: null, second_half_shift_ci_ns: null, drifts: null, depends: null },
    outliers: { mad: [], tukey: [] }, ...change };
}

export function contrast(name: string, base: string, cost: number, change: Partial<Contrast> = {}): Contrast {
  return { condition: name, base, layer: "page_cache", layer_name: "page cache", title: "the model's file was not in the page cache", grade: "proved", why_not_proved: null,
    cost_ns: cost, ci_ns: [cost * 0.8, cost * 1.2], confidence: 0.95, paired: true, n: 6, n_base: 6, failures: 0, holder: "weights", ...change };
}

export function report(conditions: Condition[], change: Partial<Report> = {}): Report {
  return { run: 1, name: "t", kind: "measure", status: "complete", rouse_version: "0", started: "2026-01-01T00:00:00Z", ended: null, seed: 1, plan_hash: null,
    target: null, model: null, environment: {}, calibration: [], conditions, contrasts: [], hypotheses: [], primes: 0, warning_counts: {}, warnings: [], ...change };
}

export function columns(change: Partial<Columns> = {}): Columns {
  return { n: 3, conditions: ["warm", "cold"], outcomes: ["ok", "timeout", "state_not_reached"], cold_layers: ["page_cache", "process"],
    id: [1, 2, 3], condition: [0, 1, 1], outcome: [0, 1, 2], prime: [0, 0, 0], cold: [0, 3, 1], block: [1, 1, 2], position: [0, 1, 2],
    outcome_detail: { "1": "no byte within 600 s" }, values: { ttft_ns: [5 * MS, null, null], mark_end_ns: [9 * MS, 600e9, null] }, ...change };
}

export function attempt(change: Partial<Attempt> = {}): Attempt {
  return { id: 1, condition: "cold", outcome: "ok", outcome_detail: "", marks_ns: { send_start: 0, connected: 2 * MS, request_sent: 3 * MS, first_token: 20 * MS, end: 30 * MS },
    ttft_ns: 20 * MS, stages_ns: { process_start: 2 * MS, weights: 8 * MS, prefill: 10 * MS }, stage_source: { weights: "server" },
    segments: [{ stage: "weights", start_ns: 2 * MS, end_ns: 10 * MS }, { stage: "prefill", start_ns: 10 * MS, end_ns: 20 * MS }],
    lanes: [{ name: "try: refused", start_ns: 1, end_ns: 2, bytes: null }, { name: "try: refused", start_ns: 3, end_ns: 4, bytes: null }, { name: "weights", start_ns: 2 * MS, end_ns: 12 * MS, bytes: 98_000_000 }],
    tokens: {}, counters: {}, state_before: {}, state_at_send: {}, state_after: {}, null_reasons: {}, warnings: [], ...change };
}
