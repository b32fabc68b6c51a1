/* How alike texts are: the cosine of the vectors of each two, as a table. */
function comparingForm(card) {
  const area = textArea({ name: "texts", rows: 5, placeholder: "One text a line" }), line = problemLine(), result = resultBox(), look = looking(card);
  const go = make("button", { className: "main", type: "submit", textContent: "Compare" });
  const form = make("form", { className: "ask", noValidate: true }, field("Texts, one a line", area), make("div", { className: "row" }, go, keysHint("Ctrl", "Enter")), line);
  const job = new Job({ line, buttons: [go], result });
  form.onsubmit = (event) => {
    event.preventDefault();
    job.start(async (signal) => {
      const texts = area.value.split(/\r?\n/).map((text) => text.trim()).filter(Boolean);
      if (texts.length < 2) { area.focus(); throw new Refused("Write at least two texts, one a line."); }
      const told = await (await ask("v1/embeddings", { model: card.id, input: texts, encoding_format: "float" }, signal)).json();
      result.replaceChildren(likeness(texts, told.data.map((one) => one.embedding)));
      look.at((i) => ({ input: texts[i] }), texts);
    });
  };
  sendByKey(form, area);
  return make("div", {}, form, result, look.box);
}

function likeness(texts, vectors) {
  const norm = (v) => Math.sqrt(v.reduce((sum, x) => sum + x * x, 0)) || 1;
  const units = vectors.map((v) => { const n = norm(v); return v.map((x) => x / n); });
  const head = make("tr", {}, make("td"), ...texts.map((text, i) => make("th", { scope: "col", textContent: String(i + 1), title: text })));
  const rows = texts.map((text, i) => make("tr", {}, make("th", { scope: "row", dir: "auto" }, make("em", { textContent: `${i + 1} ` }), text), ...texts.map((_, j) => heat(units[i].reduce((sum, x, d) => sum + x * units[j][d], 0)))));
  return make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Likeness" }, make("table", { className: "heat" }, make("thead", {}, head), make("tbody", {}, ...rows)));
}
function heat(cosine) {
  const cell = make("td", { textContent: cosine.toFixed(2) }), share = Math.round(100 * Math.max(0, Math.min(1, cosine)) ** 2);
  cell.style.setProperty("--share", `${share}%`);
  cell.className = share > 74 ? "strong" : share > 50 ? "middle" : "";
  return cell;
}
