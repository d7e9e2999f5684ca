// The place that the URL names: #/page/rest?name=value. What a page shows, filters included, can be kept as a link.
import { useEffect, useState } from "../vendor/hooks.js";

export function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  try {
    const [page = "", ...rest] = path.split("/").map(decodeURIComponent);
    return { page, rest, query: new URLSearchParams(query) };
  } catch { // not a name that this console has written
    return { page: path, rest: [], query: new URLSearchParams() };
  }
}

export function usePlace() {
  const [current, set] = useState(place());
  useEffect(() => {
    const change = () => set(place());
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return current;
}

/** A value that is kept in the URL, without a step in the history: [value, set]. */
export function useParameter(name, usual = "") {
  const [value, set] = useState(place().query.get(name) ?? usual);
  useEffect(() => {
    const change = () => set(place().query.get(name) ?? usual);
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, [name]);
  const keep = (next) => {
    const { query } = place();
    if (next === usual) query.delete(name);
    else query.set(name, next);
    const text = query.toString();
    history.replaceState(null, "", (location.hash.split("?")[0] || "#/") + (text ? `?${text}` : ""));
    set(next);
  };
  return [value, keep];
}
