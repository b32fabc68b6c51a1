/* A text, or the parts that an input has, such as a question and its passage; the answer below. */
const TAB = "\t";
function textForm(card) {
  const examples = card.example.split(TAB), line = problemLine();
  const areas = card.parts.map((name, i) => textArea({ name, placeholder: examples[i] || "", rows: i ? 5 : 2 }));
  const fields = card.parts.map((name, i) => field(name.charAt(0).toUpperCase() + name.slice(1), areas[i]));
  const chosen = options(card, ["k", "n_best"]), result = resultBox(), look = looking(card);
  const go = make("button", { className: "main", type: "submit", textContent: "Ask" });
  const form = make("form", { className: "ask", noValidate: true }, ...fields, chosen.box, make("div", { className: "row" }, go, exampleButton(areas, examples), keysHint("Ctrl", "Enter")), line);
  const job = new Job({ line, buttons: [go], result });
  const parts = () => areas.map((area) => area.value.trim());
  form.onsubmit = (event) => {
    event.preventDefault();
    job.start(async (signal) => {
      const given = parts(), empty = given.findIndex((text) => !text);
      if (empty >= 0) { areas[empty].focus(); throw new Refused(`Write ${article(card.parts[empty])} first.`); }
      const input = given.map((text) => text.replace(/[\t\n]/g, " ")).join(TAB);  // a place stays a place
      const record = await predicted(card, { input, decode: chosen.given() }, signal);
      result.replaceChildren(...shownRecord(record, { parts: given }));
      look.at(() => ({ input }));
    });
  };
  sendByKey(form, ...areas);
  return make("div", {}, form, result, look.box);
}

async function predicted(card, { input, file, decode = {} }, signal) {
  let body = { model: card.id, input, decode };
  if (file) {
    body = new FormData();
    body.append("model", card.id);
    body.append("decode", JSON.stringify(decode));
    body.append("file", file, file.name);
  }
  const told = await (await ask("v1/predict", body, signal)).json();
  return Array.isArray(input) ? told.data : told.data[0];
}

const article = (word) => /s$/.test(word) ? word : `${/^[aeiou]/i.test(word) ? "an" : "a"} ${word}`;
const resultBox = () => make("section", { className: "result", "aria-live": "polite", "aria-label": "Answer" });
const keysHint = (...keys) => make("span", { className: "keys" }, ...keys.flatMap((one, i) => i ? [" + ", make("kbd", { textContent: one })] : [make("kbd", { textContent: one })]));
function exampleButton(areas, examples) {
  if (!examples[0]) return null;
  return make("button", { type: "button", className: "plain", textContent: "Example", onclick: () => {
    areas.forEach((area, i) => { area.value = examples[i] || ""; area.dispatchEvent(new Event("input")); });
    areas[0].focus();
  } });
}
function sendByKey(form, ...areas) {
  for (const area of areas) area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); }
  });
}
