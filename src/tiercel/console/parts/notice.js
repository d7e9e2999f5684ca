// What was done last, with a way back; shown above every page.
import { html } from "./html.js";
import { useEffect, useState } from "../vendor/hooks.js";
import { get, post } from "./api.js";
import { plural } from "./format.js";

const listeners = new Set();
let current = null;

/** Shows a sentence; with ids of operations, a button that undoes them. `isRunning`: with a way to its progress. */
export function notify(text, operation = null, isRunning = false) {
  current = text ? { text, operations: [operation].flat().filter(Boolean), isRunning } : null;
  for (const each of listeners) each(current);
}

/** Tells of an operation in the background until it has ended; `verb` says what was done, `others` can be undone with it. */
export async function follow(operation, verb, onDone, others = []) {
  for (let wait = 200; operation.state === "running"; wait = 1000) {
    notify(`${plural(operation.count, "message")} of ${operation.queue} ${verb} so far.`, null, true);
    await new Promise((done) => setTimeout(done, wait));
    try {
      operation = await get(`/operations/${operation.id}`, {}, { refresh: true });
    } catch (error) {
      notify(error.message);
      return operation;
    }
  }
  const end = { paused: " It is paused.", failed: ` It failed: ${operation.note}`, cancelled: " It was cancelled." }[operation.state] ?? "";
  notify(`${plural(operation.count, "message")} of ${operation.queue} ${verb}.${end}`, [...others, operation].filter((each) => each.state === "done").map((each) => each.id));
  onDone();
  return operation;
}

export function Notice() {
  const [notice, set] = useState(current);
  useEffect(() => {
    listeners.add(set);
    return () => listeners.delete(set);
  }, []);
  const undo = async () => {
    try {
      const said = [];
      for (const each of notice.operations) {
        const done = await post(`/operations/${each}/undo`);
        said.push(`${plural(done.restored, "message")} put back into ${done.queue}.`);
      }
      notify(said.join(" "));
    } catch (error) {
      notify(error.message);
    }
  };
  return html`<div role="status">${notice && html`<p class="note notice"><span>${notice.text}</span>
    ${notice.isRunning && html`<a href="#/operations">Progress</a>`}
    ${notice.operations.length > 0 && html`<button type="button" onClick=${undo}>Undo</button>`}
    <button type="button" class="plain" onClick=${() => notify(null)} aria-label="Dismiss">×</button></p>`}</div>`;
}
