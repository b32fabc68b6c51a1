/* Requests to the server, with the key where it wants one, and what they may be answered with. */
const storage = {
  get: (name) => { try { return sessionStorage.getItem(name) || ""; } catch { return ""; } },
  set: (name, value) => { try { sessionStorage.setItem(name, value); } catch { /* it is kept for this visit only */ } },
};
let key = storage.get("regard.key");
let onKeyWanted = () => {};

class Refused extends Error {
  constructor(message, { status = 0, wait = 0 } = {}) { super(message); this.status = status; this.wait = wait; }
}

async function ask(path, body, signal) {
  if (/[^\x21-\x7e]/.test(key)) { key = ""; onKeyWanted(true); throw new Refused("This key is not known here.", { status: 401 }); }
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const sent = { method: body ? "POST" : "GET", headers, signal, cache: "no-store", referrerPolicy: "no-referrer" };
  if (body instanceof FormData) sent.body = body;
  else if (body) { sent.body = JSON.stringify(body); headers["Content-Type"] = "application/json"; }
  let answer;
  try { answer = await fetch(path, sent); }
  catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Refused("The server cannot be reached; what you wrote is still here.");
  }
  if (answer.ok) return answer;
  throw await refusal(answer);
}

async function refusal(answer) {
  let told = "";
  try { const { error } = await answer.json(); told = typeof error === "string" ? error : error.message; } catch { /* no JSON: the status has to do */ }
  const status = answer.status, wait = Number(answer.headers.get("Retry-After")) || 0;
  if (status === 401) onKeyWanted(Boolean(key));
  if (status === 429) told = "The server is busy";
  const again = wait ? `; try again in ${several(wait, "second", "seconds")}.` : "";
  return new Refused(sentence(told || `The server answered ${status}`, again), { status, wait });
}
const sentence = (text, more = "") => text.replace(/^[a-z]+ /, (word) => word.charAt(0).toUpperCase() + word.slice(1)).replace(/\.$/, "") + (more || ".");

/* The events of a stream, as objects; an event that is an error is thrown. */
async function* events(answer) {
  const reader = answer.body.getReader(), decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    rest += done ? "" : decoder.decode(value, { stream: true });
    const parts = rest.split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const data = part.replace(/^data: /, "");
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw new Refused(sentence(event.error.message));
      yield event;
    }
    if (done) throw new Refused("The stream broke off.");
  }
}

/* What is asked for here, one at a time: who asks anew gives up what was asked before. */
class Job {
  constructor({ line, buttons = [], stop = null, result = null }) {
    Object.assign(this, { line, buttons, stopButton: stop, result, current: null });
    if (stop) stop.onclick = () => this.stop();
  }
  stop() { this.current?.abort(); }
  async start(work) {
    this.current?.abort();
    const own = new AbortController();
    this.current = own; this.line.textContent = ""; this.busy(true);
    try { return await work(own.signal); }
    catch (problem) {
      if (this.current === own && problem.name !== "AbortError") { this.line.textContent = problem.message; this.onProblem?.(problem); }
      return null;
    } finally {
      if (this.current === own) { this.current = null; this.busy(false); }
    }
  }
  busy(on) {
    for (const button of this.buttons) button.setAttribute("aria-disabled", String(on));
    if (this.stopButton) this.stopButton.hidden = !on;
    this.result?.setAttribute("aria-busy", String(on));
  }
}
const problemLine = () => make("p", { className: "problem", role: "alert" });
