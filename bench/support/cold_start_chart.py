"""The chart of bench/cold_start.py: bars of medians by model and row, as one SVG file that follows
the reader's light or dark colours. No library."""
from xml.sax.saxutils import escape

COLOURS = {"rouse": "#0f8a5f", "llama-best": "#3d7edb", "llama-default": "#8fb5ee",
           "naive": "#b08bd0", "ollama": "#e0913a"}
WIDTH, LEFT, RIGHT = 900, 250, 120
BAR, GAP, GROUP_GAP, TITLE = 14, 3, 18, 34
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.model { font-weight: 600; font-size: 14px }
.row { fill: #57606a }
.floor { stroke: #cf222e; stroke-width: 1.5; stroke-dasharray: 3 2 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .row { fill: #9da7b3 } }
"""


def svg(found: dict, row_titles: dict, model_titles: dict) -> str:
    parts, y = [], 10
    legend = {}
    for model, one in found["models"].items():
        rows = {row: by_arm for row, by_arm in one["rows"].items() if row != "warm"}
        longest = max((entry["median_ns"] or 0 for by_arm in rows.values()
                       for entry in by_arm.values()), default=0)
        if not longest:
            continue
        scale = (WIDTH - LEFT - RIGHT) / longest
        titles = {arm["arm"]: arm["title"] for arm in one["arms"]}
        y += TITLE
        parts.append(f'<text class="model" x="10" y="{y - 12}">'
                     f"{escape(model_titles[model])}</text>")
        for row, by_arm in rows.items():
            shown = [arm for arm in COLOURS if by_arm.get(arm, {}).get("median_ns")]
            parts.append(f'<text class="row" x="{LEFT - 12}" y="{y + 12}" text-anchor="end">'
                         f"{escape(row_titles[row])}</text>")
            top = y
            for arm in shown:
                legend[arm] = titles[arm]
                value = by_arm[arm]["median_ns"]
                width = max(1.0, value * scale)
                parts.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" '
                             f'fill="{COLOURS[arm]}"><title>{escape(titles[arm])}: '
                             f"{value / 1e6:.0f} ms</title></rect>")
                parts.append(f'<text x="{LEFT + width + 6:.1f}" y="{y + BAR - 3}">'
                             f"{value / 1e6:.0f} ms</text>")
                y += BAR + GAP
            floor = one["floor"]["rows"].get(row)
            if floor and shown:
                x = LEFT + floor * scale
                parts.append(f'<line class="floor" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 2}" '
                             f'y2="{y}"/>')
            y += GROUP_GAP
    x = 10
    y += 6
    for arm, title in legend.items():
        parts.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{COLOURS[arm]}"/>'
                     f'<text x="{x + 17}" y="{y + 11}">{escape(title)}</text>')
        x += 30 + int(len(title) * 6.6)
    y += 22
    parts.append(f'<line class="floor" x1="14" x2="14" y1="{y}" y2="{y + 14}"/>'
                 f'<text x="27" y="{y + 11}">floor: disk or tokenizer, then one warm answer</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 26}" '
            f'viewBox="0 0 {WIDTH} {y + 26}" role="img" aria-label="Median time to first token">'
            f"<style>{STYLE}</style>" + "".join(parts) + "</svg>\n")
