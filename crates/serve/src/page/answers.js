// How an answer is said: as a person would, with the numbers behind a fold.
const MOST_BARS = 5;
const ranked = (row) => Object.entries(row.probabilities).sort((a, b) => b[1] - a[1]);
const sureness = (p) => p >= 0.99 ? "Very sure" : p >= 0.9 ? "Sure" : p >= 0.7 ? "Fairly sure" : p >= 0.5 ? "Not very sure" : "Unsure";
function either(names) {
  const shown = names.slice(0, 3), more = names.length - shown.length;
  if (more) shown.push(more === 1 ? "one other" : more + " others");
  return shown.length < 2 ? shown.join("") : shown.slice(0, -1).join(", ") + " or " + shown.at(-1);
}
function verdict(row, task) {
  if (row.none_of_these) return { head: "None of these", line: "It does not look like any of the classes shown." };
  const others = ranked(row).map(([name]) => name).filter((name) => name !== row.label && row.set.includes(name));
  const could = others.length ? ` It could also be ${either(others)}.` : "", head = row.probability < 0.5 ? row.label + "?" : row.label;
  if (task && task.calibration.other_kind) return { head: row.label + "?", line: `Only a guess: the model does not know images of this kind.${could}` };
  // Nobody is sure of one class and names others too, whatever the percentage.
  const sure = sureness(others.length ? Math.min(row.probability, 0.89) : row.probability);
  return { head, line: `${sure}: ${percent(row.probability)}.${could}` };
}
const isSure = (row, task) => !row.none_of_these && !(task && task.calibration.other_kind) && row.probability >= 0.9 && row.set.length === 1;

// Bars, the most probable first. An answer of "none of these" has none: they would say how likely each class is if it were one.
function bars(row) {
  const list = make("div", { className: "bars" });
  list.setAttribute("role", "list");
  const all = ranked(row);
  list.append(...all.slice(0, MOST_BARS).map(([name, p]) => {
    const fill = make("i");
    fill.style.width = (100 * p).toFixed(2) + "%";
    const item = make("div", { className: "entry", title: `${name}: ${exact(p)}` }, make("span", { className: "name" + (row.set.includes(name) ? " in" : ""), textContent: name }),
      make("span", { className: "track" }, fill), make("span", { className: "value", textContent: percent(p) }));
    item.setAttribute("role", "listitem");
    return item;
  }));
  return list;
}

function facts(row, task) {
  const all = ranked(row), rows = [];
  if (row.none_of_these) rows.push(["Were it one of them", all.slice(0, MOST_BARS).map(([name, p]) => `${name} ${exact(p)}`).join(", ")]);
  else {
    rows.push(["Possible at 90 %", row.set.join(", ")]);
    rows.push(["Every class", all.slice(0, 30).map(([name, p]) => `${name} ${exact(p)}`).join(", ") + (all.length > 30 ? `, and ${all.length - 30} more` : "")]);
  }
  rows.push(["How undecided", `${(100 * row.entropy / Math.log(all.length)).toFixed(0)} % (0 % is certain, 100 % is a guess)`]);
  rows.push(["How far from all examples", `${row.latent_variance.toFixed(2)} (latent variance; more means further)`]);
  if (row.nearest && row.nearest.length) rows.push(["How alike the nearest examples are", row.nearest.map((n) => `${n.class} ${n.kernel.toFixed(2)}`).join(", ") + " (kernel values)"]);
  if (row.strangers_found !== null && row.strangers_found !== undefined) rows.push(["Things of no class", `about ${(100 * row.strangers_found).toFixed(0)} % of them are noticed`]);
  if (task) rows.push(["Where the percentages come from", task.calibration.summary]);
  return make("dl", {}, ...rows.flatMap(([term, text]) => [make("dt", { textContent: term }), make("dd", { textContent: text })]));
}

// The examples most like the one asked about. `examples` are the images of the task in its order.
function nearest(row, examples) {
  const shown = (row.nearest || []).filter((n) => examples[n.index]);
  if (shown.length === 0) return make("div");
  const figure = (n) => make("figure", {}, make("img", { src: examples[n.index], alt: `an example of ${n.class}` }), make("figcaption", { textContent: n.class }));
  return make("div", {}, make("p", { className: "quiet", textContent: "Most like these examples:" }), make("div", { className: "near" }, ...shown.map(figure)));
}
// An answer as a block. `fold` remembers whether its details are open.
function answerBlock(row, task, examples, fold) {
  const { head, line } = verdict(row, task);
  const details = make("details", { open: !!fold.open, ontoggle: () => { fold.open = details.open; } }, make("summary", { textContent: "Details" }), facts(row, task));
  return [make("p", { className: "answer", textContent: head }), make("p", { textContent: line }),
    ...(row.none_of_these ? [] : [bars(row)]), nearest(row, examples), details];
}
// What left-out examples say of a task, as a person would.
function checked(task) {
  const out = task.calibration.left_out;
  if (!out) return "";
  return out.right === out.of ? `Checked by leaving out examples: all ${out.of} were recognised.`
    : `Checked by leaving out examples: ${out.right} of ${out.of} were recognised.`;
}
// Warnings of the server, such as images of another kind than the model has seen.
function warn(into, warnings) {
  into.hidden = warnings.length === 0;
  into.textContent = warnings.length ? "Warning: " + warnings.join(" ") : "";
}
