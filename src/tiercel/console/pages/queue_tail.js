// What arrives in a queue, as it arrives.
import { html } from "../parts/html.js";
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { get, queuePath } from "../parts/api.js";
import { Failure } from "../parts/dialog.js";
import { FIELDS } from "../parts/list.js";
import { FoundMessages } from "../parts/found.js";

const TAIL = 50;
const REST_MS = 1000; // between requests: a busy queue must not pay for being watched

/** Newest first, each once. */
function merged(arrived, before) {
  const known = new Set(before.map((each) => each.lookup_id));
  return [...arrived.filter((each) => !known.has(each.lookup_id)).reverse(), ...before].slice(0, 200);
}

export function Tail({ name }) {
  const [messages, setMessages] = useState([]);
  const [isPaused, setPaused] = useState(false);
  const [error, setError] = useState(null);
  const at = useRef(null);
  useEffect(() => {
    if (isPaused) return undefined;
    const control = new AbortController();
    const watch = async () => {
      while (!control.signal.aborted) {
        const start = at.current === null ? { last: TAIL } : { after: at.current, wait_ms: 25_000 };
        try {
          const page = await get(`${queuePath(name)}/messages`, { order: "arrival", limit: TAIL, fields: FIELDS, ...start }, { signal: control.signal, refresh: true });
          const isBehind = at.current !== null && page.messages.length >= TAIL; // then it goes on with the newest
          at.current = isBehind ? null : page.next ?? at.current;
          if (page.messages.length) setMessages((before) => merged(page.messages, before));
          setError(null);
          await new Promise((done) => setTimeout(done, REST_MS));
        } catch (problem) {
          if (problem.name === "AbortError") return;
          setError(problem);
          await new Promise((done) => setTimeout(done, 5000));
        }
      }
    };
    watch();
    return () => control.abort();
  }, [name, isPaused]);
  return html`<p class="tools"><button type="button" aria-pressed=${isPaused} onClick=${() => setPaused(!isPaused)}>${isPaused ? "Resume" : "Pause"}</button>
    <span class="quiet">Newest first; messages stay in the queue. Of a busy queue, the newest 50 of each second.</span></p>
    <${Failure} error=${error} /><div aria-live="polite" aria-relevant="additions">${messages.length ? html`<${FoundMessages} name=${name} messages=${messages} />` : html`<p>Waiting for messages.</p>`}</div>`;
}
