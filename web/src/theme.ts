// Light and dark: by the system's wish, or by the button's.

import { h } from "./dom";

const NAMES = ["auto", "light", "dark"];
const KEPT = "rouse-theme";

/** `redraw` is called whenever colours have changed. */
export function themeButton(redraw: () => void = () => {}): HTMLElement {
  const root = document.documentElement;
  const button = h("button", { type: "button", class: "theme" });
  const show = (): void => { button.textContent = `theme: ${root.dataset["theme"] ?? "auto"}`; };
  button.addEventListener("click", () => {
    const next = NAMES[(NAMES.indexOf(root.dataset["theme"] ?? "auto") + 1) % NAMES.length]!;
    if (next === "auto") delete root.dataset["theme"];
    else root.dataset["theme"] = next;
    try { localStorage.setItem(KEPT, next); } catch { /* a file may have no storage */ }
    show();
    redraw();
  });
  try {
    const kept = localStorage.getItem(KEPT);
    if (kept === "light" || kept === "dark") root.dataset["theme"] = kept;
  } catch { /* the same */ }
  show();
  return button;
}
