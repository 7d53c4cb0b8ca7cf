import { describe, expect, it } from "vitest";
import { answerOf, ladderOrder } from "../src/answer";
import { barScale, ladderSteps, ticks } from "../src/tracks";
import { condition, contrast, MS, report, STAGES, summary } from "./fixtures";
import type { Explanation } from "../src/data";

const words = new Map(STAGES.map((stage) => [stage.name, stage.words]));
const explained = (contrasts: Explanation["contrasts"]): Explanation =>
  ({ attempts: 12, failed: 0, state_not_reached: 0, contrasts, warm: { condition: null, n: 0, ttft_ns: null }, boundary: null, next: { why: "", command: "" } });

describe("the answer", () => {
  it("names both ends and the largest cost that is sure", () => {
    const answer = answerOf(report([condition("warm", 70 * MS), condition("cold", 300 * MS)]), explained([contrast("cold", "warm", 229 * MS)]), words);
    expect(answer.headline).toBe("The first token comes after **70.0 ms** in “warm”, the warmest, and after **300 ms** in “cold”, the slowest. " +
      "The largest proved cost: **+229 ms** because the model's file was not in the page cache, mostly weights.");
  });
  it("puts what is proved before what costs more without proof, and names no condition as a reason", () => {
    const longer = contrast("long", "warm", 900 * MS, { grade: "costs", title: '"long" (prompt_tokens)', layer: "prompt_tokens" });
    const answer = answerOf(report([condition("warm", 70 * MS), condition("cold", 300 * MS), condition("long", 990 * MS)]),
      explained([longer, contrast("cold", "warm", 229 * MS)]), words);
    expect(answer.headline).toContain("The largest proved cost: **+229 ms** because");
    expect(answer.details[0]).toContain("**+900 ms** in “long”, which differs in prompt tokens");
  });
  it("calls the fastest of several that lost nothing the warmest", () => {
    const two = [contrast("warm", "hit", 50 * MS), contrast("fresh", "kept", 1 * MS)];
    expect(answerOf(report([condition("kept", 70 * MS), condition("hit", 20 * MS), condition("warm", 71 * MS), condition("fresh", 72 * MS)]), explained(two), words).headline)
      .toContain("**20.0 ms** in “hit”, the warmest");
  });
  it("claims no cost where every interval holds 0", () => {
    const unsure = contrast("cold", "warm", 5 * MS, { grade: "no_cost" });
    expect(answerOf(report([condition("warm", 70 * MS), condition("cold", 75 * MS)]), explained([unsure]), words).headline).toContain("No layer's cost is sure");
  });
  it("does not call anything warm where there is no contrast", () => {
    const { headline } = answerOf(report([condition("b", 90 * MS), condition("a", 70 * MS)]), explained([]), words);
    expect(headline).toContain("**70.0 ms** in “a”, the fastest");
    expect(headline).not.toContain("warm");
  });
  it("says that all failed, and how", () => {
    const failed = condition("cold", { at_least: 600e9 }, { outcomes: { timeout: 5, http_error: 1 } });
    expect(answerOf(report([failed]), null, words).headline).toBe("**No first token came:** all 6 attempts failed (5 timeout and 1 http error).");
  });
  it("counts some failures beside the answer", () => {
    const some = condition("warm", 70 * MS, { outcomes: { ok: 5, timeout: 1 } });
    const answer = answerOf(report([some]), null, words);
    expect(answer.headline).toContain("most of it **prefill**");
    expect(answer.details[0]).toContain("**1 of 6** attempts failed");
  });
  it("has one for a run without attempts, and for states that were never reached", () => {
    expect(answerOf(report([condition("warm", null, { n: 0, outcomes: {} })]), null, words).headline).toContain("Nothing was measured yet");
    expect(answerOf(report([condition("warm", null, { n: 0, outcomes: { state_not_reached: 3 } })]), null, words).headline).toContain("No request was sent");
  });
  it("stands on one attempt", () => {
    const one = condition("warm", 70 * MS, { n: 1, outcomes: { ok: 1 }, ttft_ns: summary(70 * MS, { n: 1 }) });
    expect(answerOf(report([one]), null, words).headline).toBe("The first token comes after **70.0 ms** in “warm” (median of 1), most of it **prefill**.");
  });
});

describe("the ladder", () => {
  const contrasts = [contrast("cold", "new", 90 * MS), contrast("warm", "hit", 50 * MS), contrast("new", "warm", 80 * MS)];
  it("is in the order of losing", () => {
    expect(ladderOrder(contrasts, ["warm", "hit", "cold", "new"])).toEqual(["hit", "warm", "new", "cold"]);
  });
  it("ends although two conditions name each other as base", () => {
    expect(ladderOrder([contrast("a", "b", 1), contrast("b", "a", 1)], ["a", "b"]).sort()).toEqual(["a", "b"]);
  });
  it("begins each step at its base's median and goes as far as the shift", () => {
    const conditions = [condition("hit", 20 * MS), condition("warm", 71 * MS), condition("new", 150 * MS), condition("cold", 241 * MS)];
    const steps = ladderSteps(conditions, contrasts);
    expect(steps.map((step) => [step.name, step.from / MS, step.to / MS])).toEqual([
      ["hit", 0, 20], ["warm", 20, 70], ["new", 71, 151], ["cold", 150, 240], ["cold", 0, 241]]);
    expect(steps[1]!.low).toBe(20 * MS + 40 * MS);
  });
  it("has no last row where the conditions are no chain", () => {
    const star = [contrast("idle 1 min", "idle 0", 5 * MS), contrast("idle 1 h", "idle 0", 50 * MS)];
    const steps = ladderSteps([condition("idle 0", 20 * MS), condition("idle 1 min", 25 * MS), condition("idle 1 h", 70 * MS)], star);
    expect(steps.map((step) => step.name)).toEqual(["idle 0", "idle 1 min", "idle 1 h"]);
  });
  it("leaves out a step whose base failed", () => {
    expect(ladderSteps([condition("hit", { at_least: 1 }), condition("warm", 70 * MS)], [contrast("warm", "hit", 50 * MS)])
      .filter((step) => step.contrast)).toEqual([]);
  });
});

describe("axes", () => {
  it("have round ticks within their range", () => {
    expect(ticks(0, 437)).toEqual([0, 200, 400]);
    expect(ticks(-10, 10)).toEqual([-10, -5, 0, 5, 10]);
    expect(ticks(5, 5)).toEqual([5]);
  });
  it("are not flattened by one wide interval", () => {
    expect(barScale([condition("warm", 100, { ttft_ns: summary(100, { median_ci: [50, 9000] }) })])).toBe(150);
    expect(barScale([])).toBe(1);
  });
});
