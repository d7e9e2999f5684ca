// What was done last, with a way back; shown above every page.
import { html } from "./html.js";
import { useEffect, useState } from "../vendor/hooks.js";
import { post } from "./api.js";
import { plural } from "./format.js";

const listeners = new Set();
let current = null;

/** Shows a sentence; with the id of an operation, a button that undoes it. */
export function notify(text, operation = null) {
  current = text ? { text, operation } : null;
  for (const each of listeners) each(current);
}

export function Notice() {
  const [notice, set] = useState(current);
  useEffect(() => {
    listeners.add(set);
    return () => listeners.delete(set);
  }, []);
  const undo = async () => {
    try {
      const done = await post(`/operations/${notice.operation}/undo`);
      notify(`${plural(done.restored, "message")} put back into ${done.queue}.`);
    } catch (error) {
      notify(error.message);
    }
  };
  return html`<div role="status">${notice && html`<p class="note notice"><span>${notice.text}</span>
    ${notice.operation && html`<button type="button" onClick=${undo}>Undo</button>`}
    <button type="button" class="plain" onClick=${() => notify(null)} aria-label="Dismiss">×</button></p>`}</div>`;
}
