// A virtual list: fixed rows, of which only the visible ones exist; pages come from the server by row number.
import { html } from "./html.js";
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { age, number, size } from "./format.js";

const PAGE = 100;
const PAGES_KEPT = 20;
const HEAD = 34; // pixels of the heading, which stays
const AROUND = 8; // rows drawn above and below
const MAX_HEIGHT = 8_000_000; // browsers draw nothing right beyond about twice that
const stacked = matchMedia("(max-width: 720px)");

export const FIELDS = "lookup_id,label,priority,arrival_time,message_class,id";

/** Rows of messages; `fetchPage(start, limit)` returns those from a row on, `chosen` are lookup ids. */
export function MessageList({ count, version, fetchPage, onOpen, onEdit, chosen, onChoose, target, label }) {
  const box = useRef(null);
  const pages = useRef(new Map());
  const [view, setView] = useState({ top: 0, height: 600 });
  const [active, setActive] = useState(0);
  const [, redraw] = useState(0);
  const [isStacked, setStacked] = useState(stacked.matches);
  const rowHeight = isStacked ? 64 : 34;
  const rows = Math.min(count, Math.floor(MAX_HEIGHT / rowHeight));
  const first = Math.max(0, Math.floor(view.top / rowHeight) - AROUND);
  const last = Math.min(rows, Math.ceil((view.top + view.height) / rowHeight) + AROUND);

  useEffect(() => {
    const change = () => setStacked(stacked.matches);
    stacked.addEventListener("change", change);
    return () => stacked.removeEventListener("change", change);
  }, []);
  useEffect(() => {
    const measure = () => box.current && setView({ top: box.current.scrollTop, height: box.current.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => { // what is shown is replaced when it has come, so that nothing flickers
    for (const page of pages.current.values()) page.isOld = true;
  }, [version]);
  useEffect(() => {
    const control = new AbortController();
    const timer = setTimeout(async () => {
      for (let page = Math.floor(first / PAGE); page * PAGE < last; page++) {
        const known = pages.current.get(page);
        if (known && !known.isOld) continue;
        try {
          const found = await fetchPage(page * PAGE, PAGE, control.signal);
          pages.current.delete(page);
          pages.current.set(page, { rows: found, isOld: false });
          while (pages.current.size > PAGES_KEPT) pages.current.delete(pages.current.keys().next().value);
          redraw((n) => n + 1);
        } catch {
          return; // the page says what is wrong; rows that did not come are drawn as …
        }
      }
    }, 30); // a quick scroll asks for where it ends only
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [Math.floor(first / PAGE), Math.floor(Math.max(last - 1, 0) / PAGE), version, fetchPage]);
  const show = (row) => {
    row = Math.max(0, Math.min(rows - 1, row));
    setActive(row);
    const top = row * rowHeight;
    const { scrollTop, clientHeight } = box.current;
    if (top < scrollTop) box.current.scrollTop = top;
    else if (top + rowHeight + HEAD > scrollTop + clientHeight) box.current.scrollTop = top + rowHeight + HEAD - clientHeight;
  };
  useEffect(() => {
    if (target === null || target === undefined) return;
    const row = Math.max(0, Math.min(rows - 1, target.row));
    setActive(row);
    box.current.scrollTop = row * rowHeight;
  }, [target]);
  const messageAt = (row) => pages.current.get(Math.floor(row / PAGE))?.rows[row % PAGE];
  const key = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = Math.max(1, Math.floor(view.height / rowHeight) - 1);
    const moves = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: step, PageUp: -step, Home: -rows, End: rows };
    if (event.key in moves) {
      event.preventDefault();
      show(active + moves[event.key]);
      return;
    }
    const act = { Enter: onOpen, x: onChoose, e: onEdit }[event.key];
    if (act && messageAt(active) && !event.target.closest("input")) {
      event.preventDefault();
      act(messageAt(active));
    }
  };
  const drawn = [];
  for (let row = first; row < last; row++) drawn.push(row);
  return html`<div class="list" ref=${box} role="grid" tabindex="0" aria-label=${label} aria-rowcount=${count + 1} aria-colcount="6" aria-multiselectable="true"
    aria-activedescendant=${rows ? `row-${active}` : undefined} onKeyDown=${key}
    onScroll=${(event) => setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}>
    <div role="rowgroup" class="heads"><div class="row head" role="row" aria-rowindex="1">
      <span role="columnheader"><span class="sr">Chosen</span></span><span role="columnheader">Row</span><span role="columnheader">Label</span><span role="columnheader">Priority</span>
      <span role="columnheader">Size</span><span role="columnheader">Age</span></div></div>
    <div class="spacer" role="rowgroup" style=${{ height: `${rows * rowHeight}px` }}>
      ${drawn.map((row) => html`<${Row} key=${row} row=${row} top=${row * rowHeight} message=${messageAt(row)}
        isActive=${row === active} isChosen=${chosen.has(messageAt(row)?.lookup_id)} onChoose=${(message) => { setActive(row); onChoose(message); }}
        onOpen=${(message) => { setActive(row); onOpen(message); }} />`)}
    </div>
  </div>`;
}

function Row({ row, top, message, isActive, isChosen, onOpen, onChoose }) {
  const mark = message?.locked ? " (held)" : "";
  return html`<div class=${`row ${isActive ? "active" : ""}`} role="row" id=${`row-${row}`} aria-rowindex=${row + 2}
    aria-selected=${isChosen} style=${{ transform: `translateY(${top}px)` }} onClick=${() => message && onOpen(message)}>
    <span role="gridcell" class="choose" onClick=${(event) => event.stopPropagation()}>
      <input type="checkbox" tabindex="-1" aria-label=${`Choose message ${number(row + 1)}`} checked=${isChosen} disabled=${!message} onChange=${() => onChoose(message)} /></span>
    <span role="gridcell" class="number">${number(row + 1)}</span>
    <span role="gridcell" class="label">${message ? message.label || html`<i>no label</i>` : "…"}${mark}</span>
    <span role="gridcell" class="number"><b class="name">priority </b>${message ? message.priority ?? 3 : ""}</span>
    <span role="gridcell" class="number">${message ? size(message.body_size) : ""}</span>
    <span role="gridcell" class="number">${message ? age(message.arrival_time) : ""}</span>
  </div>`;
}
