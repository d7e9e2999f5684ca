// Sending a message to any queue, here or on another computer.
import { html } from "../parts/html.js";
import { useState } from "../vendor/hooks.js";
import { Failure } from "../parts/dialog.js";
import { QueueField } from "../parts/queue_field.js";
import { SendFields, send } from "../parts/send.js";

export function SendPage({ me }) {
  const [sent, setSent] = useState(null);
  const [error, setError] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.target));
    setError(null);
    try {
      setSent({ ...(await send(values.to, values)), to: values.to });
    } catch (problem) {
      setSent(null);
      setError(problem);
    }
  };
  const id = sent && (me.roles.includes("read") ? html`<a href=${`#/why/${encodeURIComponent(sent.id)}`}>${sent.id}</a>` : html`<code>${sent.id}</code>`);
  return html`<h1>Send</h1>
    <form class="narrow" onSubmit=${submit}><${QueueField} label="To queue" required autofocus />
      <${SendFields} />
      <${Failure} error=${error} />
      <div role="status">${sent && html`<p class="note">Sent to ${sent.to} as ${id}.</p>`}</div>
      <p><button type="submit" class="primary">Send</button></p></form>`;
}
