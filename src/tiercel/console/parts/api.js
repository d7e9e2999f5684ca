// Requests to /api/v1, and the hook that loads data for a page.
import { useCallback, useEffect, useState } from "../vendor/hooks.js";

const V1 = "/api/v1";

/** An error of the API: what failed, and what to do. */
export class Problem extends Error {
  constructor(status, problem) {
    super(problem.detail || `the server answered ${status}`);
    this.status = status;
    this.fix = problem.fix || "";
  }
}

/** Called when the login has ended. */
export const session = { ended: () => {} };

async function request(method, url, { body, refresh = false, signal, raw = false } = {}) {
  const headers = { "X-Tiercel": "1" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (refresh) headers["X-Tiercel-Refresh"] = "1"; // automatic: does not keep a login alive
  let response;
  try {
    response = await fetch(url, {
      method, headers, signal, cache: "no-store", body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The queue manager cannot be reached." });
  }
  const text = await response.text();
  if (response.ok && raw) return text;
  let content = {};
  try {
    content = JSON.parse(text);
  } catch { /* a proxy's page */ }
  if (response.ok) return content;
  if (response.status === 401 && !url.endsWith("/login")) session.ended();
  throw new Problem(response.status, content);
}

const query = (parameters) => {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
};

export const get = (path, parameters = {}, options = {}) => request("GET", `${V1}${path}${query(parameters)}`, options);
export const post = (path, body = {}, parameters = {}) => request("POST", `${V1}${path}${query(parameters)}`, { body });
export const patch = (path, body) => request("PATCH", `${V1}${path}`, { body });
export const remove = (path) => request("DELETE", `${V1}${path}`);
export const metrics = (options) => request("GET", "/metrics", { ...options, raw: true });
export const logIn = (token) => request("POST", "/console/login", { body: { token } });
export const logOut = () => request("POST", "/console/logout", { body: {} });
export const queuePath = (name) => `/queues/${encodeURIComponent(name)}`;

/** Loads data when `deps` change, on `reload`, and every `every` ms: {data, error, reload}. */
export function useData(load, deps, every = 0) {
  const [state, set] = useState({ data: null, error: null });
  const run = useCallback((options) => load(options), deps);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    let timer = 0;
    const once = async (refresh) => {
      try {
        set({ data: await run({ signal: control.signal, refresh }), error: null });
      } catch (error) {
        if (error.name === "AbortError") return;
        set((before) => ({ data: before.data, error }));
      }
      if (every && !control.signal.aborted) timer = setTimeout(() => once(true), every);
    };
    once(false);
    return () => {
      control.abort();
      clearTimeout(timer);
    };
  }, [run, turn, every]);
  return { ...state, reload: () => setTurn((n) => n + 1) };
}
