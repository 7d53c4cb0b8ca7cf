// How things look, everywhere on the page: a stage has one colour, one letter and one texture in
// all pictures and in both themes (the terminal uses the same letters and hues); a state from warm
// to cold has one shape and one place on a ramp. No colour stands alone.

/** After Okabe and Ito; test/looks.test.ts holds neighbours apart for colour-blind eyes. */
export const STAGE_COLORS: Record<string, string> = {
  queue: "#bdbdbd",
  process_start: "#e69f00",
  weights: "#56b4e9",
  runtime_init: "#009e73",
  tokenize: "#f0e442",
  prefill: "#0072b2",
  first_decode: "#cc79a7",
  transport: "#a6430a",
  unattributed: "#6b6b6b",
};

/** What a stage is, for who never heard its name. */
export const STAGE_GLOSS: Record<string, string> = {
  queue: "behind other requests",
  process_start: "until the server listens",
  weights: "the model's file is read or mapped",
  runtime_init: "memory and threads are made ready",
  tokenize: "text becomes tokens",
  prefill: "the prompt is computed",
  first_decode: "the first token is computed",
  transport: "between server and client",
  unattributed: "nobody can tell",
};

export function stageColor(stage: string): string {
  return STAGE_COLORS[stage] ?? "#6b6b6b";
}

/** Black or white, whichever reads better on `color`. */
export function inkOn(color: string): string {
  return contrast(color, "#000000") >= contrast(color, "#ffffff") ? "#000000" : "#ffffff";
}

function channels(color: string): [number, number, number] {
  const number = parseInt(color.slice(1), 16);
  return [(number >> 16) & 255, (number >> 8) & 255, number & 255];
}

function linear(channel: number): number {
  const share = channel / 255;
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
}

export function luminance(color: string): number {
  const [red, green, blue] = channels(color).map(linear) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

export function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

/** From warm to cold: light to dark in the light theme, the other way round in the dark one, so
 * that lightness alone tells the order. */
const RAMP = {
  light: ["#d98500", "#d1495b", "#9b3a86", "#5b3fa0", "#2a3c8f", "#11204d"],
  dark: ["#c97b00", "#e07070", "#dd8fd0", "#b9a8ff", "#a3d0ff", "#eaf4ff"],
};
export const SYMBOLS = ["circle", "square", "triangle", "diamond", "star", "cross", "wye", "asterisk"] as const;

export type Theme = "light" | "dark";

/** The colour of place `index` of `count` between warm and cold. */
export function rampColor(index: number, count: number, theme: Theme): string {
  const ramp = RAMP[theme];
  const place = count <= 1 ? 0 : Math.round((index / (count - 1)) * (ramp.length - 1));
  return ramp[Math.min(place, ramp.length - 1)]!;
}

export function symbolOf(index: number): (typeof SYMBOLS)[number] {
  return SYMBOLS[index % SYMBOLS.length]!;
}

export const FAILURE = { light: "#b3001b", dark: "#ff6b6b" };

export function currentTheme(): Theme {
  const chosen = document.documentElement.dataset["theme"];
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}
