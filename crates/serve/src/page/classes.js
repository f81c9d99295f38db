// Classes with their examples, as cards: what drawings and photos have in common.
// `area(item)` gives what stands between the name and the examples; `extra(item)` an example that is not kept yet.
class ClassList {
  constructor(into, settings) { Object.assign(this, settings, { into, items: [] }); }
  // A name that no class has.
  freeName() {
    const taken = new Set(this.items.map((item) => item.label));
    for (let n = 0; ; n++) if (!taken.has(this.nameOf(n))) return this.nameOf(n);
  }
  add(data = {}, at = this.items.length) {
    const shown = this.freeName();
    const name = named(make("input", { type: "text", value: data.name && data.name !== shown ? data.name : "", placeholder: shown, maxLength: 60 }), `Name of ${this.noun} ${shown}`);
    const item = { name, examples: [], thumbs: make("div", { className: "thumbs" }), get label() { return name.value.trim() || shown; } };
    const remove = named(make("button", { className: "small", textContent: "✕", title: "Remove this " + this.noun, onclick: () => this.remove(item) }), "Remove " + shown);
    name.addEventListener("change", () => { named(remove, "Remove " + item.label); this.changed(); });
    item.card = make("div", { className: "card" }, make("div", { className: "title" }, name, remove), ...this.area(item, data), item.thumbs);
    this.items.splice(at, 0, item);
    this.into.insertBefore(item.card, this.into.children[at] || null);
    (data.examples || []).forEach((example) => this.keep(item, example));
    this.limit();
    return item;
  }
  // One more example: its image, and what it is called.
  keep(item, example) {
    const thumb = named(make("button", { className: "thumb", title: "Remove this example", onclick: () => {
      const at = item.examples.indexOf(example);
      item.examples.splice(at, 1);
      thumb.remove();
      this.changed();
      tell(`An example of ${item.label} was removed.`, () => { this.keep(item, example); this.changed(); });
    } }, make("img", { src: example.image, alt: "" })), `Remove ${example.name}`);
    item.examples.push(example);
    item.thumbs.append(thumb);
  }
  remove(item) {
    const at = this.items.indexOf(item), data = this.dataOf(item);
    this.items.splice(at, 1);
    item.card.remove();
    this.limit();
    this.changed();
    tell(`${data.name} was removed.`, () => { this.add(data, at); this.changed(); });
  }
  limit() { if (this.adder) this.adder.hidden = this.items.length >= this.most; }
  images(item) { return item.examples.map((e) => e.image).concat(this.extra ? this.extra(item) : []); }
  // As a new task has them.
  classes() { return this.items.map((item) => ({ name: item.label, images: this.images(item) })).filter((c) => c.images.length); }
  get empty() { return this.items.every((item) => this.images(item).length === 0); }
  // As the browser keeps them.
  dataOf(item) { return { name: item.label, examples: item.examples.slice(), ...(this.more ? this.more(item) : {}) }; }
  data() { return this.items.map((item) => this.dataOf(item)); }
  load(data, least = 0) {
    this.items.splice(0).forEach((item) => item.card.remove());
    data.slice(0, this.most).forEach((one) => this.add(one));
    while (this.items.length < least) this.add();
    this.changed();
  }
}
