// What the pictures on Observable Plot share: axes of durations, dots that become a canvas when
// there are thousands, and the figure around each picture.

import * as Plot from "@observablehq/plot";
import { h, s, safeText } from "./dom";
import { duration, tick } from "./format";

/** As many dots as SVG draws without being felt. */
export const CANVAS_FROM = 1200;

export interface Picture {
  id: string;
  title: string;
  short?: string; // in the contents
  caption: (string | Node)[]; // what to look at
  alternative: () => string; // the same without eyes
  draw: (width: number) => Element | null;
}

const pictures: { box: HTMLElement; picture: Picture; width: number }[] = [];
let queue: (() => void)[] = [];
let running = false;

/** Work that may wait until the page answers to its reader, one piece a frame. */
export function later(work: () => void): void {
  queue.push(work);
  if (running) return;
  running = true;
  const next = (): void => {
    const piece = queue.shift();
    if (!piece) {
      running = false;
      document.documentElement.dataset["drawn"] = "all";
      return;
    }
    // One that throws is told of by the browser, and the others are drawn all the same.
    setTimeout(next, 0);
    piece();
  };
  document.documentElement.dataset["drawn"] = "some";
  setTimeout(next, 0);
}

/** As wide as a sheet of A4 or Letter between its margins is, in CSS pixels. */
const SHEET_PX = 690;
let printing = false;

/** Resolves when nothing waits any more. */
export function allDrawn(): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => { if (running) setTimeout(look, 20); else resolve(); };
    look();
  });
}

function redraw(entry: (typeof pictures)[number]): void {
  const width = printing ? SHEET_PX : Math.round(entry.box.clientWidth);
  if (width === 0) return;
  entry.width = width;
  const drawn = entry.picture.draw(width);
  if (!drawn) return;
  // The words go to the picture as a whole: to its one SVG, or to the box around several that have
  // none of their own.
  const svgs = [...drawn.querySelectorAll("svg:not([aria-hidden])")].filter((svg) => !svg.hasAttribute("aria-roledescription"));
  const whole = drawn.querySelector<Element>("[role=img][aria-label='']") ?? (drawn.getAttribute("role") === "img" ? drawn : null) ?? (svgs.length === 1 ? svgs[0]! : null);
  if (whole && !whole.getAttribute("aria-label")) {
    whole.setAttribute("role", "img");
    whole.setAttribute("aria-label", safeText(entry.picture.alternative()));
  }
  // Plot names its groups with aria-label, which a group without a role must not have.
  for (const group of drawn.querySelectorAll("g[aria-label]")) {
    group.setAttribute("data-mark", group.getAttribute("aria-label")!);
    group.removeAttribute("aria-label");
    group.removeAttribute("aria-description");
  }
  entry.box.replaceChildren(drawn);
}

export function figure(picture: Picture): HTMLElement {
  const box = h("div", { class: "plot" });
  const entry = { box, picture, width: 0 };
  pictures.push(entry);
  later(() => redraw(entry));
  return h("figure", { id: picture.id }, h("figcaption", {}, picture.caption), box);
}

export function redrawAll(): void {
  for (const entry of pictures) later(() => redraw(entry));
}

export function forgetPictures(): void {
  pictures.length = 0;
  queue = [];
}

/** Redraws when the window's width has changed, and for the sheet before printing. */
export function followWidth(): void {
  let timer = 0;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  addEventListener("resize", () => {
    clearTimeout(timer);
    document.documentElement.dataset["drawn"] = "some";
    timer = window.setTimeout(() => {
      for (const entry of pictures) {
        if (printing) break; // the sheet has its own width
        if (Math.round(entry.box.clientWidth) !== entry.width) later(() => redraw(entry));
      }
      later(() => {}); // says "all" where nothing has to be drawn anew
    }, 120);
  });
  addEventListener("beforeprint", () => {
    printing = true;
    for (const entry of pictures) redraw(entry);
  });
  addEventListener("afterprint", () => {
    printing = false;
    for (const entry of pictures) redraw(entry);
  });
}

// ---- axes ----

export interface Axis {
  type: "log" | "linear";
  domain: [number, number];
  ticks: number[];
  tickFormat: (value: number) => string;
}

/** Logarithmic when the values span more than a factor of 8, else linear from 0. */
export function timeAxis(values: number[], room: number, format = duration): Axis {
  let [low, high] = [Infinity, 0];
  for (const value of values) {
    if (value > 0 && value < low) low = value;
    if (value > high) high = value;
  }
  if (!(high > 0)) return { type: "linear", domain: [0, 1], ticks: [0], tickFormat: format };
  const count = Math.max(2, Math.floor(room / 64));
  if (high / low > 8) {
    const ticks = logTicks(low / 1.15, high * 1.15, count);
    return { type: "log", domain: [low / 1.15, high * 1.15], ticks, tickFormat: (value) => tick(value, format) };
  }
  const step = niceStep(high / count);
  const ticks: number[] = [];
  for (let at = 0; at <= high * 1.05; at += step) ticks.push(at);
  return { type: "linear", domain: [0, high * 1.05], ticks, tickFormat: (value) => tick(value, format) };
}

/** The scale without Plot's own axis: for logarithmic ones d3 leaves out labels as it likes. */
export function scaleOf(axis: Axis): Plot.ScaleOptions {
  return { type: axis.type, domain: axis.domain, axis: null, label: null };
}

/** ... and the axis in its place, below everything else. */
export function axisMarks(side: "x" | "y", axis: Axis, labels = true): Plot.Markish[] {
  const { ticks, tickFormat } = axis;
  const text = { text: (value: number) => tickFormat(value), label: null };
  return side === "x" ? [Plot.gridX(ticks), ...(labels ? [Plot.axisX(ticks, { ...text, anchor: "bottom" })] : [])]
    : [Plot.gridY(ticks), ...(labels ? [Plot.axisY(ticks, { ...text, anchor: "left" })] : [])];
}

/** What an axis shows, above the picture: "↑ time to first token, logarithmic". */
export function axisName(arrow: "↑" | "→", what: string, axis?: Axis): HTMLElement {
  return h("p", { class: "axis-name", "aria-hidden": "true" }, `${arrow} ${what}${axis?.type === "log" ? ", logarithmic" : ""}`);
}

/** Like timeAxis(), for pictures in which places count and not lengths: not from 0. */
export function placeAxis(values: number[], room: number, format = duration): Axis {
  const axis = timeAxis(values, room, format);
  const known = values.filter((value) => value > 0);
  if (axis.type === "log" || known.length === 0) return axis;
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const pad = (high - low || high) * 0.06;
  const domain: [number, number] = [Math.max(0, low - pad), high + pad];
  const step = niceStep((domain[1] - domain[0]) / Math.max(2, Math.floor(room / 84)));
  const ticks: number[] = [];
  for (let at = Math.ceil(domain[0] / step); at * step <= domain[1]; at++) ticks.push(at * step);
  return { ...axis, domain, ticks };
}

function niceStep(raw: number): number {
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= raw * 0.999)!;
}

export function logTicks(low: number, high: number, wanted: number): number[] {
  for (const factors of [[1, 2, 5], [1, 3], [1]]) {
    const found: number[] = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      for (const factor of factors) {
        const at = factor * 10 ** power;
        if (at >= low && at <= high) found.push(at);
      }
    }
    if (found.length <= wanted || factors.length === 1) {
      const every = Math.ceil(found.length / wanted);
      return found.filter((_, index) => index % every === 0);
    }
  }
  return [];
}

// ---- marks ----

interface Dot {
  x: number;
  y: number;
}

/** Dots with colour and shape; many of them as one canvas, without shapes. */
export function dots<T extends Dot>(data: T[], options: Plot.DotOptions): Plot.Markish {
  if (data.length < CANVAS_FROM) return Plot.dot(data, options);
  return painted(data, options, "dots", (brush, x, y) => brush.fillRect(x - 1.25, y - 1.25, 2.5, 2.5));
}

/** Crosses, for failures; many of them as one canvas. */
export function crosses<T extends Dot>(data: T[], color: string): Plot.Markish {
  const options: Plot.DotOptions = { x: "x", y: "y", r: 5, stroke: data.length < CANVAS_FROM ? color : () => color, strokeWidth: 2 };
  if (data.length < CANVAS_FROM) return Plot.dot(data, { ...options, symbol: "times" });
  return painted(data, options, "crosses", (brush, x, y) => {
    for (const slope of [1, -1]) {
      brush.beginPath();
      brush.moveTo(x - 3, y - 3 * slope);
      brush.lineTo(x + 3, y + 3 * slope);
      brush.stroke();
    }
  });
}

/** All points on one canvas, which says as data-KIND how many it has. */
function painted<T extends Dot>(data: T[], options: Plot.DotOptions, kind: "dots" | "crosses", paint: (brush: CanvasRenderingContext2D, x: number, y: number) => void): Plot.Markish {
  const { symbol: _symbol, ...rest } = options;
  return Plot.dot(data, {
    ...rest,
    render(index, _scales, values, dimensions) {
      const { width, height } = dimensions;
      const sharp = Math.min(2, devicePixelRatio || 1);
      const canvas = document.createElement("canvas");
      canvas.width = width * sharp;
      canvas.height = height * sharp;
      canvas.style.cssText = `width:${width}px;height:${height}px;display:block`;
      const brush = canvas.getContext("2d");
      const [xs, ys, fills] = [values.x as ArrayLike<number>, values.y as ArrayLike<number>, (values.stroke ?? values.fill) as ArrayLike<string> | undefined];
      if (brush) {
        brush.scale(sharp, sharp);
        brush.globalAlpha = 0.55;
        brush.lineWidth = 1.5;
        const plain = getComputedStyle(document.documentElement).color; // a canvas knows no variables
        for (const at of index) {
          brush.fillStyle = brush.strokeStyle = fills?.[at] ?? plain;
          paint(brush, xs[at]!, ys[at]!);
        }
      }
      canvas.dataset[kind] = String(index.length);
      const box = s("foreignObject", { x: 0, y: 0, width, height, class: "many" });
      box.append(canvas);
      return box;
    },
  });
}

/** For SVG; base.css says what they are in either theme. */
export const INK = "currentColor";
export const MUTED = "var(--muted)";

export const FRAME = { style: { background: "transparent", fontFamily: "inherit", fontSize: "12px", overflow: "visible" } } as const;

/** Evenly over -0.5 .. 0.5, the same each time: dots of one value don't hide each other. */
export function spread(index: number): number {
  return ((index * 0.618033988749895) % 1) - 0.5;
}
