"use strict";
const $ = (id) => document.getElementById(id);
const make = (tag, props = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children);
  return node;
};
// With a name for screen readers, where the text on the screen says too little.
const named = (node, name) => { node.setAttribute("aria-label", name); return node; };
const plural = (n, one) => `${n} ${one}${n === 1 ? "" : "s"}`;
const percent = (p) => (p > 0.995 ? "over 99" : p < 0.005 ? "under 1" : (100 * p).toFixed(0)) + "\u00a0%";
const exact = (p) => (100 * p).toFixed(1) + "\u00a0%";
// Screen readers hear an answer once it has stood still: a drawing changes with every stroke.
let speaking;
function speak(text) {
  clearTimeout(speaking);
  speaking = setTimeout(() => { $("spoken").textContent = text; }, 700);
}
// A sentence on a tab about what is shown there; "" takes it away.
function hint(tab, text) { $(tab + "-hint").textContent = text; }
// A sentence about what was just done, with a way back where there is one.
let telling;
function tell(text, undo) {
  clearTimeout(telling);
  const back = undo ? [make("button", { textContent: "Undo", onclick: () => { $("told").hidden = true; undo(); } })] : [];
  $("told").replaceChildren(make("span", { textContent: text }), ...back);
  $("told").hidden = false;
  telling = setTimeout(() => { $("told").hidden = true; }, undo ? 10000 : 5000);
}
