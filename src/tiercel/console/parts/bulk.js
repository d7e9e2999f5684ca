// Acting on many messages: choose, count them in a dry run, act.
import { html } from "./html.js";
import { useEffect, useState } from "../vendor/hooks.js";
import { get, post, queuePath, remove } from "./api.js";
import { plural, size } from "./format.js";
import { Action, Failure, Form } from "./dialog.js";
import { notify } from "./notice.js";

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

/** The buttons for `messages`, or with `null` for all messages of the queue. */
export function BulkActions({ me, queue, messages, onDone }) {
  const [action, setAction] = useState(null);
  const names = ["move", "copy", ...(keepsCopies(queue) ? ["replay"] : []), ...(messages || hasTrash(queue) ? ["delete"] : [])];
  const suffix = messages ? "" : " all";
  return html`${names.map((name) => html`<${Action} me=${me} role=${ACTIONS[name].role} danger=${ACTIONS[name].danger} onClick=${() => setAction(name)}>${ACTIONS[name].title}${suffix}<//>`)}
    ${!messages && html`<${Action} me=${me} role="admin" danger onClick=${() => setAction("purge")}>Purge<//>`}
    ${action === "purge" && html`<${Purge} queue=${queue} onClose=${() => setAction(null)} onDone=${onDone} />`}
    ${action && action !== "purge" && html`<${Bulk} key=${action} action=${action} queue=${queue} messages=${messages} onClose=${() => setAction(null)} onDone=${onDone} />`}`;
}

function Bulk({ action, queue, messages, onClose, onDone }) {
  const { title, done, danger } = ACTIONS[action];
  const needsGoal = ["move", "copy"].includes(action);
  const isFinal = action === "delete" && !hasTrash(queue);
  const [counted, setCounted] = useState(null); // the answer of the dry run, and where the messages go
  const [error, setError] = useState(null);
  const path = `${queuePath(queue.name)}/${action}`;
  const request = { ...(messages ? { lookup_ids: messages.map((each) => each.lookup_id) } : {}) };
  const count = async (to) => {
    const goal = to ? { to } : {};
    const found = isFinal ? { count: messages.length, bytes: total(messages), undoable: false } : await dryRun(path, { ...request, ...goal });
    const shown = messages ?? (await get(`${queuePath(queue.name)}/messages`, { limit: FIRST, fields: "lookup_id,label" })).messages;
    setCounted({ ...found, goal, first: shown.slice(0, FIRST) });
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
    const result = mustType ? await dropForGood(queue, messages) : await perform(path, { ...request, ...counted.goal }, counted.plan);
    notify(`${plural(result.count, "message")} of ${queue.name} ${done}.`, result.id);
    onDone();
    return false;
  };
  const label = counted || !needsGoal ? title : "Count";
  return html`<${Form} title=${`${title} ${messages ? `${plural(messages.length, "message")}` : "the messages"} of ${queue.name}`} label=${label} danger=${danger} act=${act} onClose=${onClose}>
    <${Failure} error=${error} />
    ${needsGoal && html`<label>To queue <input name="to" required autofocus readonly=${Boolean(counted)} placeholder="archive, or DIRECT=OS:server-b\\private$\\orders" /></label>`}
    ${!counted && !needsGoal && !error && html`<p class="loading">Counting</p>`}
    ${counted && html`<${Counted} action=${action} counted=${counted} />`}
    ${mustType && html`<label>Number of messages, to confirm <input name="count" inputmode="numeric" autocomplete="off" required autofocus /></label>`}
  <//>`;
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
    <ul class="first">${counted.first.map((each) => html`<li>${each.label || html`<i>no label</i>`}</li>`)}${more > 0 && html`<li class="quiet">and ${plural(more, "more")}</li>`}</ul></div>`;
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

/** Pages of at most 10,000 messages, counted together. */
async function dryRun(path, request) {
  return perform(path, { ...request, dry_run: true }, null);
}

async function perform(path, request, plan) {
  const isDelete = path.endsWith("/delete");
  const found = await post(path, { ...request, ...(plan ? { plan } : {}), ...(isDelete || request.lookup_ids ? {} : { limit: 10_000 }) });
  while (found.next && !request.lookup_ids) {
    const page = await post(path, { ...request, limit: 10_000, after: found.next });
    [found.count, found.bytes, found.next] = [found.count + page.count, found.bytes + page.bytes, page.next];
  }
  return found;
}

async function dropForGood(queue, messages) {
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
