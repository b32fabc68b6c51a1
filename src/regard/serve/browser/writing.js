/* A text that goes on, and a conversation where the model knows how to hold one: both come as they are written. */
function writingForm(card) {
  return card.chat ? tabs("What to write", [["Conversation", chatForm(card)], ["Text", continueForm(card)]]) : continueForm(card);
}
const SAMPLING = ["temperature", "max_length", "seed"];
function sampling({ max_length, ...given }) { return { ...given, ...(max_length ? { max_tokens: max_length } : {}) }; }

function continueForm(card) {
  const area = textArea({ name: "text", rows: 5, placeholder: card.example }), line = problemLine(), look = looking(card);
  const chosen = options(card, SAMPLING), result = resultBox(), note = make("p", { className: "note" });
  const go = make("button", { className: "main", type: "submit", textContent: "Go on" });
  const stop = make("button", { type: "button", textContent: "Stop", hidden: true });
  const keep = make("button", { type: "button", textContent: "Keep it and go on", hidden: true });
  const form = make("form", { className: "ask", noValidate: true }, field("Text", area), chosen.box, make("div", { className: "row" }, go, stop, exampleButton([area], [card.example]), keysHint("Ctrl", "Enter")), line);
  const job = new Job({ line, buttons: [go, keep], stop, result });
  let said = "";
  form.onsubmit = (event) => {
    event.preventDefault();
    job.start(async (signal) => {
      const prompt = area.value, body = { model: card.id, prompt, ...sampling(chosen.given()) };
      const fresh = make("span", { className: "fresh" });
      said = ""; note.textContent = ""; keep.hidden = true; look.away();
      result.replaceChildren(make("p", { className: "prose story", dir: "auto" }, make("span", { className: "given", textContent: prompt }), fresh), note, make("div", { className: "row" }, keep));
      const end = () => { keep.hidden = !said; if (said) look.at(() => ({ input: prompt, target: said })); };
      try { await streamed("v1/completions", body, signal, { piece: (choice) => { said += choice.text; fresh.textContent = said; }, note }); }
      finally { end(); }
    });
  };
  keep.onclick = () => { area.value += said; grow(area); form.requestSubmit(); };
  sendByKey(form, area);
  return make("div", {}, form, result, look.box);
}

/* A text as it comes: each piece is handed over, and the pace noted at the end. */
async function streamed(path, body, signal, { piece, note }) {
  const began = performance.now();
  let why = "";
  const answer = await ask(path, { ...body, stream: true, stream_options: { include_usage: true } }, signal);
  for await (const event of events(answer)) {
    const choice = event.choices[0];
    if (choice) { piece(choice); why = choice.finish_reason || why; }
    if (event.usage && note) {
      const seconds = Math.max((performance.now() - began) / 1000, 1e-3), n = event.usage.completion_tokens;
      note.textContent = `${several(n, "token", "tokens")}, ${Math.round(n / seconds).toLocaleString("en")} a second${why === "length" ? "; cut at the length" : ""}`;
    }
  }
}

function chatForm(card) {
  const area = textArea({ name: "message", rows: 2, placeholder: "Say something" }), line = problemLine();
  const chosen = options(card, SAMPLING), log = make("section", { className: "talk", role: "log", "aria-label": "Conversation" });
  const go = make("button", { className: "main", type: "submit", textContent: "Send" });
  const stop = make("button", { type: "button", textContent: "Stop", hidden: true });
  const anew = make("button", { type: "button", className: "plain", textContent: "New conversation" });
  const form = make("form", { className: "ask", noValidate: true }, field("Message", area), chosen.box, make("div", { className: "row" }, go, stop, anew, keysHint("Enter")), line);
  const job = new Job({ line, buttons: [go], stop, result: log });
  let messages = [];
  const bubble = (role, text) => { const one = make("p", { className: `prose said-by-${role}`, dir: "auto", textContent: text }); log.append(one); return one; };
  form.onsubmit = (event) => {
    event.preventDefault();
    const text = area.value.trim();
    if (!text) { area.focus(); return; }
    job.start(async (signal) => {
      const given = chosen.given(), asked = bubble("user", text), told = bubble("assistant", "");
      const turn = [...messages, { role: "user", content: text }];
      let said = "";
      area.value = ""; grow(area);
      try { await streamed("v1/chat/completions", { model: card.id, messages: turn, ...sampling(given) }, signal, { piece: (choice) => { said += choice.delta.content || ""; told.textContent = said.trimStart(); } }); }
      catch (problem) { if (!said) { asked.remove(); told.remove(); area.value = area.value || text; grow(area); throw problem; } line.textContent = problem.name === "AbortError" ? "" : problem.message; }
      messages = [...turn, { role: "assistant", content: said }];
    });
  };
  anew.onclick = () => { job.stop(); messages = []; log.replaceChildren(); line.textContent = ""; area.focus(); };
  area.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); } });
  return make("div", {}, log, form);
}
