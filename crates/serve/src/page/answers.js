// How an answer is shown.
function said(row) {
  const found = row.strangers_found === null ? "" : ` · about ${(100 * row.strangers_found).toFixed(0)} % of strangers are noticed`;
  if (row.none_of_these) return "It looks unlike every class. The grey bars are what it would be, were it one of them." + found;
  const n = Object.keys(row.probabilities).length;
  const doubt = row.entropy / Math.log(n);
  const set = row.set.length === 1 ? `only “${row.set[0]}” is possible` : `possible: ${row.set.join(", ")}`;
  return `${set} (at 90 %) · doubt ${(100 * doubt).toFixed(0)} % of the most · latent variance ${row.latent_variance.toFixed(2)}${found}`;
}
function showBars(into, row) {
  const names = Object.keys(row.probabilities);
  if (into.dataset.names !== names.join("\n")) {
    into.replaceChildren(...names.flatMap((name) => [make("span", { className: "name", textContent: name, title: name }),
      make("span", { className: "track" }, make("i")), make("span", { className: "value" })]));
    into.dataset.names = names.join("\n");
  }
  into.classList.toggle("none", row.none_of_these);
  names.forEach((name, k) => {
    const [label, track, value] = [0, 1, 2].map((j) => into.children[3 * k + j]);
    label.classList.toggle("in", row.set.includes(name));
    track.firstChild.style.width = (100 * row.probabilities[name]).toFixed(2) + "%";
    value.textContent = percent(row.probabilities[name]);
  });
}
// Warnings of the server, such as images of another kind than the model has seen.
function warn(into, warnings) {
  into.hidden = warnings.length === 0;
  into.textContent = warnings.length ? "Warning: " + warnings.join(" ") : "";
}
const verdict = (row) => row.none_of_these ? "none of these" : `${row.label}: ${percent(row.probability)}`;
