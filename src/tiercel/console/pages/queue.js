// One queue: its messages, throughput and properties.
import { html } from "../parts/html.js";
import { useCallback, useEffect, useRef, useState } from "../vendor/hooks.js";
import { get, post, queuePath, useData } from "../parts/api.js";
import { age, moment, number, plural, queueLink, size } from "../parts/format.js";
import { useEvents, useStatus } from "../parts/live.js";
import { Action, Failure, Form } from "../parts/dialog.js";
import { FIELDS, MessageList } from "../parts/list.js";
import { Chart } from "../parts/spark.js";
import { notify } from "../parts/notice.js";

const TAIL = 50;

export function QueuePage({ me, name }) {
  const { status } = useStatus();
  const { data: queue, error, reload } = useData((options) => get(queuePath(name), {}, options), [name], status === "live" ? 30_000 : 5_000);
  const [view, setView] = useState("browse");
  const [dialog, setDialog] = useState(null);
  useEvents((kind, news) => {
    if (kind === "queues" && queue && news.queues.some((each) => each.path_name === queue.path_name && (each.deleted || each.count !== queue.count))) reload();
  }, [queue, reload]);
  const views = { browse: "Browse", search: "Search", tail: "Live tail", charts: "Charts", properties: "Properties" };
  if (!queue) return html`<h1>${name}</h1><${Failure} error=${error} />${!error && html`<p class="loading">Loading</p>`}`;
  const isOwn = ["private", "public"].includes(queue.kind);
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
      <span class="choices" role="group" aria-label="View">${Object.entries(views).map(([key, title]) => html`
        <button type="button" aria-pressed=${view === key} onClick=${() => setView(key)}>${title}</button>`)}</span>
      ${isOwn && html`<${Action} me=${me} role="send" onClick=${() => setDialog("send")}>Send<//>`}
      ${isOwn && html`<${Action} me=${me} role="receive" danger onClick=${() => setDialog("delete")}>Delete all<//>`}
      <${Action} me=${me} role="admin" danger onClick=${() => setDialog("purge")}>Purge<//>
    </p>
    ${view === "browse" && html`<${Browse} name=${name} queue=${queue} />`}
    ${view === "search" && html`<${Search} name=${name} />`}
    ${view === "tail" && html`<${Tail} name=${name} />`}
    ${view === "charts" && html`<${Charts} name=${name} />`}
    ${view === "properties" && html`<${Properties} queue=${queue} />`}
    ${dialog === "send" && html`<${Send} name=${name} queue=${queue} onClose=${() => setDialog(null)} onDone=${reload} />`}
    ${dialog === "delete" && html`<${Delete} name=${name} queue=${queue} onClose=${() => setDialog(null)} onDone=${reload} />`}
    ${dialog === "purge" && html`<${Purge} name=${name} queue=${queue} onClose=${() => setDialog(null)} onDone=${reload} />`}`;
}

const open = (name) => (message) => {
  location.hash = `${queueLink(name)}/${message.lookup_id}`;
};

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

function Browse({ name, queue }) {
  const [target, setTarget] = useState(null);
  const version = useSeldom(`${queue.count}-${queue.bytes}`, 3_000);
  const fetchPage = useCallback(
    async (at, limit, signal) => (await get(`${queuePath(name)}/messages`, { at, limit, fields: FIELDS }, { signal, refresh: true })).messages,
    [name],
  );
  const jump = (event) => {
    event.preventDefault();
    setTarget({ row: Number(event.target.elements.row.value) - 1 });
  };
  return html`
    <form class="tools" onSubmit=${jump}><label>Row <input name="row" type="number" min="1" max=${queue.count || 1} required /></label><button type="submit">Jump</button></form>
    ${queue.count === 0 && html`<p>The queue is empty.</p>`}
    <${MessageList} label=${`Messages of ${queue.name}`} count=${queue.count} version=${version} fetchPage=${fetchPage} target=${target} onOpen=${open(name)} />`;
}

function Table({ name, messages }) {
  return html`<table class="stacks"><thead><tr><th scope="col">Label</th><th scope="col">Arrived</th><th scope="col" class="number">Priority</th><th scope="col" class="number">Size</th></tr></thead>
    <tbody>${messages.map((each) => html`<tr key=${each.lookup_id}><th scope="row"><a href=${`${queueLink(name)}/${each.lookup_id}`}>${each.label || html`<i>no label</i>`}</a></th>
      <td data-name="Arrived">${moment(each.arrival_time)}</td><td class="number" data-name="Priority">${each.priority ?? 3}</td><td class="number" data-name="Size">${size(each.body_size)}</td></tr>`)}</tbody></table>`;
}

function Search({ name }) {
  const [state, setState] = useState({ messages: [], looked: 0, next: null, isBusy: false, isDone: false, error: null });
  const stop = useRef(null);
  useEffect(() => () => stop.current?.abort(), []);
  const run = async (pattern, ignore_case, before) => {
    stop.current?.abort();
    const control = (stop.current = new AbortController());
    let found = { ...before, isBusy: true, isDone: false, error: null };
    const wanted = before.messages.length + 100;
    try {
      do {
        setState(found);
        const page = await get(`${queuePath(name)}/search`, { pattern, ignore_case, after: found.next || "start", limit: 100 }, { signal: control.signal });
        found = { ...found, messages: [...found.messages, ...page.messages], looked: found.looked + page.looked, next: page.next };
      } while (found.next && found.messages.length < wanted);
      setState({ ...found, isBusy: false, isDone: true });
    } catch (error) {
      setState({ ...found, isBusy: false, isDone: true, error: error.name === "AbortError" ? null : error });
    }
  };
  const form = useRef(null);
  const begin = (before) => run(form.current.elements.pattern.value, form.current.elements.ignore.checked, before);
  const submit = (event) => {
    event.preventDefault();
    begin({ messages: [], looked: 0, next: null });
  };
  return html`
    <form class="tools" ref=${form} onSubmit=${submit}>
      <label>Pattern <input name="pattern" data-filter type="search" required placeholder="regular expression" /></label>
      <label class="check"><input type="checkbox" name="ignore" checked /> Ignore case</label>
      <button type="submit" class="primary">Search</button>
      ${state.isBusy && html`<button type="button" onClick=${() => stop.current.abort()}>Stop</button>`}
    </form>
    <${Failure} error=${state.error} />
    <p role="status" class="quiet">${state.looked || state.isDone ? `${plural(state.messages.length, "match")} in ${plural(state.looked, "message")}${state.isBusy ? ", searching" : ""}`.replace("matchs", "matches") : ""}</p>
    ${state.messages.length > 0 && html`<${Table} name=${name} messages=${state.messages} />`}
    ${state.next && !state.isBusy && html`<p><button type="button" onClick=${() => begin(state)}>Search on</button></p>`}`;
}

function Tail({ name }) {
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
          at.current = page.next ?? at.current;
          if (page.messages.length) setMessages((before) => [...page.messages.reverse(), ...before].slice(0, 200));
          setError(null);
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
    <span class="quiet">Newest first; messages stay in the queue.</span></p>
    <${Failure} error=${error} /><div aria-live="polite" aria-relevant="additions">${messages.length ? html`<${Table} name=${name} messages=${messages} />` : html`<p>Waiting for messages.</p>`}</div>`;
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

function Properties({ queue }) {
  const names = Object.keys(queue).filter((each) => !["count", "bytes", "subqueues"].includes(each));
  const text = (value) => (value === null || value === "" ? "–" : typeof value === "boolean" ? (value ? "yes" : "no") : String(value));
  return html`<dl class="pairs">${names.map((each) => html`<dt>${each.replaceAll("_", " ")}</dt><dd>${text(queue[each])}</dd>`)}
    ${queue.subqueues.length > 0 && html`<dt>subqueues</dt><dd>${queue.subqueues.map((each) => html`<a href=${queueLink(each)}>${each}</a> `)}</dd>`}</dl>
    <p class="quiet">Change them with <code>tiercel set ${queue.name}</code>.</p>`;
}

function Send({ name, queue, onClose, onDone }) {
  const act = async (values) => {
    const message = { label: values.label, text: values.text, delivery: values.recoverable ? "recoverable" : "express" };
    if (!queue.transactional) message.priority = Number(values.priority);
    await post(`${queuePath(name)}/messages`, message);
    onDone();
  };
  return html`<${Form} title=${`Send to ${queue.name}`} label="Send" act=${act} onClose=${onClose}>
    <label>Label <input name="label" maxlength="249" autofocus /></label>
    <label>Body <textarea name="text" rows="6"></textarea></label>
    ${!queue.transactional && html`<label>Priority <input name="priority" type="number" min="0" max="7" value="3" /></label>`}
    <label class="check"><input type="checkbox" name="recoverable" checked /> Recoverable: survives a restart</label>
  <//>`;
}

function Delete({ name, queue, onClose, onDone }) {
  const { data, error } = useData(() => post(`${queuePath(name)}/delete`, { dry_run: true }), [name]);
  const act = async () => {
    const done = await post(`${queuePath(name)}/delete`, { plan: data.plan });
    notify(`${plural(done.count, "message")} of ${queue.name} deleted.`, done.id);
    onDone();
  };
  return html`<${Form} title=${`Delete the messages of ${queue.name}`} label="Delete" danger act=${act} onClose=${onClose}>
    <${Failure} error=${error} />
    <p>${!data ? "Counting" : `${plural(data.count, "message")} (${size(data.bytes)}) go to the trash. ${data.undoable ? "For 24 hours this can be undone." : "They do not fit into the trash: purge the queue instead."} Messages that arrive from now on stay.`}</p>
  <//>`;
}

function Purge({ name, queue, onClose, onDone }) {
  const { data } = useData((options) => post(`${queuePath(name)}/purge`, {}, { dry_run: true }, options), [name]);
  const act = async (values) => {
    if (values.count !== String(data.count)) throw new Error(`Type ${data.count} to confirm.`);
    await post(`${queuePath(name)}/purge`);
    onDone();
  };
  return html`<${Form} title=${`Purge ${queue.name}`} label="Purge" danger act=${act} onClose=${onClose}>
    <p>${data ? `This ends ${plural(data.count, "message")} (${size(data.bytes)}). It cannot be undone.` : "Counting"}</p>
    <label>Number of messages, to confirm <input name="count" inputmode="numeric" autocomplete="off" required autofocus /></label>
  <//>`;
}
