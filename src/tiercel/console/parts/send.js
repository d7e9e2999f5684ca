// Sending a message: the fields of a form, and the request.
import { html } from "./html.js";
import { post, queuePath } from "./api.js";

/** `queue` is known for one of this computer; for another computer the sender says whether it is transactional. */
export function SendFields({ queue = null }) {
  return html`<label>Label <input name="label" maxlength="249" autofocus=${Boolean(queue)} /></label>
    <label>Body <textarea name="text" rows="6"></textarea></label>
    ${!queue?.transactional && html`<label>Priority <input name="priority" type="number" min="0" max="7" value="3" /></label>`}
    <label class="check"><input type="checkbox" name="recoverable" checked /> Recoverable: survives a restart</label>
    ${!queue && html`<label class="check"><input type="checkbox" name="transactional" /> Transactional, if the queue of the other computer is</label>
      <label class="check"><input type="checkbox" name="negative_journaling" checked /> Keep it as a dead letter if it does not arrive</label>`}`;
}

/** Sends what the form says; the answer has the id. */
export function send(name, values, queue = null) {
  const isTransactional = queue ? queue.transactional : Boolean(values.transactional);
  const message = { label: values.label, text: values.text, delivery: values.recoverable ? "recoverable" : "express" };
  if (!isTransactional) message.priority = Number(values.priority);
  if (values.negative_journaling) message.negative_journaling = true;
  const isRemote = /^(DIRECT|MULTICAST)=/i.test(name);
  return post(`${queuePath(name)}/messages`, message, isRemote && isTransactional ? { transactional: true } : {});
}
