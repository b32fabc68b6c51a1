/* What the model looked at when it gave this very answer: the viewer, in a frame that reaches nothing. */
function looking(card) {
  const line = problemLine(), stage = make("div", { className: "stage" });
  const open = make("button", { type: "button", textContent: "What did it look at?" });
  const box = make("section", { className: "look", hidden: true, "aria-label": "What it looked at" }, make("div", { className: "row" }, open), line, stage);
  const job = new Job({ line, buttons: [open], result: stage });
  let request = null;
  open.onclick = () => job.start(async (signal) => {
    stage.replaceChildren(make("p", { className: "lead", textContent: "Looking…" }));
    try { stage.replaceChildren(await frameOf(await looked(card, request(), signal))); }
    catch (problem) { stage.replaceChildren(); throw problem; }
    open.textContent = "Look again";
  });
  return {
    box,
    at(ask) { request = ask; job.stop(); stage.replaceChildren(); line.textContent = ""; open.textContent = "What did it look at?"; box.hidden = !card.looks; },
    away() { job.stop(); box.hidden = true; stage.replaceChildren(); },
  };
}

async function looked(card, { input, file, target }, signal) {
  const facts = { model: card.id, format: "page", ...(target ? { target } : {}) };
  if (!file) return (await ask("/v1/look", { ...facts, input }, signal)).text();
  const form = new FormData();
  for (const [name, value] of Object.entries(facts)) form.append(name, value);
  form.append("file", file, file.name);
  return (await ask("/v1/look", form, signal)).text();
}

function frameOf(page) {
  const frame = make("iframe", { title: "What the model looked at", src: "/frame" });
  frame.setAttribute("sandbox", "allow-scripts");
  const themed = page.replace("<html ", `<html data-theme="${theme()}" `);
  const ready = (event) => {
    if (event.source !== frame.contentWindow) return;
    removeEventListener("message", ready);
    frame.contentWindow.postMessage(themed, "*");
  };
  addEventListener("message", ready);
  return frame;
}
