// Messages that somebody has chosen, and what can be done with them.
import { html } from "./html.js";
import { useState } from "../vendor/hooks.js";
import { number } from "./format.js";
import { BulkActions, MOST_CHOSEN } from "./bulk.js";

/** {messages, has, toggle, clear}: by lookup id, in the order of choosing. */
export function useChosen() {
  const [chosen, set] = useState(new Map());
  const toggle = (message) => set((before) => {
    const after = new Map(before);
    if (!after.delete(message.lookup_id) && after.size < MOST_CHOSEN) after.set(message.lookup_id, message);
    return after;
  });
  const add = (messages) => set((before) => new Map([...before, ...messages.map((each) => [each.lookup_id, each])].slice(0, MOST_CHOSEN)));
  return { messages: [...chosen.values()], has: (id) => chosen.has(id), toggle, add, clear: () => set(new Map()) };
}

export function ChosenBar({ me, queue, chosen, onDone }) {
  const count = chosen.messages.length;
  const done = () => {
    chosen.clear();
    onDone();
  };
  return html`<div class="tools chosen"><b role="status">${number(count)} chosen</b>${count >= MOST_CHOSEN && html`<span class="quiet">that is the most at once</span>`}
    <${BulkActions} me=${me} queue=${queue} messages=${chosen.messages} onDone=${done} />
    <button type="button" onClick=${chosen.clear}>Clear</button></div>`;
}
