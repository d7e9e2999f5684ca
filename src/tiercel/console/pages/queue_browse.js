// The list of a queue: any row or time is a jump away, rows can be chosen.
import { html } from "../parts/html.js";
import { useCallback, useEffect, useRef, useState } from "../vendor/hooks.js";
import { get, queuePath } from "../parts/api.js";
import { useParameter } from "../parts/place.js";
import { Failure } from "../parts/dialog.js";
import { FIELDS, MessageList } from "../parts/list.js";
import { BulkActions } from "../parts/bulk.js";
import { ChosenBar, useChosen } from "../parts/chosen.js";

const CLOCK = /^\d{1,2}:\d{2}(:\d{2})?$/;

/** The value, but at most every `ms`: a busy queue changes all the time. */
function useSeldom(value, ms) {
  const [seldom, set] = useState(value);
  const changed = useRef(0);
  useEffect(() => {
    const update = () => {
      changed.current = Date.now();
      set(value);
    };
    const timer = setTimeout(update, Math.max(0, changed.current + ms - Date.now()));
    return () => clearTimeout(timer);
  }, [value]);
  return seldom;
}

/** A row, or a time: 4321, 14:05, 2026-11-18 14:05. */
function goalOf(text) {
  const words = text.trim().replaceAll(",", "");
  if (/^\d+$/.test(words)) return { row: Number(words) - 1 };
  const today = new Date();
  const [hour, minute, second = 0] = words.split(":").map(Number);
  const time = CLOCK.test(words) ? new Date(today.getFullYear(), today.getMonth(), today.getDate(), hour, minute, second) : new Date(words.replace(" ", "T"));
  if (Number.isNaN(time.getTime())) throw new Error("Give a row, such as 4321, or a time, such as 14:05 or 2026-11-18 14:05.");
  return { since: time.toISOString() };
}

export function Browse({ me, name, queue, onDone }) {
  const [target, setTarget] = useState(null);
  const [order, setOrder] = useParameter("order", "queue");
  const [error, setError] = useState(null);
  const chosen = useChosen();
  const version = useSeldom(`${queue.count}-${queue.bytes}`, 3_000);
  const fetchPage = useCallback(
    async (at, limit, signal) => (await get(`${queuePath(name)}/messages`, { at, limit, order, fields: FIELDS }, { signal, refresh: true })).messages,
    [name, order],
  );
  const jump = async (event) => {
    event.preventDefault();
    setError(null);
    try {
      const goal = goalOf(event.target.elements.row.value);
      setTarget({ row: goal.row ?? (await get(`${queuePath(name)}/row`, { ...goal, order })).row });
    } catch (problem) {
      setError(problem);
    }
  };
  const goTo = (place) => (message) => {
    location.hash = `${place}/${encodeURIComponent(name)}/${message.lookup_id}`;
  };
  return html`
    <form class="tools" onSubmit=${jump}><label>Row or time <input name="row" required placeholder="4321 or 14:05" autocomplete="off" /></label><button type="submit">Jump</button>
      <label>Order <select value=${order} onChange=${(event) => setOrder(event.target.value)}><option value="queue">as received: priority, then arrival</option><option value="arrival">arrival</option></select></label></form>
    <${Failure} error=${error} />
    ${chosen.messages.length > 0 ? html`<${ChosenBar} me=${me} queue=${queue} chosen=${chosen} onDone=${onDone} />`
      : queue.count > 0 && html`<div class="tools"><span class="quiet">Choose rows, or act on all:</span><${BulkActions} me=${me} queue=${queue} messages=${null} onDone=${onDone} /></div>`}
    ${queue.count === 0 && html`<p>The queue is empty.</p>`}
    <${MessageList} key=${order} label=${`Messages of ${queue.name}`} count=${queue.count} version=${version} fetchPage=${fetchPage} target=${target}
      onOpen=${goTo("#/queue")} onEdit=${goTo("#/edit")} chosen=${chosen} onChoose=${chosen.toggle} />`;
}
