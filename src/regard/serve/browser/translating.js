/* Side by side, line by line, as one pauses; pointed at, a word shows what was read when it was written. */
const PAUSE = 400;
function translatingForm(card) {
  const names = (card.languages || []).map(languageName), line = problemLine(), look = looking(card);
  const area = textArea({ name: "text", rows: 7, placeholder: card.example, ...(card.languages ? { lang: card.languages[0] } : {}) });
  const result = set(resultBox(), { className: "result translated", ...(card.languages ? { lang: card.languages[1] } : {}) });
  const chosen = options(card, ["beam", "n_best"]);
  const form = make("form", { className: "ask", noValidate: true },
    make("div", { className: "sides" }, field(names[0] || "Text", area), make("div", { className: "field" }, make("p", { className: "label", textContent: names[1] || "Translation" }), result)),
    chosen.box, make("div", { className: "row" }, exampleButton([area], [card.example]), make("span", { className: "keys", textContent: "Translated as you pause" })), line);
  const job = new Job({ line, result });
  let timer = 0;
  const later = (wait = PAUSE) => { clearTimeout(timer); timer = setTimeout(() => form.requestSubmit(), wait); };
  area.addEventListener("input", () => later());
  chosen.box.addEventListener("input", () => later());
  job.onProblem = (problem) => { if (problem.wait) later(1000 * problem.wait); };
  form.onsubmit = (event) => {
    event.preventDefault();
    clearTimeout(timer);
    job.start(async (signal) => {
      const rows = area.value.split(/\r?\n/), texts = rows.filter((row) => row.trim());
      if (!texts.length) { result.replaceChildren(); look.away(); return; }
      const decode = chosen.given(), records = await predicted(card, { input: texts, decode }, signal);
      const of = new Map(texts.map((text, i) => [text, records[i]])), changed = Object.keys(decode).length > 0;
      result.replaceChildren(...rows.map((row) => row.trim() ? translated(card, row, of.get(row)) : make("p", { className: "prose gap" })));
      look.at((i) => ({ input: texts[Math.max(0, i)], target: changed ? of.get(texts[Math.max(0, i)]).text : "" }), texts);
    });
  };
  sendByKey(form, area);
  return make("div", {}, form, look.box);
}
const languageName = (code) => { try { return new Intl.DisplayNames(["en"], { type: "language" }).of(code); } catch { return code; } };

/* What was read most while a word was written, asked for when it is pointed at: the mean of all layers and heads. */
function readingOf(card, source, target, line, note) {
  let asked = null;
  return async (number) => {
    asked ??= looked(card, { input: source, target, format: "record" }).then((answer) => answer.json()).then(alignment);
    try {
      const { rows, words, shares } = await asked, at = rows[number] === line[number] ? number : rows.indexOf(line[number]);
      if (at < 0) { note.replaceChildren(); return; }
      const ranked = shares[at].map((p, i) => [words[i], p]).sort((a, b) => b[1] - a[1]).slice(0, 3);
      note.replaceChildren(make("b", { textContent: line[number] }), " read ", ranked.map(([word, p]) => `${word} ${percent(p)}`).join(", "));
    } catch (problem) { asked = null; note.textContent = problem.message; }
  };
}
function alignment(record) {
  if (!record.maps.cross) return { rows: [], words: [], shares: [] };
  const { rows, columns, weights } = record.maps.cross, asks = joined(record.axes[rows].words), seen = joined(record.axes[columns].words);
  const shares = asks.texts.map(() => seen.texts.map(() => 0)), pieces = asks.texts.map((_, i) => asks.of_piece.filter((one) => one === i).length);
  const [layers, heads] = weights.shape;
  for (const layer of weights.data) for (const head of layer) head.forEach((row, t) => row.forEach((w, s) => {
    const a = asks.of_piece[t], b = seen.of_piece[s];
    if (a >= 0 && b >= 0) shares[a][b] += w / (layers * heads * pieces[a]);
  }));
  return { rows: asks.texts, words: seen.texts, shares };
}

/* Where pieces are characters, the words that they make up between spaces. */
function joined({ texts, of_piece }) {
  if (texts.every((text) => text.trim())) return { texts, of_piece };
  const words = [], of = [];
  texts.forEach((text, i) => {
    if (text.trim() && !texts[i - 1]?.trim()) words.push("");
    if (text.trim()) words[words.length - 1] += text;
    of.push(text.trim() ? words.length - 1 : -1);
  });
  return { texts: words, of_piece: of_piece.map((one) => one < 0 ? -1 : of[one]) };
}

function translated(card, source, record) {
  if (record.error) return make("p", { className: "problem", textContent: record.error.message });
  const line = record.text.split(/\s+/).filter(Boolean), note = make("p", { className: "note" }), reading = readingOf(card, source, record.text, line, note);
  const spans = line.map((word) => make("span", { className: "word-read", textContent: word }));
  let timer = 0;
  const point = (event) => {
    const number = spans.indexOf(event.target);
    clearTimeout(timer);
    if (number >= 0 && card.looks) timer = setTimeout(() => { spans.forEach((span, i) => span.classList.toggle("now", i === number)); reading(number); }, event.type === "click" ? 0 : 250);
  };
  const text = make("p", { className: "prose", dir: "auto", onpointerover: point, onclick: point, onpointerleave: () => clearTimeout(timer) }, ...spans.flatMap((span, i) => i ? [" ", span] : [span]));
  const rest = record.alternatives?.length ? otherWays(record.alternatives.map((one) => [one.text, one.score])) : null;
  return make("div", {}, text, note, rest);
}
