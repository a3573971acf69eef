"""The report's style sheet: light and dark, no fonts or files from outside."""

STYLE = """
:root {
  --ink: #1c2330; --muted: #5c6675; --ground: #fbfbfa; --panel: #ffffff; --rule: #e2e5e9;
  --span: #f1f3f6; --good: #18794e; --good-ground: #e3f4ea; --bad: #b3261e; --bad-ground: #fbe7e5;
  --warn: #8a5a00; --warn-ground: #fdf0d5; --link: #1f5fbf;
  --c0: #2f6db5; --c1: #d1602b; --c2: #2a8f6d; --c3: #8a63b8; --c4: #b58a1b; --c5: #7a8594;
  --c6: #b23a63; --t: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e8ee; --muted: #98a3b3; --ground: #12161c; --panel: #1a2028; --rule: #2c3440;
    --span: #212934; --good: #6fd3a0; --good-ground: #16352a; --bad: #ff9a90;
    --bad-ground: #44201d; --warn: #f0c36a; --warn-ground: #3b2d12; --link: #8ab4f8;
    --c0: #6ea8ec; --c1: #f0915e; --c2: #5cc7a1; --c3: #b99be6; --c4: #ddb84e; --c5: #9aa5b4;
    --c6: #e77a9d; --t: #10141a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
header, main { max-width: 1120px; margin: 0 auto; padding: 0 24px; }
header { padding-top: 32px; }
h1 { font-size: 27px; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 19px; margin: 0 0 12px; letter-spacing: -0.005em; }
h3 { font-size: 15px; margin: 20px 0 8px; }
p { margin: 0 0 12px; max-width: 76ch; }
.muted, .note { color: var(--muted); }
a { color: var(--link); }
nav {
  display: flex; flex-wrap: wrap; gap: 4px 16px; padding: 12px 0; margin-top: 16px;
  border-top: 1px solid var(--rule); border-bottom: 1px solid var(--rule);
}
nav a { text-decoration: none; }
nav a:hover, nav a:focus { text-decoration: underline; }
section { padding: 28px 0 8px; border-bottom: 1px solid var(--rule); }
section:last-child { border-bottom: 0; padding-bottom: 48px; }
.tiles {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: 12px;
  margin: 16px 0 0;
}
.tiles div {
  background: var(--panel); border: 1px solid var(--rule); border-radius: 8px; padding: 12px 14px;
}
.tiles dt { color: var(--muted); font-size: 13px; }
.tiles dd { margin: 0; font-size: 20px; font-variant-numeric: tabular-nums; white-space: nowrap; }
.tiles dd.note { font-size: 13px; white-space: normal; overflow-wrap: anywhere; }
.grid-2 {
  display: grid; gap: 16px; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr));
}
figure {
  margin: 0 0 16px; padding: 14px 16px 10px; background: var(--panel);
  border: 1px solid var(--rule); border-radius: 8px; min-width: 0;
}
figcaption { font-weight: 600; margin-bottom: 6px; }
figcaption span { font-weight: 400; color: var(--muted); margin-left: 4px; }
section > figure { max-width: 760px; }
.grid-2 figure { margin: 0; }
.grid-2 { margin-bottom: 16px; }
svg { width: 100%; max-width: 720px; height: auto; display: block; }
svg text { fill: var(--muted); font-size: 12px; font-variant-numeric: tabular-nums; }
svg .tick-y, svg .name { text-anchor: end; }
svg .name { fill: var(--ink); dominant-baseline: middle; }
svg .note { dominant-baseline: middle; }
svg .in { text-anchor: middle; dominant-baseline: middle; fill: var(--t); }
svg .tick-x, svg .label-x, svg .span-name { text-anchor: middle; }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .span { fill: var(--span); }
svg .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg .dashed { stroke-dasharray: 5 4; }
svg .interval { stroke-width: 1.5; opacity: 0.75; }
svg .line.c0, svg .interval.c0 { stroke: var(--c0); }
svg .line.c1, svg .interval.c1 { stroke: var(--c1); }
svg .line.c2, svg .interval.c2 { stroke: var(--c2); }
svg .line.c3, svg .interval.c3 { stroke: var(--c3); }
svg .line.c4, svg .interval.c4 { stroke: var(--c4); }
svg .line.c5, svg .interval.c5 { stroke: var(--c5); }
svg .line.c6, svg .interval.c6 { stroke: var(--c6); }
svg circle.c0, svg .part.c0 { fill: var(--c0); }
svg circle.c1, svg .part.c1 { fill: var(--c1); }
svg circle.c2, svg .part.c2 { fill: var(--c2); }
svg circle.c3, svg .part.c3 { fill: var(--c3); }
svg circle.c4, svg .part.c4 { fill: var(--c4); }
svg circle.c5, svg .part.c5 { fill: var(--c5); }
svg circle.c6, svg .part.c6 { fill: var(--c6); }
.legend {
  list-style: none; display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 0 0 6px; padding: 0;
  font-size: 13px; color: var(--muted);
}
.legend i {
  display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px;
}
i.c0 { background: var(--c0); } i.c1 { background: var(--c1); } i.c2 { background: var(--c2); }
i.c3 { background: var(--c3); } i.c4 { background: var(--c4); } i.c5 { background: var(--c5); }
i.c6 { background: var(--c6); }
.scroll { overflow-x: auto; margin-bottom: 16px; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: 6px; }
th, td {
  text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--rule);
  vertical-align: top;
}
th { color: var(--muted); font-weight: 500; white-space: nowrap; }
td { overflow-wrap: anywhere; min-width: 3em; }
td.short { white-space: nowrap; }
th.number, td.number { text-align: right; white-space: nowrap; padding-right: 18px; }
details { margin: 6px 0 8px; }
summary { cursor: pointer; color: var(--link); font-size: 13px; }
summary:focus-visible, a:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
pre {
  margin: 6px 0 0; padding: 10px 12px; background: var(--span); border-radius: 6px;
  white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.45 ui-monospace, "DejaVu Sans Mono",
  Menlo, Consolas, monospace;
}
code { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
article {
  background: var(--panel); border: 1px solid var(--rule); border-radius: 8px;
  padding: 12px 16px; margin-bottom: 12px;
}
article p { margin-bottom: 6px; }
article h3 { margin-top: 0; }
.badge {
  display: inline-block; padding: 1px 8px; border-radius: 10px; font-size: 12.5px;
  background: var(--span); color: var(--muted); margin-right: 6px;
}
.badge.good { background: var(--good-ground); color: var(--good); }
.badge.bad { background: var(--bad-ground); color: var(--bad); }
.badge.warn { background: var(--warn-ground); color: var(--warn); }
@media print { nav, summary { display: none; } section { break-inside: avoid; } }
"""
