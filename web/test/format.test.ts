import { describe, expect, it } from "vitest";
import { bytes, duration, fileName, metricName, percent, quantity, range, signed, tick } from "../src/format";

describe("numbers as people read them", () => {
  it("durations have three digits and the unit that fits, as in the terminal", () => {
    expect([0, 17, 1500, 24_100_000, 999_600_000, 1.31e9, 33_060e9].map(duration))
      .toEqual(["0 s", "17 ns", "1.50 µs", "24.1 ms", "1.00 s", "1.31 s", "9 h 11 min"]);
    expect(duration(-24_100_000)).toBe("−24.1 ms");
    expect(duration(null)).toBe("–");
  });
  it("bytes are powers of 1000", () => {
    expect([0, 999, 98_362_432, 1.9e9].map(bytes)).toEqual(["0 B", "999 B", "98.4 MB", "1.90 GB"]);
  });
  it("a unit says how its number is written", () => {
    expect(quantity(1500, "us")).toBe("1.50 ms");
    expect(quantity(22_509, "count")).toBe("22,509");
    expect(quantity(2.4e9, "hz")).toBe("2.40 GHz");
    expect(percent(0.123)).toBe("12.3 %");
  });
  it("ticks have no zeros that say nothing, and lose none that do", () => {
    expect([0, 10e6, 25e5, 100e6, 200e6].map((each) => tick(each))).toEqual(["0", "10 ms", "2.5 ms", "100 ms", "200 ms"]);
    expect(tick(50_000, (each) => each.toLocaleString("en-US"))).toBe("50,000");
  });
  it("a range names a shared unit once", () => {
    expect(range("127 ms", "382 ms")).toBe("127 – 382 ms");
    expect(range("−540 µs", "136 ms")).toBe("−540 µs – 136 ms");
    expect(range("1 h 2 min", "3 min")).toBe("1 h 2 min – 3 min");
  });
  it("a sign is always there", () => {
    expect(signed(227e6, duration)).toBe("+227 ms");
    expect(signed(-38.8e6, duration)).toBe("−38.8 ms");
  });
  it("a metric loses its unit and gains its capitals", () => {
    expect(metricName("psi_io_full_us", "us")).toBe("PSI I/O full");
    expect(metricName("target_major_faults", "count")).toBe("server major faults");
  });
  it("a file's name is harmless whatever the run is called", () => {
    expect(fileName("../../etc/<script>")).toBe("etc-script");
    expect(fileName("///")).toBe("run");
  });
});
