import { describe, expect, it } from "vitest";
import { Definitions } from "../src/define";
import { growth, overTime, shareOf, stripsOf } from "../src/over_time";
import type { Samples } from "../src/data";
import { attempt, MS } from "./fixtures";

const define = new Definitions([
  { name: "target_major_faults", unit: "count", home: "counter", summary: "faults that waited for I/O" },
  { name: "target_read_bytes", unit: "bytes", home: "counter", summary: "read from storage" },
  { name: "psi_io_some_us", unit: "us", home: "counter", summary: "some task waited for I/O" },
]);

const SAMPLES: Samples = {
  at_ns: [-MS, 10 * MS, 20 * MS, 40 * MS],
  totals: {
    target_major_faults: [0, 4, 4, 10],
    target_minor_faults: [0, 0, 0, 0],
    target_read_bytes: [0, null, 5_000_000, 5_000_000],
    psi_io_some_us: [0, 0, 5_000, 10_000],
    psi_io_full_us: [0, 0, 2_500, 2_500],
  },
  page_cache: ["0000", "", "9940", "9999"],
};

describe("what was sampled over time", () => {
  const { lanes, remark } = overTime(attempt({ samples: SAMPLES }), define);
  const lane = (name: string) => lanes.find((each) => each.name === name)!;

  it("is a lane of growth per interval, in proportion to the rate", () => {
    const faults = lane("major faults").blocks;
    expect(faults.map((each) => [each.from, each.to, each.value])).toEqual([[-MS, 10 * MS, 4], [20 * MS, 40 * MS, 6]]);
    expect(faults[0]!.top).toBe(0); // 4 in 11 ms is the highest rate
    expect(1 - faults[1]!.top!).toBeCloseTo((6 / 20) / (4 / 11));
    expect(faults[1]!.title).toBe("major faults: 6 between 20.0 ms and 40.0 ms (300/s); 10 in all.");
    expect(lane("major faults").definition).toContain("faults that waited for I/O");
    expect(lane("major faults").definition).toContain("Source: operating system, sampled");
  });

  it("draws pressure as a share of the time, with its part for everybody", () => {
    const blocks = lane("I/O pressure").blocks;
    expect(blocks.map((each) => [each.kind, each.from, 1 - each.top!])).toEqual([["rate", 10 * MS, 0.5], ["rate-part", 10 * MS, 0.25], ["rate", 20 * MS, 0.25]]);
    expect(blocks[0]!.title).toContain("5.00 ms between 10.0 ms and 20.0 ms (50.0 %), 2.50 ms of it");
  });

  it("leaves a gap where a total was not read, and never calls it zero", () => {
    expect(growth(SAMPLES, "target_read_bytes")).toEqual([{ from: 20 * MS, to: 40 * MS, grown: 0 }]);
    expect(growth(SAMPLES, "psi_memory_some_us")).toEqual([]);
    expect(remark).toContain("Zero throughout: reads and minor faults.");
    expect(remark).toContain("Could not be read: PSI memory some and PSI CPU some.");
  });

  it("shows the file from its first byte at the top, each column once", () => {
    expect(stripsOf(SAMPLES)).toEqual(["0000", "0000", "9940", "9999"]);
    expect(shareOf("9940")).toBeCloseTo(22 / 36);
    const cells = lane("page cache").blocks;
    expect(cells.map((each) => [each.from, each.to, each.top, each.bottom, each.value])).toEqual([[20 * MS, 40 * MS, 0, 0.5, 9], [20 * MS, 40 * MS, 0.5, 0.75, 4]]);
    expect(lane("page cache").summary).toBe("page cache over time: 0 % of the file at first, 100 % at last, all of it from 40.0 ms on");
  });

  it("says that an attempt of an earlier version has none, and why one has none", () => {
    expect(overTime(attempt(), define)).toEqual({ lanes: [], remark: "Faults, reads, pressure and the page cache over time were not recorded for this attempt." });
    expect(overTime(attempt({ samples: null, null_reasons: { samples: "<b>off</b>" } }), define).remark).toContain("(<b>off</b>)");
    const without = overTime(attempt({ samples: { ...SAMPLES, page_cache: [] }, null_reasons: { "samples.page_cache": "no cachestat" } }), define);
    expect(without.lanes.map((each) => each.name)).not.toContain("page cache");
    expect(without.remark).toContain("The page cache over time was not recorded (no cachestat).");
  });
});
