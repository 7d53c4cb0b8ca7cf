import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { Details, inUnit, rowsOf } from "../src/data";
import { csvOf, haystackOf, matches } from "../src/table";
import { fullRange, lanesOf, zoomed } from "../src/lanes";
import { coldWords, stepsOf } from "../src/pictures";
import { logTicks, timeAxis } from "../src/plots";
import { attempt, columns, MS, STAGES } from "./fixtures";

describe("columns", () => {
  it("become rows in their order", () => {
    const rows = rowsOf(columns());
    expect(rows.map((row) => [row.id, row.condition, row.outcome, row.ttft, row.waited])).toEqual([
      [1, "warm", "ok", 5 * MS, null], [2, "cold", "timeout", null, 600e9], [3, "cold", "state_not_reached", null, null]]);
  });
  it("count neither primes nor states that were not reached", () => {
    expect(rowsOf(columns({ prime: [1, 0, 0] })).map((row) => row.counted)).toEqual([false, true, false]);
  });
  it("take a member by its unit's name", () => {
    expect(inUnit({ value_ns: 3, values: 9 }, "value")).toBe(3);
    expect(inUnit({ estimator: "x" }, "value")).toBeUndefined();
  });
  it("unpack the details of one attempt from its block", async () => {
    const block = (ids: number[]): string => gzipSync(JSON.stringify(ids.map((id) => ({ id, name: "é</script>" })))).toString("base64");
    const details = new Details(columns({ details_per: 2, details: [block([1, 2]), block([3])] }));
    expect((await details.of(2))?.id).toBe(3);
    expect((await details.all([0, 1])).map((each) => each.id)).toEqual([1, 2]);
    expect(await details.of(9)).toBeUndefined();
  });
});

describe("the table", () => {
  const all = columns();
  const rows = rowsOf(all);
  const found = (text: string, condition = "", outcome = ""): (number | null)[] =>
    rows.filter((row) => matches(haystackOf(row, all), row, { text, condition, outcome })).map((row) => row.id);
  it("filters by words, id, condition and outcome", () => {
    expect(found("")).toEqual([1, 2, 3]);
    expect(found("cold timeout")).toEqual([2]);
    expect(found("#3")).toEqual([3]);
    expect(found("NO BYTE")).toEqual([2]);
    expect(found("", "cold")).toEqual([2, 3]);
    expect(found("", "", "failed")).toEqual([2, 3]);
    expect(found("", "cold", "timeout")).toEqual([2]);
    expect(found("nothing like it")).toEqual([]);
  });
  it("saves CSV with empty cells for what was not measured", () => {
    const lines = csvOf(all, rows).trimEnd().split("\r\n");
    expect(lines[0]).toBe("id,condition,block,position,prime,outcome,outcome_detail,cold_layers,ttft_ns,mark_end_ns");
    expect(lines[2]).toBe("2,cold,1,1,0,timeout,no byte within 600 s,page_cache process,,600000000000");
  });
  it("quotes what CSV must quote, and arms no formula", () => {
    const hostile = columns({ n: 1, conditions: ['=1+1,"x"\n'], id: [1], condition: [0], outcome: [0], prime: [0], cold: [0], block: [null], position: [null], outcome_detail: {}, values: {} });
    expect(csvOf(hostile, rowsOf(hostile)).split("\r\n")[1]).toBe(`1,"'=1+1,""x""\n",,,0,ok,,`);
  });
});

describe("one attempt", () => {
  it("has lanes of client, request and everything beside it", () => {
    const lanes = lanesOf(attempt(), STAGES);
    expect(lanes.map((lane) => lane.name)).toEqual(["client", "request waits for", "connection tries", "weights"]);
    expect(lanes[0]!.blocks.map((block) => [block.label, block.from, block.to])).toEqual([["connect", 0, 2 * MS], ["send", 2 * MS, 3 * MS], ["wait", 3 * MS, 20 * MS], ["answer", 20 * MS, 30 * MS]]);
    expect(lanes[1]!.blocks.map((block) => block.kind)).toEqual(["process_start", "weights", "prefill"]);
    expect(lanes[3]!.blocks[0]!.title).toBe("weights: 10.0 ms, 98.0 MB at 9.80 GB/s");
  });
  it("without the server's timeline says that the order of its stages is not known", () => {
    const lane = lanesOf(attempt({ segments: [] }), STAGES)[1]!;
    expect(lane.blocks.at(-1)!.to).toBe(20 * MS);
    expect(lane.blocks[0]!.title).toContain("its place is not known");
  });
  it("that failed waits until its end", () => {
    const lanes = lanesOf(attempt({ outcome: "timeout", ttft_ns: null, segments: [], stages_ns: {}, lanes: [], marks_ns: { send_start: 0, connected: 1, request_sent: 2, first_token: null, end: 600e9 } }), STAGES);
    expect(lanes).toHaveLength(1);
    expect(lanes[0]!.blocks.at(-1)).toMatchObject({ label: "wait", to: 600e9 });
  });
  it("zooms about a point and stays inside of the whole", () => {
    expect(zoomed([0, 100], [0, 100], 0.5, 50)).toEqual([25, 75]);
    expect(zoomed([25, 75], [0, 100], 10, 50)).toEqual([0, 100]);
    expect(zoomed([0, 100], [0, 100], 1e-9, 0)[1]).toBeCloseTo(0.02);
    expect(fullRange(attempt())).toEqual([0, 30 * MS]);
  });
});

describe("pictures", () => {
  it("draw a distribution that ends below 1 when some failed", () => {
    const rows = rowsOf(columns()).filter((row) => row.counted);
    expect(stepsOf(rows, 2)).toEqual([{ x: 5 * MS, y: 0 }, { x: 5 * MS, y: 0.5 }]);
    expect(stepsOf([], 0)).toEqual([]);
  });
  it("name the layers that were cold, without those that always are", () => {
    expect(coldWords(0b11, ["connection", "page_cache"], 0b01)).toBe("page cache");
    expect(coldWords(0b01, ["connection", "page_cache"], 0b01)).toBe("none of these cold");
  });
  it("have a logarithmic axis only where the values need one", () => {
    expect(timeAxis([10, 20], 400).type).toBe("linear");
    expect(timeAxis([10, 2000], 400).type).toBe("log");
    expect(timeAxis([], 400).domain).toEqual([0, 1]);
    expect(logTicks(9, 1100, 10)).toEqual([10, 20, 50, 100, 200, 500, 1000]);
    expect(logTicks(9, 1100, 4)).toEqual([10, 100, 1000]);
  });
});
