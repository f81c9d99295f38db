// The third tab: how sure the model is, against how often it is right.
let models = [];
function showModelNote() {
  const name = $("model").value || (photoTask.task || {}).model, model = models.find((m) => m.name === name);
  if (!model) { $("model-note").textContent = "The model is chosen by what the photos look like."; return; }
  const { size, channels } = model.image, kind = model.data ? ` was trained on ${model.data.split(":")[0]} and` : "";
  $("model-note").textContent = `${$("model").value ? "It" : model.name}${kind} sees ${size} × ${size} pixels${channels === 1 ? " of grey" : ""}; it does best on images of ${kind ? "that kind" : "the kind it was trained on"}.`;
}
function svg(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}
function reliabilityPlot(title, bins, ece) {
  const side = 240, left = 48, top = 24, x = (p) => left + p * side, y = (p) => top + (1 - p) * side;
  const plot = svg("svg", { viewBox: `0 0 ${left + side + 26} ${top + side + 40}`, role: "img", "aria-label": `${title}: on average ${gap(ece)} off` });
  plot.append(svg("text", { x: left, y: 14 }, `${title}: ${gap(ece)} off`));
  for (const tick of [0, .2, .4, .6, .8, 1]) {
    plot.append(svg("line", { class: "axis", x1: left, x2: left + side, y1: y(tick), y2: y(tick) }),
      svg("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, 100 * tick + " %"),
      svg("text", { x: x(tick), y: top + side + 16, "text-anchor": "middle" }, 100 * tick + " %"));
  }
  const total = bins.reduce((n, bin) => n + bin.count, 0);
  for (const bin of bins.filter((bin) => bin.count > 0)) {
    const bar = svg("rect", { class: "bar", x: x(bin.lower) + 1, width: Math.max(1, (bin.upper - bin.lower) * side - 2), y: y(bin.accuracy), height: bin.accuracy * side, opacity: 0.35 + 0.65 * Math.sqrt(bin.count / total) });
    bar.append(svg("title", {}, `said ${exact(bin.confidence)}, right ${exact(bin.accuracy)}, ${bin.count} answers`));
    plot.append(bar, svg("line", { class: "gap", x1: x(bin.lower) + 1, x2: x(bin.upper) - 1, y1: y(bin.confidence), y2: y(bin.confidence) }));
  }
  plot.append(svg("line", { class: "ideal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
    svg("text", { x: left + side / 2, y: top + side + 34, "text-anchor": "middle" }, "how sure it says it is"));
  return make("div", { className: "card" }, plot);
}
// Percentage points between what is said and what happens.
const gap = (ece) => `${(100 * ece).toFixed(1)} points`;
const METRICS = [
  ["right", (m) => exact(m.accuracy), "how often the most probable class is the right one"],
  ["ECE", (m) => m.ece.toFixed(3), "how far, on average, what is said lies from how often it is right; 0 is honest"],
  ["MCE", (m) => m.mce.toFixed(3), "the same for the worst group of answers"],
  ["NLL", (m) => m.nll.toFixed(3), "surprise: small when the right class got a high probability"],
  ["Brier", (m) => m.brier.toFixed(3), "squared distance between the probabilities and the truth"],
];
function showReliability() {
  $("reliability-body").replaceChildren(...models.flatMap((model) => {
    const t = model.test, heading = make("h3", { textContent: model.name });
    if (model.added) return [heading, make("p", { textContent: "An added network: how sure it may be is learned anew from the examples of each task, and measured on those left out (under “Details”). “siskin calibrate” measures it on a data set of yours." })];
    if (!t) return [heading, make("p", { textContent: "Nothing was measured of this model; siskin export measures it." })];
    const row = (name, m) => make("tr", {}, make("th", { scope: "row", textContent: name }), ...METRICS.map(([, show]) => make("td", { textContent: show(m) })));
    const head = make("tr", {}, make("td"), ...METRICS.map(([name, , meaning]) => make("th", { scope: "col", textContent: name, title: meaning })));
    const words = make("details", {}, make("summary", { textContent: "What the columns mean" }),
      make("dl", {}, ...METRICS.flatMap(([name, , meaning]) => [make("dt", { textContent: name }), make("dd", { textContent: meaning })])));
    return [heading,
      make("p", { textContent: `Tried on ${t.episodes.toLocaleString("en")} tasks of ${t.way} classes it had never seen, with ${plural(t.shot, "example")} of each: it was right in ${exact(t.accuracy.mean)} of its answers. What it says as shown on this page is on average ${gap(t.tuned.ece)} off.` }),
      make("div", { className: "plots" }, reliabilityPlot("As shown on this page", t.tuned_bins, t.tuned.ece), reliabilityPlot("Before tuning", t.raw_bins, t.raw.ece)),
      make("div", { className: "scroll" }, make("table", {}, head, row("as shown", t.tuned), row("before tuning", t.raw))), words];
  }));
}
