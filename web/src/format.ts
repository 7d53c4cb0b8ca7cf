// Numbers as people read them, with the words that the terminal uses: three significant digits and
// a unit (src/base/units.cc).

export function significant(value: number, digits = 3): string {
  if (value === 0) return "0";
  const rounded = Math.abs(Number(value.toPrecision(digits))); // 0.9996 has the digits of 1.00
  const magnitude = Math.floor(Math.log10(rounded)) + 1;
  return value.toFixed(Math.max(0, Math.min(digits - magnitude, digits)));
}

export function duration(ns: number | null | undefined): string {
  if (ns === null || ns === undefined) return "–";
  if (ns < 0) return "−" + duration(-ns);
  if (ns === 0) return "0 s";
  if (ns < 999.5) return `${Math.round(ns)} ns`;
  if (ns < 999.5e3) return `${significant(ns / 1e3)} µs`;
  if (ns < 999.5e6) return `${significant(ns / 1e6)} ms`;
  if (ns < 99.95e9) return `${significant(ns / 1e9)} s`;
  const seconds = Math.round(ns / 1e9);
  if (seconds < 3600) return parts(seconds, 60, "min", "s");
  if (seconds < 86400) return parts(Math.round(seconds / 60), 60, "h", "min");
  return parts(Math.round(seconds / 3600), 24, "d", "h");
}

function parts(count: number, per: number, large: string, small: string): string {
  const rest = count % per;
  return `${Math.floor(count / per)} ${large}` + (rest > 0 ? ` ${rest} ${small}` : "");
}

export function bytes(count: number | null | undefined): string {
  if (count === null || count === undefined) return "–";
  if (count < 0) return "−" + bytes(-count);
  for (const [limit, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]] as const) {
    if (count >= limit * 0.9995) return `${significant(count / limit)} ${unit}`;
  }
  return `${Math.round(count)} B`;
}

export function percent(share: number | null | undefined): string {
  return share === null || share === undefined ? "–" : `${significant(share * 100)} %`;
}

/** A metric's value in its unit, by the unit that its name ends with. */
export function quantity(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined) return "–";
  switch (unit) {
    case "ns":
      return duration(value);
    case "us":
      return duration(value * 1e3);
    case "bytes":
      return bytes(value);
    case "ratio":
      return percent(value);
    case "hz":
      return value >= 1e9 ? `${significant(value / 1e9)} GHz` : `${significant(value / 1e6)} MHz`;
    default:
      return Number.isInteger(value) ? value.toLocaleString("en-US") : significant(value);
  }
}

export function signed(value: number, words: (size: number) => string): string {
  return (value > 0 ? "+" : value < 0 ? "−" : "±") + words(Math.abs(value));
}

/** "127 – 382 ms": the unit once where both ends share it. */
export function range(low: string, high: string): string {
  const [unitLow, unitHigh] = [low.split(" ").at(-1), high.split(" ").at(-1)];
  const short = unitLow === unitHigh && low.split(" ").length === 2 ? low.split(" ")[0]! : low;
  return `${short} – ${high}`;
}

export function words(name: string): string {
  return name.replaceAll("_", " ");
}

/** The value of an axis' tick: without zeros that say nothing. */
export function tick(value: number, format: (value: number) => string = duration): string {
  return value === 0 ? "0" : format(value).replace(/(\.\d*?)0+(?= |$)/, "$1").replace(/\.(?= |$)/, "");
}

const SPELLED: Record<string, string> = { cpu: "CPU", gpu: "GPU", psi: "PSI", io: "I/O", rss: "RSS", pss: "PSS", ttft: "TTFT", ttfc: "TTFC", target: "server" };

/** A metric's name for people, without its unit: "PSI I/O full". */
export function metricName(name: string, unit = ""): string {
  const bare = /^(ns|us|bytes|ratio|hz|tokens)$/.test(unit) && name.endsWith(`_${unit}`) ? name.slice(0, -unit.length - 1) : name;
  return bare.split("_").map((word) => SPELLED[word] ?? word).join(" ");
}

export function list(items: string[], last = "and"): string {
  if (items.length < 2) return items.join("");
  return `${items.slice(0, -1).join(", ")} ${last} ${items.at(-1)}`;
}

export function plural(count: number, one: string, many = one + "s"): string {
  return `${count.toLocaleString("en-US")} ${count === 1 ? one : many}`;
}

/** The name of a shape of file, safe to save under. */
export function fileName(text: string): string {
  return text.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-").replaceAll(/^-|-$/g, "") || "run";
}
