/* Elements, and how numbers are written. Text gets into the page as text alone. */
const $ = (id) => document.getElementById(id);
function set(element, facts) {
  for (const [name, value] of Object.entries(facts)) {
    if (name === "role" || name === "for" || name.startsWith("aria-") || name.startsWith("data-")) element.setAttribute(name, value);
    else element[name] = value;
  }
  return element;
}
function make(tag, facts = {}, ...inside) {
  const element = set(document.createElement(tag), facts);
  element.append(...inside.filter((one) => one !== null && one !== undefined));
  return element;
}
let numbered = 0;
const newId = (word) => `${word}-${++numbered}`;

const percent = (p) => `${(100 * p).toFixed(p > 0 && p < 0.001 ? 2 : 1)} %`;
const figure = (value) => Number.isInteger(value) || Math.abs(value) >= 1000 ? value.toLocaleString("en", { maximumFractionDigits: 1 }) : String(Number(value.toPrecision(4)));
const several = (n, one, more) => `${n.toLocaleString("en")} ${n === 1 ? one : more}`;
const listed = (words) => words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
function size(n) {
  for (const [unit, name] of [[1e9, "billion"], [1e6, "million"]]) if (n >= unit) return `${(n / unit).toPrecision(3)} ${name} parameters`;
  return `${n.toLocaleString("en")} parameters`;
}

function bytes(n) {
  for (const [unit, name] of [[1e6, "MB"], [1e3, "kB"]]) if (n >= 10 * unit) return `${(n / unit).toLocaleString("en", { maximumFractionDigits: 0 })} ${name}`;
  return several(n, "byte", "bytes");
}

/* A labelled control; what is left empty is as the model's recipe has it. */
function field(label, control, hint = "") {
  control.id = control.id || newId("field");
  const told = hint ? make("span", { className: "hint", id: newId("hint"), textContent: hint }) : null;
  if (told) control.setAttribute("aria-describedby", told.id);
  return make("div", { className: "field" }, make("label", { for: control.id, textContent: label }), control, told);
}

/* Views of which one is shown: [name, element] each. */
function tabs(label, views) {
  const list = make("div", { className: "tabs", role: "tablist", "aria-label": label });
  const show = (chosen) => views.forEach(([, view], i) => {
    view.hidden = i !== chosen;
    set(list.children[i], { "aria-selected": String(i === chosen), tabIndex: i === chosen ? 0 : -1 });
  });
  views.forEach(([name, view], i) => {
    view.id = view.id || newId("view");
    const tab = make("button", { type: "button", role: "tab", textContent: name, "aria-controls": view.id, onclick: () => show(i) });
    tab.id = newId("tab");
    set(view, { role: "tabpanel", "aria-labelledby": tab.id });
    list.append(tab);
  });
  list.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const next = ([...list.children].indexOf(document.activeElement) + by + views.length) % views.length;
    show(next); list.children[next].focus();
  });
  show(0);
  return make("div", {}, list, ...views.map(([, view]) => view));
}

/* A text area that is as high as its text, up to half of the window. */
function textArea(facts) {
  const area = make("textarea", { rows: 3, spellcheck: false, dir: "auto", ...facts });
  area.addEventListener("input", () => grow(area));
  return area;
}
function grow(area) {
  area.style.height = "auto";
  area.style.height = `${Math.min(area.scrollHeight + 2, Math.max(160, innerHeight / 2))}px`;
}
