// Photos asked about: their answers, and which of them would help most if it were labelled.
const asked = [];
dropZone($("ask-images"), async (files) => {
  for (const file of files) {
    try { asked.push({ name: file.name, image: await readPhoto(file) }); }
    catch (error) { asked.push({ name: file.name, image: "", row: { error: error.message } }); }
  }
  keepWork();
  askPhotos();
});
let photoRound = 0;
async function askPhotos() {
  const round = ++photoRound, open = asked.filter((a) => a.image);
  try {
    for (let i = 0; i < open.length; i += 20) {
      const part = open.slice(i, i + 20), rows = await photoTask.predict(part.map((a) => a.image), 3);
      // Examples may have changed meanwhile: then another round answers.
      if (round !== photoRound) return;
      part.forEach((a, k) => { a.row = rows ? rows[k] : null; });
    }
  } catch (error) { open.forEach((a) => { a.row = { error: error.message }; }); }
  showPhotos();
}
function showPhotos() {
  const examples = groups.classes().flatMap((c) => c.images), answered = asked.filter((a) => a.row);
  const sure = answered.filter((a) => !a.row.error && isSure(a.row, photoTask.task)).length;
  $("results-tools").hidden = asked.length === 0;
  const before = showPhotos.before, gain = before && before.of > answered.length && sure !== before.sure ? ` (before your label: ${before.sure} of ${before.of})` : "";
  $("results-said").textContent = answered.length ? `Sure about ${sure} of ${plural(answered.length, "photo")}${gain}.` : "Put photos into two classes first.";
  const shown = $("newest").checked ? answered.toReversed() : answered;
  $("results").replaceChildren(...shown.map((a) => {
    const body = make("div", {}, ...(a.row.error ? [make("p", { className: "bad", textContent: `${a.name}: ${a.row.error}` })] : answerBlock(a.row, photoTask.task, examples, a)));
    const forget = named(make("button", { className: "small", textContent: "✕", title: "Forget this photo", onclick: () => { asked.splice(asked.indexOf(a), 1); keepWork(); showPhotos(); } }), "Forget " + a.name);
    return make("div", { className: "result" }, a.image ? make("img", { src: a.image, alt: a.name }) : make("span"), body, forget);
  }));
  showNext(answered, sure);
  if (answered.length) speak($("results-said").textContent);
}
// The photo whose label would help most: one of no class shown, else the one that the server suggests.
const MOST_OPEN = 20;
async function worthMost(open) {
  const strange = open.find((a) => a.row.none_of_these);
  if (strange || open.length === 1) return { photo: strange || open[0], advice: null };
  const pool = open.slice(0, MOST_OPEN), found = await photoTask.suggest(pool.map((a) => a.image), 1);
  return found && found.suggestions.length ? { photo: pool[found.suggestions[0].index], advice: found.advice } : null;
}
async function showNext(answered, sure) {
  const round = photoRound, open = answered.filter((a) => !a.row.error && !a.skipped && !isSure(a.row, photoTask.task));
  $("next").hidden = open.length === 0 || answered.length < 2;
  if ($("next").hidden) return;
  let next = null;
  try { next = await worthMost(open); } catch (error) { $("next").replaceChildren(make("p", { className: "bad", textContent: error.message })); return; }
  // Answers may have changed meanwhile: then another round shows its own.
  if (round !== photoRound || !next || !asked.includes(next.photo)) return;
  const a = next.photo;
  const label = (item) => {
    showPhotos.before = { sure, of: answered.length };
    asked.splice(asked.indexOf(a), 1);
    groups.keep(item, { name: a.name, image: a.image });
    groups.changed();
  };
  const choose = (item) => make("button", { textContent: item.label, onclick: () => label(item) });
  const other = () => { const item = groups.add(); label(item); item.name.focus(); };
  $("next").replaceChildren(make("h3", { textContent: "Label next" }),
    make("div", { className: "next" }, make("img", { src: a.image, alt: a.name }),
      make("div", {}, make("p", { textContent: "Of the photos left, this one would help most. What is it?" }),
        ...(next.advice ? [make("p", { className: "quiet", textContent: next.advice.sentence })] : []),
        make("div", { className: "row" }, ...groups.items.map(choose), make("button", { textContent: "Something else", title: "Make a new class of it", onclick: other }), make("button", { className: "plain", textContent: "Skip", onclick: () => { a.skipped = true; showPhotos(); } })))));
}
$("newest").onchange = () => { keepWork(); showPhotos(); };
$("forget-all").onclick = () => {
  const old = asked.splice(0);
  keepWork();
  showPhotos();
  tell("The answers were cleared.", () => { asked.push(...old); keepWork(); askPhotos(); });
};
