import { describe, expect, it } from "vitest";
import { answerOf, ladderOrder } from "../src/answer";
import { unbroken } from "../src/dom";
import { STAGE_COLORS, STAGE_GLOSS } from "../src/looks";
import { placeAxis } from "../src/plots";
import { barScale, brokenSteps, brokenWords, cutTo, ladderScale, ladderSteps, ladderTitle, ticks, unbrokenLimit } from "../src/tracks";
import { condition, contrast, MS, report, STAGES, summary } from "./fixtures";
import type { Explanation } from "../src/data";

const words = new Map(STAGES.map((stage) => [stage.name, stage.words]));
const explained = (contrasts: Explanation["contrasts"]): Explanation =>
  ({ attempts: 12, failed: 0, state_not_reached: 0, contrasts, warm: { condition: null, n: 0, ttft_ns: null }, boundary: null, next: { why: "", command: "" } });

describe("the answer", () => {
  it("names both ends and the largest cost that is sure", () => {
    const answer = answerOf(report([condition("warm", 70 * MS), condition("cold", 300 * MS)]), explained([contrast("cold", "warm", 229 * MS)]), words);
    expect(answer.headline).toBe("The first token takes **70.0 ms** at its warmest (“warm”) and **300 ms** at its slowest (“cold”). " +
      "The largest proved cost: **+229 ms** because the model's file was not in the page cache.");
    expect(answer.costs).toEqual([{ cost_ns: 229 * MS, reason: "the model's file was not in the page cache", holder: "weights", grade: "proved", condition: "cold" }]);
  });
  it("puts what is proved into the sentence before what costs more without proof, and lists both by size", () => {
    const longer = contrast("long", "warm", 900 * MS, { grade: "costs", title: '"long" (prompt_tokens)', layer: "prompt_tokens" });
    const answer = answerOf(report([condition("warm", 70 * MS), condition("cold", 300 * MS), condition("long", 990 * MS)]),
      explained([longer, contrast("cold", "warm", 229 * MS)]), words);
    expect(answer.headline).toContain("The largest proved cost: **+229 ms** because");
    expect(answer.costs.map((each) => each.reason)).toEqual(["“long” instead of “warm”", "the model's file was not in the page cache"]);
  });
  it("lists what is sure before what may be chance, and tells two of one reason apart", () => {
    const asleep = contrast("asleep", "warm", 20 * MS, { title: "the model was not loaded" });
    const unloaded = contrast("unloaded", "warm", 90 * MS, { title: "the model was not loaded", grade: "no_cost", ci_ns: [-1, 200 * MS] });
    const { costs } = answerOf(report([condition("warm", 70 * MS), condition("asleep", 90 * MS), condition("unloaded", 160 * MS)]), explained([unloaded, asleep]), words);
    expect(costs.map((each) => each.reason)).toEqual(["the model was not loaded (“asleep”)", "the model was not loaded (“unloaded”)"]);
  });
  it("calls the fastest of several that lost nothing the warmest", () => {
    const two = [contrast("warm", "hit", 50 * MS), contrast("fresh", "kept", 1 * MS)];
    expect(answerOf(report([condition("kept", 70 * MS), condition("hit", 20 * MS), condition("warm", 71 * MS), condition("fresh", 72 * MS)]), explained(two), words).headline)
      .toContain("**20.0 ms** at its warmest (“hit”)");
  });
  it("tells of a change for the better, and calls nothing warm that is not", () => {
    const other = { title: '"shm" (path)', layer: "path", holder: null };
    const answer = answerOf(report([condition("here", 214 * MS), condition("disk", 218 * MS), condition("shm", 194 * MS)]), explained([
      contrast("disk", "here", 4 * MS, { ...other, title: '"disk" (path)', grade: "no_cost", ci_ns: [-9 * MS, 12 * MS] }),
      contrast("shm", "here", -24 * MS, { ...other, grade: "no_cost", ci_ns: [-43 * MS, -7 * MS] })]), words);
    expect(answer.headline).toBe("The first token takes **194 ms** at its fastest (“shm”) and **218 ms** at its slowest (“disk”). The largest sure gain: **−24.0 ms** with “shm” instead of “here”.");
    expect(answer.costs.map((each) => each.grade)).toEqual(["faster", "no_cost"]);
  });
  it("claims no cost where every interval holds 0", () => {
    const unsure = contrast("cold", "warm", 5 * MS, { grade: "no_cost", ci_ns: [-5 * MS, 12 * MS] });
    expect(answerOf(report([condition("warm", 70 * MS), condition("cold", 75 * MS)]), explained([unsure]), words).headline).toContain("No difference is sure: each may be chance.");
  });
  it("does not speak of intervals where there is none", () => {
    const few = contrast("idle 20 s", "idle 0 s", 75 * MS, { grade: "undecided", ci_ns: null, layer: "idle", title: "nothing was asked for 20 s", n: 3, n_base: 3 });
    const { headline } = answerOf(report([condition("idle 0 s", 270 * MS), condition("idle 20 s", 345 * MS)]), explained([few]), words);
    expect(headline).toBe("The first token takes **270 ms** at its fastest (“idle 0 s”) and **345 ms** at its slowest (“idle 20 s”). Whether that is more than chance, 3 attempts a condition cannot tell; 6 can.");
  });
  it("does not call anything warm where there is no contrast", () => {
    const { headline } = answerOf(report([condition("b", 90 * MS), condition("a", 70 * MS)]), explained([]), words);
    expect(headline).toContain("**70.0 ms** at its fastest (“a”)");
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
    expect(answerOf(report([one]), null, words).headline).toBe("The first token takes **70.0 ms** in “warm” (median of 1), most of it **prefill**.");
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

describe("words that must not break or mislead", () => {
  it("keep a number and its unit on one line", () => {
    expect(unbroken("after 8.84 ms (18.0 – 148 ms), 95 % of 3 minutes")).toBe("after 8.84\u00a0ms (18.0\u00a0–\u00a0148\u00a0ms), 95\u00a0% of 3 minutes");
  });
  it("call a ladder what it is", () => {
    expect(ladderTitle([contrast("cold", "warm", 1)])).toBe("What each lost layer costs");
    expect(ladderTitle([contrast("idle 1 min", "idle 0 s", 1, { layer: "idle", title: "nothing was asked for 1 min" })])).toBe("What each idle time costs");
    expect(ladderTitle([contrast("shm", "here", 1, { layer: "path", title: '"shm" (path)' })])).toBe("What each change costs");
  });
  it("explain every stage that has a colour", () => {
    expect(Object.keys(STAGE_GLOSS)).toEqual(Object.keys(STAGE_COLORS));
  });
});

describe("axes", () => {
  it("have round ticks within their range", () => {
    expect(ticks(0, 437)).toEqual([0, 200, 400]);
    expect(ticks(-10, 10)).toEqual([-10, -5, 0, 5, 10]);
    expect(ticks(5, 5)).toEqual([5]);
  });
  it("of places begin where the values do, with round ticks", () => {
    const axis = placeAxis([167 * MS, 252 * MS], 800);
    expect(axis.domain[0]).toBeGreaterThan(150 * MS);
    expect(axis.domain[0]).toBeLessThan(167 * MS);
    for (const at of axis.ticks) expect(at).toBeGreaterThanOrEqual(axis.domain[0]);
    expect(axis.ticks.length).toBeGreaterThan(2);
  });
  it("are not flattened by one wide interval", () => {
    expect(barScale([condition("warm", 100, { ttft_ns: summary(100, { median_ci: [50, 9000] }) })])).toEqual({ axis: 150, end: 150, full: 100 });
    expect(barScale([]).axis).toBe(1);
  });
});

describe("a bar that would flatten the others", () => {
  const conditions = [condition("warm", 72 * MS), condition("process", 175 * MS), condition("cold", 264 * MS), condition("long prompt", 5090 * MS)];
  it("is broken, on a scale that is made for the others, and the caption says so", () => {
    const { axis, end, full } = barScale(conditions);
    expect(axis).toBe(264 * MS);
    expect(full).toBe(264 * MS);
    expect(end).toBeGreaterThan(axis);
    expect(brokenWords(conditions)).toContain("“long prompt” takes 5.09 s, 19 times “cold”");
    expect(brokenWords(conditions.slice(0, 3))).toBe("");
  });
  it("is found by the rule that the terminal has", () => {
    // As src/report/terminal_test.cc has them; the third is a series, and what failed has no bar.
    for (const [lengths, limit] of [[[700, 720, 1500, 5600], 1500], [[700, 720, 1500, 4500], 4500], [[380, 749, 3340, 7790], 7790],
      [[10, 5600], 5600], [[0, 0, 10, 5600], 5600], [[], 0]] as const) {
      expect(unbrokenLimit([...lengths]), lengths.join()).toBe(limit);
    }
  });
  it("is broken among the costs as well, unless one begins beyond it", () => {
    const contrasts = [contrast("process", "warm", 100 * MS), contrast("cold", "process", 90 * MS), contrast("long prompt", "warm", 5000 * MS)];
    const steps = ladderSteps(conditions, contrasts);
    expect(ladderScale(steps).full).toBe(265 * MS);
    expect(brokenSteps(steps)).toContain("+5.00 s of “long prompt”");
    const beyond = [...steps, { ...steps.at(-1)!, name: "more", from: 5090 * MS, to: 5100 * MS }];
    expect(ladderScale(beyond).full).toBe(5100 * MS);
    expect(brokenSteps(beyond)).toBe("");
  });
  it("keeps the length of what is short, and all together have the room", () => {
    expect(cutTo([2, 300, 500, 4], 24)).toEqual([2, 9, 9, 4]);
    expect(cutTo([2, 3, 500, 4], 24)).toEqual([2, 3, 15, 4]);
    expect(cutTo([1, 2], 24)).toEqual([1, 2]);
  });
});
