// The first tab: characters drawn on pads.
const small = (text, name, onclick) => named(make("button", { className: "small", textContent: text, disabled: true, onclick }), name);
const characters = new ClassList($("draw-cards"), {
  noun: "character", most: 10, adder: $("add-character"),
  nameOf: (n) => String.fromCharCode(65 + n % 26) + (n < 26 ? "" : Math.floor(n / 26)),
  area(item, data) {
    const canvas = named(make("canvas", { className: "pad", tabIndex: 0 }), `Draw ${item.label} here. Backspace takes the last stroke back.`);
    canvas.setAttribute("role", "img");
    const pad = item.pad = new Pad(canvas, (moving) => {
      [undo, clear, another].forEach((button) => { button.disabled = pad.empty; });
      if (!moving) this.changed();
    });
    const undo = small("Undo", "Undo the last stroke of " + item.label, () => pad.undo());
    const clear = small("Clear", "Clear the pad of " + item.label, () => pad.clear());
    const another = small("Another", "Keep this drawing and draw another " + item.label, () => {
      this.keep(item, { name: "a drawing of " + item.label, image: pad.image() });
      pad.clear();
    });
    if (data.strokes && data.strokes.length) { pad.strokes = data.strokes; [undo, clear, another].forEach((button) => { button.disabled = false; }); }
    return [canvas, make("div", { className: "row" }, undo, clear, another)];
  },
  extra: (item) => item.pad.empty ? [] : [item.pad.image()],
  more: (item) => ({ strokes: item.pad.strokes }),
  changed() { drawTask.touch(); keepWork(); },
});
const drawTask = new LiveTask(
  () => characters.classes(),
  // Drawings are grey, so a model of grey images reads them; the server always has one.
  () => (models.find((m) => m.image.channels === 1) || {}).name,
  (error) => {
    $("draw-checked").textContent = drawTask.task ? checked(drawTask.task) : "";
    if (error) showDrawError(error); else askDrawing();
  },
);
$("add-character").onclick = () => { characters.add().name.focus(); keepWork(); };

const query = new Pad($("query"), (moving) => { askDrawing(); if (!moving) keepWork(); });
$("query-clear").onclick = () => query.clear();
$("query-undo").onclick = () => query.undo();
const drawFold = {};
let asking = false, askAgain = false;
async function askDrawing() {
  $("query-clear").disabled = $("query-undo").disabled = query.empty;
  if (asking) { askAgain = true; return; }
  asking = true;
  try {
    const rows = query.empty ? null : await drawTask.predict([query.image()], 2);
    if (rows && rows[0].error) throw new Error(rows[0].error);
    if (rows) {
      const { head, line } = verdict(rows[0], drawTask.task);
      $("draw-answer").replaceChildren(...answerBlock(rows[0], drawTask.task, characters.classes().flatMap((c) => c.images), drawFold));
      speak(`${head}. ${line}`);
    } else {
      const next = characters.classes().length < 2 ? "Draw at least two different characters first, each on a pad of its own." : "Now draw one of them again, on the pad here.";
      $("draw-answer").replaceChildren(make("p", { className: "quiet", textContent: next }));
    }
  } catch (error) { showDrawError(error); }
  asking = false;
  if (askAgain) { askAgain = false; askDrawing(); }
}
function showDrawError(error) {
  $("draw-answer").replaceChildren(make("p", { className: "bad", textContent: error.message }));
}
