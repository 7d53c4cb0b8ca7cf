// Definitions on hover, focus and touch: anything with data-def shows what it means and where it
// comes from. Metrics are described by the catalogue that the binary put into the data.

import { h } from "./dom";
import type { Metric } from "./data";

const HOMES: Record<string, string> = {
  attempt: "stamped by the client on this machine's monotonic clock",
  mark: "stamped by the client when read() or write() returned",
  stage: "exclusive; the stages sum to the TTFT",
  tokens: "as the server counts",
  stream: "counted by the client",
  counter: "read from the operating system before and after the request",
  state: "read back right before the request",
};

export class Definitions {
  private readonly metrics = new Map<string, Metric>();

  constructor(catalogue: Metric[]) {
    for (const metric of catalogue) this.metrics.set(metric.name, metric);
  }

  metric(name: string): Metric | undefined {
    return this.metrics.get(name);
  }

  unit(name: string): string {
    return this.metrics.get(name)?.unit ?? name.split("_").at(-1) ?? "";
  }

  /** What a number means, and its source. */
  text(name: string, source?: string): string {
    const metric = this.metrics.get(name);
    if (!metric) return source ? `${name}. Source: ${source}.` : name;
    return `${name}: ${metric.summary}. Source: ${source ?? HOMES[metric.home] ?? metric.home}.`;
  }
}

/** A word that explains itself. It can be reached with the keyboard. */
export function term(label: string, definition: string): HTMLButtonElement {
  return h("button", { type: "button", class: "term", "data-def": definition }, label);
}

/** A number that explains itself on hover; its column or row has a term for the keyboard. */
export function number(text: string, definition: string, className = "number"): HTMLSpanElement {
  return h("span", { class: className, "data-def": definition }, text);
}

/** One bubble for all of them. */
export function installDefinitions(root: HTMLElement): void {
  const bubble = h("div", { id: "definition", role: "tooltip", hidden: true });
  root.append(bubble);
  let shown: Element | null = null;
  const hide = (): void => {
    shown?.removeAttribute("aria-describedby");
    shown = null;
    bubble.hidden = true;
  };
  const show = (target: Element): void => {
    if (target === shown) return;
    hide();
    shown = target;
    bubble.textContent = target.getAttribute("data-def");
    bubble.hidden = false;
    target.setAttribute("aria-describedby", "definition");
    const box = target.getBoundingClientRect();
    const own = bubble.getBoundingClientRect();
    const left = Math.min(Math.max(8, box.left), document.documentElement.clientWidth - own.width - 8);
    const below = box.bottom + 6;
    const top = below + own.height > innerHeight ? box.top - own.height - 6 : below;
    bubble.style.left = `${left + scrollX}px`;
    bubble.style.top = `${Math.max(4, top) + scrollY}px`;
  };
  const find = (event: Event): Element | null =>
    event.target instanceof Element ? event.target.closest("[data-def]") : null;
  root.addEventListener("pointerover", (event) => {
    const target = find(event);
    if (target) show(target);
    else if (shown && document.activeElement !== shown) hide();
  });
  root.addEventListener("focusin", (event) => {
    const target = find(event);
    if (target) show(target);
    else hide();
  });
  root.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
}
