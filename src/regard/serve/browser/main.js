/* Which model is asked, in which colours, and who may ask. */
const wantsDark = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement;
const theme = () => root.dataset.theme || (wantsDark.matches ? "dark" : "light");
function setTheme(name) {
  if (name) { root.dataset.theme = name; storage.set("regard.theme", name); }
  const other = theme() === "dark" ? "light" : "dark";
  set($("theme"), { textContent: other.charAt(0).toUpperCase() + other.slice(1), "aria-label": `Switch to ${other} colours` });
}
$("theme").onclick = () => setTheme(theme() === "dark" ? "light" : "dark");
wantsDark.addEventListener("change", () => setTheme(""));
setTheme(storage.get("regard.theme"));

/* The form follows what a model can do and reads, never what its task is called. */
function formOf(card) {
  const able = (ability) => card.abilities.includes(ability);
  if (able("continue")) return writingForm(card);
  if (able("translate")) return translatingForm(card);
  if (able("embed") && !card.parts.length) return comparingForm(card);
  const own = card.suffixes.length ? fileForm(card) : textForm(card);
  return able("embed") ? tabs("What to ask", [["Ask", own], ["Compare texts", comparingForm(card)]]) : own;
}

function panelOf(card) {
  const facts = [card.task, card.architecture, size(card.parameters)].filter(Boolean).join(" · ");
  const lead = [card.does && `It ${card.does}.`, ...card.limits].filter(Boolean).join(" ");
  return make("article", { className: "panel" }, make("p", { className: "kicker", textContent: facts }), make("h1", { textContent: card.id }), make("p", { className: "lead", textContent: lead }), formOf(card));
}

const panels = new Map();  // kept while others are shown, so that nothing typed is lost
function choose(card) {
  if (!panels.has(card.id)) { panels.set(card.id, panelOf(card)); $("panels").append(panels.get(card.id)); }
  for (const [id, panel] of panels) panel.hidden = id !== card.id;
  document.title = `${card.id} · regard`;
  history.replaceState(null, "", `#${encodeURIComponent(card.id)}`);
}

function showModels(cards) {
  $("key-form").hidden = true; $("problem").textContent = "";
  if (panels.size) return;
  $("rail").hidden = cards.length < 2;
  const asked = cards.find((card) => `#${encodeURIComponent(card.id)}` === location.hash) || cards[0];
  $("models").replaceChildren(...cards.map((card) => {
    const input = make("input", { type: "radio", name: "model", value: card.id, checked: card === asked, onchange: () => choose(card) });
    return make("label", {}, input, make("b", { textContent: card.id }), make("span", { textContent: card.task }));
  }));
  choose(asked);
}

onKeyWanted = (wrong) => {
  $("key-form").hidden = false;
  $("problem").textContent = wrong ? "This key is not known here." : "";
  $("key").focus();
};
async function begin() {
  try { showModels((await (await ask("v1/models")).json()).data); }
  catch (problem) { if (problem.status !== 401) $("problem").textContent = problem.message; }
  root.dataset.ready = "yes";
}
$("key-form").onsubmit = (event) => {
  event.preventDefault();
  key = $("key").value.trim();
  storage.set("regard.key", key);
  begin();
};
begin();
