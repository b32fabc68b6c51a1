/* How an answer is shown: by what is in its record, whatever task it is from. */
const SHOWN = [
  ["forecast", (record, context) => charts(record, context)],
  ["masks", (record) => filling(record)],
  ["probabilities", (record) => [bars(Object.entries(record.probabilities), percent)]],
  ["value", (record) => [make("p", { className: "large", textContent: figure(record.value) })]],
  ["follows", (record) => [bars([["The second text follows the first", record.follows]], percent)]],
  ["answer", (record, context) => answered(record, context)],
  ["neighbours", (record) => [bars(record.neighbours.map((one) => [one.word, one.cosine]), (c) => c.toFixed(3))]],
  ["words", (record, context) => spoken(record, context)],
  ["text", (record) => written(record)],
];

function shownRecord(record, context) {
  const found = SHOWN.find(([name]) => record[name] !== undefined && record[name] !== null);
  return found ? found[1](record, context) : [make("pre", { textContent: JSON.stringify(record, null, 2) })];
}

/* Names with bars, the largest first; of many the first few, and the rest when asked for. */
const MANY = 8;
function bars(pairs, write) {
  const items = [...pairs].sort((a, b) => b[1] - a[1]).map(([name, value], i) => {
    const bar = make("i", { className: "bar", "aria-hidden": "true" });
    bar.style.width = `${100 * Math.max(0, Math.min(1, value))}%`;
    return make("li", { className: i ? "" : "first" }, make("span", { className: "name", textContent: name, dir: "auto" }), make("span", { className: "share", textContent: write(value) }), make("span", { className: "track" }, bar));
  });
  const list = make("ol", { className: "bars" }, ...items.slice(0, MANY));
  if (items.length <= MANY) return list;
  const rest = make("ol", { className: "bars" }, ...items.slice(MANY));
  return make("div", {}, list, make("details", {}, make("summary", { textContent: `${items.length - MANY} more` }), rest));
}

function written(record) {
  const parts = [make("p", { className: "prose", dir: "auto", textContent: record.text || "(nothing)" })];
  if (record.alternatives?.length) parts.push(otherWays(record.alternatives.map((one) => [one.text, one.score])));
  return parts;
}
function otherWays(ways) {
  const items = ways.map(([text, score]) => make("li", {}, make("span", { dir: "auto", textContent: text || "(nothing)" }), make("em", { textContent: score.toFixed(3), title: "score" })));
  return make("ol", { className: "ways" }, ...items);
}

function filling(record) {
  const guesses = record.masks.map((mask, i) => make("section", {},
    make("h3", { textContent: record.masks.length > 1 ? `Mask ${i + 1}` : "Behind the mask" }),
    bars(mask.map((one) => [one.token.replace(/^[▁Ġ]/, ""), one.probability]), percent)));
  return [make("p", { className: "prose", dir: "auto", textContent: record.text }), make("div", { className: "columns" }, ...guesses)];
}

/* The answer marked where it stands; places count characters, not units of UTF-16. */
function answered(record, context) {
  const passage = Array.from(context.parts.at(-1)), [from, to] = [record.start, record.end];
  const cut = (a, b) => passage.slice(a, b).join("");
  const ranked = [record, ...(record.alternatives || [])].map((one) => [one.answer || "no answer", one.probability]);
  const marked = make("p", { className: "prose passage", dir: "auto" }, cut(0, from), make("mark", { textContent: cut(from, to) }), cut(to));
  return [...(record.answer ? [marked] : []), bars(ranked, percent)];
}

/* Words with their times; one that is chosen is heard, one that is heard lights up. */
function spoken(record, context) {
  const sound = context.sound, words = record.words.map((one) => {
    const word = make("button", { type: "button", className: "word", title: `${percent(one.probability ?? 1)} sure` }, make("b", { textContent: one.word, dir: "auto" }), make("small", { textContent: `${one.start.toFixed(2)}–${one.end.toFixed(2)} s` }));
    word.onclick = () => { sound.currentTime = one.start; sound.play().catch(() => {}); };
    return word;
  });
  sound.ontimeupdate = () => record.words.forEach((one, i) => words[i].classList.toggle("now", !sound.paused && one.start <= sound.currentTime && sound.currentTime < one.end));
  const parts = written(record);
  parts.splice(1, 0, make("div", { className: "words", role: "group", "aria-label": "Words with their times" }, ...words));
  if (record.seconds) parts.push(make("p", { className: "note", textContent: `${record.seconds.toFixed(2)} seconds of sound` }));
  return parts;
}
