// Dialogs, on the browser's own <dialog>: focus stays inside, Escape closes.
import { html } from "./html.js";
import { useEffect, useRef, useState } from "../vendor/hooks.js";

export function Dialog({ title, onClose, children }) {
  const element = useRef(null);
  useEffect(() => {
    element.current.showModal();
  }, []);
  return html`<dialog ref=${element} aria-labelledby="dialog-title" onClose=${onClose}>
    <h2 id="dialog-title">${title}</h2>${children}</dialog>`;
}

/** A form in a dialog; `act` gets the values. The dialog stays open with the error if it fails, or if it returns true. */
export function Form({ title, label, act, onClose, danger = false, children }) {
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      if (!(await act(Object.fromEntries(new FormData(event.target))))) {
        onClose();
        return;
      }
      setProblem(null);
      setBusy(false);
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${submit}>
      ${children}
      ${problem && html`<p class="problem" role="alert">${problem.message}</p>`}
      <p class="actions">
        <button type="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class=${danger ? "danger" : "primary"} disabled=${isBusy}>${label}</button>
      </p>
    </form>
  <//>`;
}

/** A button that needs a role: without it, it is disabled and says which. */
export function Action({ me, role, onClick, danger = false, primary = false, disabled = false, shortcut, children }) {
  const missing = [role].flat().filter((each) => !me.roles.includes(each));
  const why = missing.length ? `needs the role ${missing.join(" and ")}` : undefined;
  return html`<button type="button" class=${danger ? "danger" : primary ? "primary" : ""} disabled=${disabled || missing.length > 0} title=${why} data-key=${shortcut} onClick=${onClick}>
    ${children}${why && html`<span class="why"> (${why})</span>`}</button>`;
}

export function Failure({ error }) {
  return error && html`<p class="problem" role="alert">${error.message}</p>`;
}
