// Searching the messages of a queue; the search is in the URL, so it can be kept.
import { html } from "../parts/html.js";
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { get, queuePath } from "../parts/api.js";
import { number, plural } from "../parts/format.js";
import { useParameter } from "../parts/place.js";
import { Failure } from "../parts/dialog.js";
import { BulkActions, MOST_CHOSEN } from "../parts/bulk.js";
import { ChosenBar, useChosen } from "../parts/chosen.js";
import { FoundMessages } from "../parts/found.js";

/** A text with fields is a filter, any other a regular expression: as for `tiercel grep`. */
const FIELD = /(?:^|\s)-?(?:(?:label|body|class|reason|id):|destination(?:[:=]|!=)|(?:priority|size|age|json(?:\.[\w-]+)+)(?:[:=<>]|!=))/;
const TERMS = [
  ['label:"order 7" body:Smith', "the label or the body contains the text"], ["priority>=5 size>10k age>1h", "by number; sizes with k, m, g, ages with s, m, h, d, w"],
  ["json.total>100 json.lines.0.sku:A", "a value of a JSON body"], ["class:nack*", "the class of the message, or why it is a dead letter"], ["id:{GUID}\\7", "by its id"],
  ["reason:nack_bad_dst_q destination:orders", "dead letters by cause, and by the queue that they were sent to"],
  ["-label:test", "negated"], ["ord.r [0-9]+", "without a field: a regular expression, in label and body"],
];

const queryOf = (text, isStrict) => (FIELD.test(text) ? { filter: text } : { pattern: isStrict ? text : `(?i)${text}` });

export function Search({ me, name, queue, onDone }) {
  const [pattern, setPattern] = useParameter("pattern");
  const [strict, setStrict] = useParameter("case");
  const chosen = useChosen();
  const [state, setState] = useState({ messages: [], looked: 0, next: null, isBusy: false, isDone: false, error: null });
  const stop = useRef(null);
  useEffect(() => () => stop.current?.abort(), []);
  const run = async (pattern, ignore_case, before) => {
    stop.current?.abort();
    const control = (stop.current = new AbortController());
    let found = { ...before, isBusy: true, isDone: false, error: null };
    const enough = before.messages.length + 100;
    try {
      do {
        setState(found);
        const page = await get(`${queuePath(name)}/search`, { ...queryOf(pattern, !ignore_case), after: found.next || "start", limit: 100 }, { signal: control.signal });
        found = { ...found, messages: [...found.messages, ...page.messages], looked: found.looked + page.looked, next: page.next };
      } while (found.next && found.messages.length < enough);
      setState({ ...found, isBusy: false, isDone: true });
    } catch (error) {
      setState({ ...found, isBusy: false, isDone: true, error: error.name === "AbortError" ? null : error });
    }
  };
  const form = useRef(null);
  const begin = (before) => run(form.current.elements.pattern.value, form.current.elements.ignore.checked, before);
  const fresh = () => {
    chosen.clear();
    begin({ messages: [], looked: 0, next: null });
  };
  const submit = (event) => {
    event.preventDefault();
    setPattern(form.current.elements.pattern.value);
    setStrict(form.current.elements.ignore.checked ? "" : "1");
    fresh();
  };
  useEffect(() => {
    if (pattern) fresh();
  }, []);
  const done = () => {
    onDone();
    fresh();
  };
  return html`
    <form class="tools" ref=${form} onSubmit=${submit}>
      <label class="wide">Filter or pattern <input name="pattern" data-filter type="search" required size="36" placeholder='label:"order 7" priority>=5, or a regular expression' value=${pattern} /></label>
      <label class="check"><input type="checkbox" name="ignore" checked=${!strict} /> Ignore case</label>
      <button type="submit" class="primary">Search</button>
      ${state.isBusy && html`<button type="button" onClick=${() => stop.current.abort()}>Stop</button>`}
    </form>
    <details><summary>How to filter</summary><dl class="pairs">${TERMS.map(([term, text]) => html`<dt><code>${term}</code></dt><dd>${text}</dd>`)}</dl><p class="quiet">All terms must hold. The filter is in the address of this page: keep it as a bookmark.</p></details>
    <${Failure} error=${state.error} />
    <p role="status" class="quiet">${state.looked || state.isDone ? `${plural(state.messages.length, "match")} in ${plural(state.looked, "message")}${state.isBusy ? ", searching" : ""}`.replace("matchs", "matches") : ""}</p>
    ${chosen.messages.length > 0 ? html`<${ChosenBar} me=${me} queue=${queue} chosen=${chosen} onDone=${done} />`
      : state.messages.length > 0 && html`<div class="tools"><button type="button" onClick=${() => chosen.add(state.messages)}>Choose these ${number(Math.min(state.messages.length, MOST_CHOSEN))}</button>
        <${BulkActions} me=${me} queue=${queue} messages=${null} query=${queryOf(pattern, strict)} onDone=${done} /></div>`}
    ${state.messages.length > 0 && html`<${FoundMessages} name=${name} messages=${state.messages} chosen=${chosen} onChoose=${chosen.toggle} />`}
    ${state.next && !state.isBusy && html`<p><button type="button" onClick=${() => begin(state)}>Search on</button></p>`}`;
}
