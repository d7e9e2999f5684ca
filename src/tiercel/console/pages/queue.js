// One queue: its messages, throughput, properties and rights.
import { html } from "../parts/html.js";
import { useState } from "../vendor/hooks.js";
import { get, queuePath, useData } from "../parts/api.js";
import { age, number, plural, size } from "../parts/format.js";
import { useEvents, useStatus } from "../parts/live.js";
import { useParameter } from "../parts/place.js";
import { Action, Failure, Form } from "../parts/dialog.js";
import { SendFields, send } from "../parts/send.js";
import { Chart } from "../parts/spark.js";
import { Browse } from "./queue_browse.js";
import { Search } from "./queue_search.js";
import { Tail } from "./queue_tail.js";
import { QueueProperties } from "./queue_properties.js";

const VIEWS = { browse: "Browse", search: "Search", tail: "Live tail", charts: "Charts", properties: "Properties" };

export function QueuePage({ me, name }) {
  const { status } = useStatus();
  const { data: queue, error, reload } = useData((options) => get(queuePath(name), {}, options), [name], status === "live" ? 30_000 : 5_000);
  const [view, setView] = useParameter("view", "browse");
  const [isSending, setSending] = useState(false);
  useEvents((kind, news) => {
    if (kind === "queues" && queue && news.queues.some((each) => each.path_name === queue.path_name && (each.deleted || each.count !== queue.count))) reload();
  }, [queue, reload]);
  if (!queue) return html`<h1>${name}</h1><${Failure} error=${error} />${!error && html`<p class="loading">Loading</p>`}`;
  return html`
    <p class="crumbs"><a href="#/">Overview</a></p>
    <h1>${queue.name}</h1>
    <p class="summary">${queue.label && html`<span>${queue.label}</span>`}<span>${plural(queue.count, "message")}, ${size(queue.bytes)}</span>
      ${queue.count > 0 && html`<span>oldest ${age(queue.oldest_arrival)}</span>`}
      ${queue.transactional && html`<span class="tag">transactional</span>`}
      ${queue.locked > 0 && html`<span>${number(queue.locked)} held by readers</span>`}
      ${queue.claimed > 0 && html`<span>${number(queue.claimed)} claimed</span>`}</p>
    <${Failure} error=${error} />
    <p class="tools">
      <span class="choices" role="group" aria-label="View">${Object.entries(VIEWS).map(([key, title]) => html`
        <button type="button" aria-pressed=${view === key} onClick=${() => setView(key)}>${title}</button>`)}</span>
      ${["private", "public"].includes(queue.kind) && html`<${Action} me=${me} role="send" onClick=${() => setSending(true)}>Send<//>`}
    </p>
    ${view === "browse" && html`<${Browse} me=${me} name=${name} queue=${queue} onDone=${reload} />`}
    ${view === "search" && html`<${Search} me=${me} name=${name} queue=${queue} onDone=${reload} />`}
    ${view === "tail" && html`<${Tail} name=${name} />`}
    ${view === "charts" && html`<${Charts} name=${name} />`}
    ${view === "properties" && html`<${QueueProperties} me=${me} name=${name} queue=${queue} onDone=${reload} />`}
    ${isSending && html`<${Send} name=${name} queue=${queue} onClose=${() => setSending(false)} onDone=${reload} />`}`;
}

function Charts({ name }) {
  const [step, setStep] = useState(5);
  const { data, error } = useData((options) => get(`${queuePath(name)}/samples`, { step_s: step }, options), [name, step], 5_000);
  const samples = data?.samples ?? [];
  const rates = (key) => samples.slice(1).map((each, at) => (each[key] - samples[at][key]) / step);
  return html`<p class="choices" role="group" aria-label="Period">
      <button type="button" aria-pressed=${step === 5} onClick=${() => setStep(5)}>10 minutes</button>
      <button type="button" aria-pressed=${step === 60} onClick=${() => setStep(60)}>2 hours</button></p>
    <${Failure} error=${error} />
    <${Chart} title="Messages" series=${[{ name: "messages", values: samples.map((each) => each.count) }]} />
    <${Chart} title="Messages per second" series=${[{ name: "in", values: rates("in") }, { name: "out", values: rates("out") }]} />`;
}

function Send({ name, queue, onClose, onDone }) {
  const act = async (values) => {
    await send(name, values, queue);
    onDone();
  };
  return html`<${Form} title=${`Send to ${queue.name}`} label="Send" act=${act} onClose=${onClose}><${SendFields} queue=${queue} /><//>`;
}
