// Acting on many messages: choose, count them in a dry run, act.
import { html } from "./html.js";
import { useEffect, useState } from "../vendor/hooks.js";
import { get, post, queuePath, remove } from "./api.js";
import { number, plural, size } from "./format.js";
import { Action, Failure, Form } from "./dialog.js";
import { follow, notify } from "./notice.js";
import { QueueField } from "./queue_field.js";

export const MOST_CHOSEN = 1000; // that a request may name
const FIRST = 5;
const ACTIONS = {
  move: { title: "Move", done: "moved", role: ["receive", "send"] },
  copy: { title: "Copy", done: "copied", role: ["read", "send"] },
  replay: { title: "Replay", done: "replayed", role: ["receive", "send"] },
  delete: { title: "Delete", done: "deleted", role: "receive", danger: true },
};

/** Queues of applications have a trash; the others keep copies, from which a message goes for good. */
export const hasTrash = (queue) => ["private", "public"].includes(queue.kind);
const keepsCopies = (queue) => ["journal", "system", "subqueue"].includes(queue.kind);

/** The buttons for `messages`; with `null` for all of the queue, or those that `query` (a filter or a pattern) finds. */
export function BulkActions({ me, queue, messages, query = null, onDone }) {
  const [action, setAction] = useState(null);
  const isMany = !messages;
  const names = ["move", "copy", ...(keepsCopies(queue) ? ["replay"] : []), ...(messages || query || hasTrash(queue) ? ["delete"] : [])];
  const suffix = messages ? "" : query ? " matching" : " all";
  const role = (name) => {
    if (name === "delete") return query && !hasTrash(queue) ? "admin" : query ? ["receive", "send"] : "receive";
    return isMany ? ["receive", "send"] : ACTIONS[name].role;
  };
  return html`${names.map((name) => html`<${Action} me=${me} role=${role(name)} danger=${ACTIONS[name].danger} onClick=${() => setAction(name)}>${ACTIONS[name].title}${suffix}<//>`)}
    ${isMany && !query && html`<${Action} me=${me} role="admin" danger onClick=${() => setAction("purge")}>Purge<//>`}
    ${action === "purge" && html`<${Purge} queue=${queue} onClose=${() => setAction(null)} onDone=${onDone} />`}
    ${action && action !== "purge" && html`<${Bulk} key=${action} action=${action} queue=${queue} messages=${messages} query=${query} onClose=${() => setAction(null)} onDone=${onDone} />`}`;
}

function Bulk({ action, queue, messages, query, onClose, onDone }) {
  const { title, done, danger } = ACTIONS[action];
  const needsGoal = ["move", "copy"].includes(action);
  const [counted, setCounted] = useState(null); // the answer of the dry run, and where the messages go
  const [error, setError] = useState(null);
  const work = workOf(action, queue, messages, query);
  const count = async (to) => {
    const goal = to ? { to } : {};
    const found = await work.count(goal);
    const shown = messages ?? (await labelsOf(queue, query));
    setCounted({ ...found, goal, first: shown.slice(0, Math.min(FIRST, found.count)) });
  };
  useEffect(() => {
    if (!needsGoal) count(null).catch(setError);
  }, []);
  const mustType = counted && action === "delete" && !counted.undoable;
  const act = async (values) => {
    if (!counted) {
      await count(values.to);
      return true; // the dialog stays, and shows what was counted
    }
    if (mustType && values.count !== String(counted.count)) throw new Error(`Type ${counted.count} to confirm.`);
    const result = mustType ? await dropForGood(queue, messages, query, counted.plan) : await work.act({ ...counted.goal, ...(values.rate ? { rate: Number(values.rate) } : {}) }, counted.plan);
    if (result.state === "running") follow(result, done, onDone);
    else notify(`${plural(result.count, "message")} of ${queue.name} ${done}.`, result.id ?? result.operation);
    onDone();
    return false;
  };
  const label = counted || !needsGoal ? title : "Count";
  const what = messages ? plural(messages.length, "message") : query ? "matching messages" : "the messages";
  return html`<${Form} title=${`${title} ${what} of ${queue.name}`} label=${label} danger=${danger} act=${act} onClose=${onClose}>
    <${Failure} error=${error} />
    ${needsGoal && html`<${QueueField} label="To queue" required autofocus readonly=${Boolean(counted)} />`}
    ${!counted && !needsGoal && !error && html`<p class="loading">Counting</p>`}
    ${counted && html`<${Counted} action=${action} counted=${counted} />`}
    ${counted && !messages && action !== "delete" && html`<label>At most, messages per second (optional) <input name="rate" type="number" min="1" max="1000000" placeholder="no limit" /></label>`}
    ${mustType && html`<label>Number of messages, to confirm <input name="count" inputmode="numeric" autocomplete="off" required autofocus /></label>`}
  <//>`;
}

/** How to count, and how to act: chosen messages in one request, many in the background. */
function workOf(action, queue, messages, query) {
  const path = `${queuePath(queue.name)}/${action}`;
  if (messages && action === "delete" && !hasTrash(queue)) return { count: async () => ({ count: messages.length, bytes: total(messages), undoable: false }) };
  if (messages || (action === "delete" && !query)) {
    const chosen = messages ? { lookup_ids: messages.map((each) => each.lookup_id) } : {};
    if (action === "move") chosen.undo = true;
    return { count: (goal) => post(path, { ...chosen, ...goal, dry_run: true }), act: (goal, plan) => post(path, { ...chosen, ...goal, ...(plan ? { plan } : {}) }) };
  }
  const request = { action: action === "delete" && !hasTrash(queue) ? "purge" : action, ...query };
  const begin = (more) => post(`${queuePath(queue.name)}/operations`, { ...request, ...more });
  const count = async (goal) => {
    if (goal.to) await post(path, { ...goal, limit: 1, dry_run: true }); // opens the destination
    return begin({ ...goal, dry_run: true });
  };
  return { count, act: (goal, plan) => begin({ ...goal, plan }) };
}

async function labelsOf(queue, query) {
  const fields = { fields: "lookup_id,label" };
  const found = query ? await get(`${queuePath(queue.name)}/search`, { ...query, limit: FIRST }) : await get(`${queuePath(queue.name)}/messages`, { limit: FIRST, ...fields });
  return found.messages;
}

function Counted({ action, counted }) {
  const count = `${plural(counted.count, "message")} (${size(counted.bytes)})`;
  const ends = counted.undoable ? "go to the trash. For 24 hours this can be undone." : "end for good. It cannot be undone.";
  const where = counted.goal.to ? `to ${counted.goal.to}` : "back to the queues that they were sent to";
  const text = {
    delete: `${count} ${ends}`, move: `${count} go ${where}, each in one commit.`, copy: `Copies of ${count} go ${where}; the originals stay.`, replay: `${count} go ${where}, each in one commit.`,
  }[action];
  const more = counted.count - counted.first.length;
  return html`<div role="status"><p>${text}${counted.plan ? " Messages that arrive from now on stay." : ""}</p>
    <ul class="first">${counted.first.map((each) => html`<li>${each.label || html`<i>no label</i>`}</li>`)}${more > 0 && html`<li class="quiet">and ${number(more)} more</li>`}</ul></div>`;
}

function Purge({ queue, onClose, onDone }) {
  const [data, setData] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    post(`${queuePath(queue.name)}/purge`, {}, { dry_run: true }).then(setData, setError);
  }, []);
  const act = async (values) => {
    if (values.count !== String(data?.count)) throw new Error(`Type ${data?.count} to confirm.`);
    await post(`${queuePath(queue.name)}/purge`);
    onDone();
  };
  return html`<${Form} title=${`Purge ${queue.name}`} label="Purge" danger act=${act} onClose=${onClose}>
    <${Failure} error=${error} />
    <p>${data ? `This ends ${plural(data.count, "message")} (${size(data.bytes)}). It cannot be undone.` : "Counting"}</p>
    <label>Number of messages, to confirm <input name="count" inputmode="numeric" autocomplete="off" required autofocus /></label>
  <//>`;
}

const total = (messages) => messages.reduce((sum, each) => sum + (each.body_size ?? 0), 0);

async function dropForGood(queue, messages, query, plan) {
  if (query) return post(`${queuePath(queue.name)}/operations`, { action: "purge", ...query, plan });
  if (!messages) return post(`${queuePath(queue.name)}/purge`);
  let count = 0;
  for (const each of messages) {
    try {
      await remove(`${queuePath(queue.name)}/messages/${each.lookup_id}`);
      count += 1;
    } catch (error) {
      if (error.status !== 404) throw error; // received meanwhile
    }
  }
  return { count };
}
