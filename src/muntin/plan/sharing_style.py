"""The style of the drawing of what is shared: by classes, so that a page may turn it dark."""

from __future__ import annotations

WIDTH = 1180
COLOURS = 8  # of stores; then they come again

_LIGHT = {
    "ink": "#15181e", "soft": "#5c6573", "line": "#d9dee6", "box": "#ffffff", "track": "#e8ebf0", "ribbon": "0.3",
    "c0": "#3b6fd4", "c1": "#13907f", "c2": "#c2731b", "c3": "#8a56c9", "c4": "#c2456b", "c5": "#4f8a2d",
    "c6": "#2488ad", "c7": "#8b7325",
}  # fmt: skip
_DARK = {
    "ink": "#e9edf3", "soft": "#98a2b3", "line": "#2c333f", "box": "#171b22", "track": "#2a303b", "ribbon": "0.34",
    "c0": "#6d9bf5", "c1": "#38bfab", "c2": "#e39a4a", "c3": "#b38cec", "c4": "#ea7a9c", "c5": "#84be5f",
    "c6": "#58b7dd", "c7": "#c3a950",
}  # fmt: skip


def _variables(values: dict[str, str]) -> str:
    return "".join(f"--mw-{name}:{value};" for name, value in values.items())


STYLE = (
    f".muntin-sharing{{{_variables(_LIGHT)}width:100%;height:auto;max-width:{WIDTH}px;"
    'font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;'
    "font-variant-numeric:tabular-nums}"
    f"@media (prefers-color-scheme:dark){{.muntin-sharing{{{_variables(_DARK)}}}}}"
    f"[data-theme=light] .muntin-sharing,[data-jp-theme-light=true] .muntin-sharing{{{_variables(_LIGHT)}}}"
    f"[data-theme=dark] .muntin-sharing,[data-jp-theme-light=false] .muntin-sharing{{{_variables(_DARK)}}}"
    ".muntin-sharing text{fill:var(--mw-ink);font-size:14px}"
    ".muntin-sharing .mw-title{font-size:24px;font-weight:650;letter-spacing:-.01em}"
    ".muntin-sharing .mw-column{font-size:11px;font-weight:600;letter-spacing:.07em;fill:var(--mw-soft)}"
    ".muntin-sharing .mw-name{font-weight:600}"
    ".muntin-sharing .mw-code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-weight:600}"
    ".muntin-sharing .mw-bytes{font-size:21px;font-weight:650;letter-spacing:-.01em}"
    ".muntin-sharing .mw-note{font-size:12.5px;fill:var(--mw-soft)}"
    ".muntin-sharing .mw-rule{font-size:12.5px;font-style:italic;fill:var(--mw-ink);fill-opacity:.86}"
    ".muntin-sharing .mw-end{text-anchor:end}"
    ".muntin-sharing .mw-box{fill:var(--mw-box);stroke:var(--mw-line)}"
    ".muntin-sharing .mw-track{fill:var(--mw-track)}"
    ".muntin-sharing .mw-ribbon{fill-opacity:var(--mw-ribbon)}"
    + "".join(f".muntin-sharing .mw-c{each}{{fill:var(--mw-c{each})}}" for each in range(COLOURS))
)
