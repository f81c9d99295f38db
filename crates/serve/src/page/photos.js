// The second tab: photos put into classes.
// Large photos are made smaller here: the network sees few pixels, and phones have slow uplinks.
async function readPhoto(file) {
  const url = URL.createObjectURL(file);
  try {
    const image = make("img", { src: url });
    await image.decode();
    const scale = Math.min(1, 400 / Math.min(image.naturalWidth, image.naturalHeight));
    const canvas = make("canvas", { width: Math.round(image.naturalWidth * scale), height: Math.round(image.naturalHeight * scale) });
    const g = canvas.getContext("2d");
    g.fillStyle = "#fff";
    g.fillRect(0, 0, canvas.width, canvas.height);
    g.imageSmoothingQuality = "high";
    g.drawImage(image, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL("image/jpeg", 0.92);
  } catch { throw new Error(`${file.name} is no image that this browser can read.`); }
  finally { URL.revokeObjectURL(url); }
}
function dropZone(zone, take) {
  const picker = make("input", { type: "file", accept: "image/*", multiple: true, hidden: true });
  zone.after(picker);
  zone.addEventListener("click", () => picker.click());
  zone.addEventListener("dragover", (e) => { e.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (e) => { e.preventDefault(); zone.classList.remove("over"); take([...e.dataTransfer.files]); });
  picker.addEventListener("change", () => { take([...picker.files]); picker.value = ""; });
}
// A photo dropped beside a zone would otherwise take the place of the page.
for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (e) => e.preventDefault());

const groups = new ClassList($("image-cards"), {
  noun: "class", most: 100, adder: $("add-class"),
  nameOf: (n) => "class " + (n + 1),
  area(item) {
    const zone = named(make("button", { className: "drop", textContent: "Drop or choose photos" }), "Choose photos of " + item.label);
    const frame = make("div", {}, zone);
    dropZone(zone, async (files) => {
      const bad = [];
      for (const file of files) {
        try { this.keep(item, { name: file.name, image: await readPhoto(file) }); }
        catch (error) { bad.push(error.message); }
      }
      if (bad.length) tell(bad.join(" "));
      this.changed();
    });
    return [frame];
  },
  changed() { photoTask.touch(); keepWork(); },
});
const photoTask = new LiveTask(
  () => groups.classes(),
  () => $("model").value || undefined,
  (error) => {
    const task = photoTask.task;
    showModelNote();
    warn($("image-warning"), task ? task.warnings : []);
    $("image-status").className = error ? "bad" : "quiet";
    $("image-status").textContent = error ? error.message : !task ? "Photos in two classes at least are needed." : checked(task);
    askPhotos();
  },
);
$("add-class").onclick = () => { groups.add().name.focus(); keepWork(); };
$("model").onchange = () => { showModelNote(); photoTask.touch(); keepWork(); };
