// A field for the name of a queue: those that are known here, and help with the name of another computer's.
import { html } from "./html.js";
import { useEffect, useRef, useState } from "../vendor/hooks.js";
import { get } from "./api.js";

const SHOWN = 500;
const ADDRESS = /^[0-9.]+$|:/;

/** A format name, as in DIRECT=OS:server-b\private$\orders; the queue may bring its own path, as public queues do. */
export function remoteName(computer, queue) {
  const local = queue.includes("\\") ? queue : `private$\\${queue}`;
  return `DIRECT=${ADDRESS.test(computer) ? "TCP" : "OS"}:${computer}\\${local}`;
}

/** Names of queues to choose from: of this computer, and of others that messages have gone to. */
async function known() {
  try {
    const { queues } = await get("/queues", { kind: "private,public,subqueue,outgoing" });
    return queues.slice(0, SHOWN).map((each) => each.name);
  } catch { // a token that may only send
    return [];
  }
}

export function QueueField({ label, name = "to", value = "", placeholder = "archive", required, readonly, autofocus, onInput = () => {} }) {
  const [text, setText] = useState(value);
  const [names, setNames] = useState([]);
  const computer = useRef(null);
  const queue = useRef(null);
  useEffect(() => {
    known().then(setNames);
  }, []);
  const set = (next) => {
    setText(next);
    onInput(next);
  };
  const compose = () => {
    const [host, local] = [computer.current.value.trim(), queue.current.value.trim()];
    if (host && local) set(remoteName(host, local));
  };
  return html`<label>${label} <input name=${name} value=${text} required=${required} readonly=${readonly} autofocus=${autofocus} list=${`queues-${name}`} autocomplete="off" placeholder=${placeholder} onInput=${(event) => set(event.target.value)} /></label>
    <datalist id=${`queues-${name}`}>${names.map((each) => html`<option value=${each} />`)}</datalist>
    ${!readonly && html`<details class="remote"><summary>A queue of another computer</summary>
      <label>Computer name or IP address <input ref=${computer} autocomplete="off" placeholder="server-b" onInput=${compose} /></label>
      <label>Its queue <input ref=${queue} autocomplete="off" placeholder="orders" onInput=${compose} /></label></details>`}`;
}
