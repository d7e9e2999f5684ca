// All queues: depth, age, throughput.
import { html } from "../parts/html.js";
import { useState } from "../vendor/hooks.js";
import { get, post, useData } from "../parts/api.js";
import { age, number, queueLink, rate, size } from "../parts/format.js";
import { useEvents, useStatus } from "../parts/live.js";
import { useParameter } from "../parts/place.js";
import { Action, Failure, Form } from "../parts/dialog.js";
import { Spark } from "../parts/spark.js";

const SHOWN = 250; // rows; more make the page slow
const COLUMNS = [
  ["name", "Queue", (queue) => queue.name.toLowerCase()],
  ["count", "Messages", (queue) => -queue.count],
  ["oldest", "Oldest", (queue) => queue.oldest_arrival || "9"],
  ["in", "In/s", (queue) => -queue.in_rate],
  ["out", "Out/s", (queue) => -queue.out_rate],
];

export function Overview({ me }) {
  const { status } = useStatus();
  const load = (options) => Promise.all([get("/queues", { kind: "all", depths: 30 }, options), get("/queue-manager", {}, options)]);
  const { data, error, reload } = useData(load, [], status === "live" ? 30_000 : 5_000);
  const [changes, setChanges] = useState({});
  const [filter, setFilter] = useParameter("filter");
  const [full, setFull] = useParameter("full");
  const [sort, setSort] = useParameter("sort", "name");
  const [isCreating, setCreating] = useState(false);
  useEvents((kind, news) => {
    if (kind !== "queues") return;
    setChanges((before) => {
      const after = { ...before };
      for (const each of news.queues) after[each.path_name] = each;
      return after;
    });
    const known = new Set(data?.[0].queues.map((each) => each.path_name));
    if (data && news.queues.some((each) => each.deleted || !known.has(each.path_name))) reload();
  }, [data, reload]);
  if (!data) return html`<h1>Overview</h1><${Failure} error=${error} />${!error && html`<p class="loading">Loading</p>`}`;
  const [{ queues }, manager] = data;
  const all = queues.map((each) => ({ ...each, ...changes[each.path_name] }));
  const sum = (kinds, name = "count") => all.filter((each) => kinds(each)).reduce((total, each) => total + each[name], 0);
  const isDead = (each) => /;dead(letter|xact)$/i.test(each.path_name);
  const own = all.filter((each) => ["private", "public", "subqueue"].includes(each.kind));
  const words = filter.toLowerCase();
  const chosen = own.filter((each) => (!full || each.count) && `${each.name} ${each.label}`.toLowerCase().includes(words));
  const key = (COLUMNS.find(([name]) => name === sort) ?? COLUMNS[0])[2];
  chosen.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : a.name < b.name ? -1 : 1));
  const quota = manager.properties.queue_manager_quota_kib;
  return html`
    <h1>Overview</h1>
    <${Failure} error=${error} />
    <dl class="cards">
      <div><dt>Messages</dt><dd>${number(manager.totals.messages)}</dd></div>
      <div><dt>Stored</dt><dd>${size(manager.totals.bytes)}${quota ? html` <small>of ${size(quota * 1024)}</small>` : ""}</dd></div>
      <div><dt><a href="#/outgoing">Waiting for others</a></dt><dd>${number(sum((each) => each.kind === "outgoing"))}</dd></div>
      <div><dt><a href="#/dead">Dead letters</a></dt><dd class=${sum(isDead) ? "bad" : ""}>${number(sum(isDead))}</dd></div>
      <div><dt><a href="#/health">Queue manager</a></dt><dd class="text">${manager.name}</dd></div>
    </dl>
    <div class="tools">
      <label>Filter <input type="search" data-filter value=${filter} onInput=${(event) => setFilter(event.target.value)} placeholder="name or label" /></label>
      <label class="check"><input type="checkbox" checked=${Boolean(full)} onChange=${(event) => setFull(event.target.checked ? "1" : "")} /> Only with messages</label>
      <${Action} me=${me} role="admin" onClick=${() => setCreating(true)}>Create queue<//>
    </div>
    <p role="status" class="quiet">${number(chosen.length)} of ${number(own.length)} queues${chosen.length > SHOWN ? `; the first ${SHOWN} are shown, filter for others` : ""}</p>
    ${own.length === 0 ? html`<p>There are no queues yet. Create one here, or with <code>tiercel create orders</code>.</p>` : html`
    <table class="stacks">
      <thead><tr>${COLUMNS.map(([name, title]) => html`<th scope="col" class=${name === "name" ? "" : "number"} aria-sort=${sort === name ? "ascending" : undefined}>
        <button type="button" class="plain" onClick=${() => setSort(name)}>${title}${sort === name ? " ▾" : ""}</button></th>`)}
        <th scope="col">Last 10 minutes</th><th scope="col" class="number">Held</th><th scope="col" class="number">Claimed</th></tr></thead>
      <tbody>${chosen.slice(0, SHOWN).map((queue) => html`<${QueueRow} key=${queue.path_name} queue=${queue} />`)}</tbody>
    </table>`}
    ${isCreating && html`<${CreateQueue} onClose=${() => setCreating(false)} onDone=${reload} />`}`;
}

function QueueRow({ queue }) {
  return html`<tr>
    <th scope="row"><a href=${queueLink(queue.name)}>${queue.name}</a>${queue.transactional ? html` <span class="tag">transactional</span>` : ""}
      ${queue.label && html`<span class="quiet below">${queue.label}</span>`}</th>
    <td class="number" data-name="Messages">${number(queue.count)}</td>
    <td class="number" data-name="Oldest">${queue.count ? age(queue.oldest_arrival) : ""}</td>
    <td class="number" data-name="In/s">${rate(queue.in_rate)}</td>
    <td class="number" data-name="Out/s">${rate(queue.out_rate)}</td>
    <td data-name="Last 10 minutes"><${Spark} values=${queue.depths} label=${`Messages in ${queue.name}`} /></td>
    <td class="number" data-name="Held">${queue.locked ? number(queue.locked) : ""}</td>
    <td class="number" data-name="Claimed">${queue.claimed ? number(queue.claimed) : ""}</td>
  </tr>`;
}

function CreateQueue({ onClose, onDone }) {
  const act = async (values) => {
    await post("/queues", { path_name: values.name, label: values.label, transactional: Boolean(values.transactional), journaling: Boolean(values.journaling) });
    onDone();
  };
  return html`<${Form} title="Create a queue" label="Create" act=${act} onClose=${onClose}>
    <label>Name <input name="name" required autofocus /></label>
    <label>Label <input name="label" /></label>
    <label class="check"><input type="checkbox" name="transactional" /> Transactional (cannot be changed later)</label>
    <label class="check"><input type="checkbox" name="journaling" /> Keep copies of received messages in its journal</label>
  <//>`;
}
