import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { contrast, inkOn, rampColor, STAGE_COLORS, symbolOf } from "../src/looks";
import { STAGES } from "./fixtures";

// Machado, Oliveira and Fernandes 2009, full severity, on linear RGB.
const EYES: Record<string, number[]> = {
  usual: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  protanopia: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deuteranopia: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  tritanopia: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};

function oklab(color: string, eye: number[]): [number, number, number] {
  const number = parseInt(color.slice(1), 16);
  const rgb = [16, 8, 0].map((shift) => {
    const share = ((number >> shift) & 255) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const seen = [0, 1, 2].map((row) => Math.min(1, Math.max(0, rgb.reduce((sum, each, at) => sum + eye[row * 3 + at]! * each, 0))));
  const [r, g, b] = seen as [number, number, number];
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s, 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s, 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s];
}

const distance = (one: string, other: string, eye: number[]): number => {
  const [a, b] = [oklab(one, eye), oklab(other, eye)];
  return Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
};

describe("stages", () => {
  it("have a colour and a letter of their own each", () => {
    for (const { name } of STAGES) expect(STAGE_COLORS[name], name).toBeDefined();
    expect(new Set(Object.values(STAGE_COLORS)).size).toBe(STAGES.length);
    expect(new Set(STAGES.map((each) => each.letter)).size).toBe(STAGES.length);
  });

  it("that stand side by side in a bar are apart for every kind of eye", () => {
    for (const [eye, matrix] of Object.entries(EYES)) {
      // Stages of no time are left out of a bar, so each may meet the next two.
      for (const [at, stage] of STAGES.entries()) {
        for (const other of STAGES.slice(at + 1, at + 3)) {
          expect(distance(STAGE_COLORS[stage.name]!, STAGE_COLORS[other.name]!, matrix), `${stage.name} beside ${other.name}, ${eye}`).toBeGreaterThan(0.08);
        }
      }
    }
  });

  it("carry letters that can be read", () => {
    for (const color of Object.values(STAGE_COLORS)) expect(contrast(color, inkOn(color)), color).toBeGreaterThanOrEqual(4.5);
  });
});

describe("the ramp from warm to cold", () => {
  it("goes one way in lightness for every kind of eye, so that order needs no hue", () => {
    for (const theme of ["light", "dark"] as const) {
      for (const [eye, matrix] of Object.entries(EYES)) {
        const lightness = [0, 1, 2, 3, 4, 5].map((place) => oklab(rampColor(place, 6, theme), matrix)[0]);
        const sorted = [...lightness].sort((a, b) => (theme === "light" ? b - a : a - b));
        // A tie within what can be seen is no reversal.
        lightness.forEach((each, place) => expect(Math.abs(each - sorted[place]!), `${theme}, ${eye}`).toBeLessThan(0.06));
      }
    }
  });

  it("stands out from the paper", () => {
    for (let place = 0; place < 6; place++) {
      expect(contrast(rampColor(place, 6, "light"), "#fbfaf7")).toBeGreaterThan(2.5);
      expect(contrast(rampColor(place, 6, "dark"), "#14161a")).toBeGreaterThan(4.5);
    }
  });

  it("gives neighbours different shapes", () => {
    for (let place = 0; place < 7; place++) expect(symbolOf(place)).not.toBe(symbolOf(place + 1));
  });
});

describe("the colours of the pages", () => {
  const css = readFileSync("src/base.css", "utf8");
  const named = new Map([...css.matchAll(/--(\w+): light-dark\((#\w{6}), (#\w{6})\)/g)].map(([, name, light, dark]) => [name!, [light!, dark!]]));

  it("can be read on every ground", () => {
    for (const name of ["ink", "muted", "link", "bad", "good", "unsure"]) {
      for (const ground of ["paper", "card"]) {
        for (const theme of [0, 1]) expect(contrast(named.get(name)![theme]!, named.get(ground)![theme]!), `${name} on ${ground}, ${theme}`).toBeGreaterThanOrEqual(4.5);
      }
    }
  });
});
