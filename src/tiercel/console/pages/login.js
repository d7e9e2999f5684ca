// Login with a token, which the server exchanges for a cookie.
import { html } from "../parts/html.js";
import { useState } from "../vendor/hooks.js";
import { logIn } from "../parts/api.js";
import { Failure } from "../parts/dialog.js";

export function Login({ onDone }) {
  const [error, setError] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    const field = event.target.elements.token;
    try {
      await logIn(field.value);
      field.value = "";
      onDone();
    } catch (problem) {
      setError(problem.status === 401 ? new Error("The queue manager does not know this token.") : problem);
    }
  };
  return html`<main id="main" class="login" tabindex="-1">
    <h1>Log in to Tiercel</h1>
    <form onSubmit=${submit}>
      <label>Token <input name="token" type="password" autocomplete="off" required autofocus /></label>
      <${Failure} error=${error} />
      <p><button type="submit" class="primary">Log in</button></p>
      <p class="quiet">An administrator makes a token with <code>tiercel token add</code>. This browser does not keep it.</p>
    </form>
  </main>`;
}
