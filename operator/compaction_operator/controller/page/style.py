"""The one style sheet, which lies in each page: light and dark, and tables that become cards on a phone."""

import base64
import hashlib

STYLE = """
:root { color-scheme: light dark; --fg: #1b1f24; --bg: #ffffff; --soft: #f3f5f7; --line: #c9d0d8; --dim: #57606a;
  --link: #0550ae; --bad: #b42318; --good: #1a7f37; --wait: #7a4d00; --base: #3b6ea5; --delta: #b7791f;
  --delete: #b42318; --old: #8a939d; }
@media (prefers-color-scheme: dark) {
  :root { --fg: #e6edf3; --bg: #0f141a; --soft: #1a212a; --line: #3a4551; --dim: #9aa7b4; --link: #79b8ff;
    --bad: #ff8a80; --good: #6fdd8b; --wait: #f0c674; --base: #6ea8e0; --delta: #e0b050; --delete: #ff8a80;
    --old: #7d8893; }
}
* { box-sizing: border-box; }
body { margin: 0; font: 1rem/1.5 system-ui, "DejaVu Sans", sans-serif; color: var(--fg); background: var(--bg);
  overflow-wrap: anywhere; }
header, main, footer { max-width: 80rem; margin: 0 auto; padding: .75rem 1rem; }
header { border-bottom: 1px solid var(--line); display: flex; flex-wrap: wrap; gap: .25rem 1.5rem;
  align-items: baseline; }
header p, nav ul { margin: 0; padding: 0; }
header p { font-weight: 600; }
nav ul, ul.pages { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; list-style: none; }
ul.pages { padding: 0; }
footer { color: var(--dim); font-size: .9rem; border-top: 1px solid var(--line); }
a { color: var(--link); }
a[aria-current] { color: var(--fg); font-weight: 600; text-decoration: none; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -999rem; }
.skip:focus { left: 1rem; top: .5rem; padding: .5rem 1rem; background: var(--bg); z-index: 1; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.15rem; margin: 1.75rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1rem 0 .25rem; }
h4 { font-size: .95rem; margin: 0 0 .25rem; }
p { margin: .5rem 0; }
.dim { color: var(--dim); }
.bad { color: var(--bad); }
.good { color: var(--good); }
.wait { color: var(--wait); }
dl.figures { display: grid; gap: .75rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(11.5rem, 45%), 1fr)); }
dl.figures div { background: var(--soft); border-radius: .5rem; padding: .5rem .75rem; display: flex;
  flex-direction: column-reverse; justify-content: flex-end; }
dl.figures dt { color: var(--dim); font-size: .9rem; }
dl.figures dd { margin: 0; font-size: 1.35rem; font-weight: 600; font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--dim); font-weight: 600; font-size: .9rem; vertical-align: bottom; overflow-wrap: normal; }
td { min-width: 7rem; }
td:first-child { min-width: 10rem; }
time, .age { white-space: nowrap; }
.word, .number { min-width: 0; white-space: nowrap; font-variant-numeric: tabular-nums; }
.number { text-align: right; }
td ul { margin: 0; padding-left: 1rem; }
progress { width: 7rem; max-width: 100%; }
form { display: flex; flex-wrap: wrap; gap: .5rem; align-items: end; margin: 1rem 0; }
label { display: block; font-size: .9rem; color: var(--dim); }
input, button { font: inherit; color: inherit; background: var(--soft); border: 1px solid var(--dim);
  border-radius: .35rem; padding: .35rem .6rem; max-width: 100%; }
button { cursor: pointer; }
pre { background: var(--soft); padding: .75rem; border-radius: .5rem; white-space: pre-wrap; font-size: .9rem; }
.stages { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: 1rem; }
.stage { background: var(--soft); border-radius: .5rem; padding: .6rem .75rem; }
.stage ul { list-style: none; margin: 0; padding: 0; }
.stage li { margin: .35rem 0; }
.stage svg { display: block; width: 100%; height: .8rem; }
.stage .name { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .85rem; }
rect.base { fill: var(--base); }
rect.delta { fill: var(--delta); }
rect.delete { fill: var(--delete); }
rect.obsolete { fill: var(--old); }
@media (max-width: 48rem) {
  .stages { grid-template-columns: minmax(0, 1fr); }
}
@media (max-width: 74rem) {
  thead { position: absolute; left: -999rem; }
  table, tbody, tr, td { display: block; }
  tr { background: var(--soft); border-radius: .5rem; padding: .5rem .75rem; margin: .75rem 0; }
  td, td:first-child { border: 0; min-width: 0; padding: .15rem 0; text-align: left; white-space: normal; display: grid;
    grid-template-columns: minmax(0, 2fr) minmax(0, 3fr); gap: .75rem; }
  td.number { text-align: left; }
  td.word, td.number, time { white-space: normal; }
  td::before { content: attr(data-label); color: var(--dim); font-size: .9rem; }
  td.empty { display: none; }
}
"""

SOURCE = f"'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"
"""What a Content-Security-Policy calls this style sheet."""
