"""A report as one self-contained HTML file."""

from html import escape

from tiercel.pipeline.reports.findings import Findings

_STYLE = """
:root {
  color-scheme: light dark;
  --ink: #22303c; --soft: #66737f; --line: #dde3e8; --page: #f4f6f8; --card: #fff;
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6ebef; --soft: #9aa7b2; --line: #36424d; --page: #161c22; --card: #1f272f; }
}
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 1080px; margin: 0 auto; padding: 32px 20px 60px; display: grid; gap: 20px }
h1 { margin: 0; font-size: 26px }
header p { margin: 4px 0 0; color: var(--soft) }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; overflow-x: auto }
.picture { background: #fff; padding: 12px }
.picture svg { width: 100%; height: auto; display: block }
dl { display: flex; flex-wrap: wrap; gap: 12px; margin: 0 }
dl div { padding: 10px 16px; min-width: 120px }
dt { color: var(--soft); font-size: 13px }
dd { margin: 0; font-size: 19px; font-weight: 600 }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { padding: 7px 14px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
th { color: var(--soft); font-weight: 500; font-size: 13px }
tr:last-child td { border-bottom: 0 }
.text { text-align: left }
"""


def page(title: str, findings: Findings, svg: str) -> str:
    picture = svg[svg.index("<svg") :]  # without the XML declaration, which HTML does not have
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>"
        f"<header><h1>{escape(title)}</h1><p>{escape(findings.headline)}</p></header>"
        f"{_facts(findings)}"
        f'<div class="card picture" role="img" aria-label="{escape(findings.headline)}">{picture}</div>'
        f"{_table(findings)}</main></body></html>\n"
    )


def _facts(findings: Findings) -> str:
    each = "".join(
        f'<div class="card"><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>'
        for name, value in findings.facts
    )
    return f"<dl>{each}</dl>" if each else ""


def _table(findings: Findings) -> str:
    if not findings.rows:
        return ""
    is_text = [
        not all(_is_number(row[place]) for row in findings.rows) for place in range(len(findings.header))
    ]
    head = "".join(_cell("th", name, text) for name, text in zip(findings.header, is_text, strict=True))
    body = "".join(
        f"<tr>{''.join(_cell('td', value, text) for value, text in zip(row, is_text, strict=True))}</tr>"
        for row in findings.rows
    )
    return f'<div class="card"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(kind: str, value: str, is_text: bool) -> str:
    mark = ' class="text"' if is_text else ""
    return f"<{kind}{mark}>{escape(value)}</{kind}>"


def _is_number(text: str) -> bool:
    """Whether it begins with a number: `12 s` and `1,204` are aligned to the right."""
    return text[:1].isdigit() or not text
