// Fields: a typed number with a slider, a choice, a text; each says by itself what is wrong with it.
import { make } from "./elements.js";
import { count, typed } from "./numbers.js";

const STEPS = 600;

/** A field of a panel. `value` is the text that is asked with; `change` is called when it is another. */
export class Field {
  constructor(panel, { name, label, hint, kind = "number", low, high, whole, value = "", options, when }, change) {
    Object.assign(this, { name, kind, low, high, whole, when, change, initial: String(value) });
    const id = `${panel}-${name}`;
    const shared = { id, name, "aria-describedby": `${id}-hint ${id}-error` };
    if (kind === "choice") {
      this.input = make("select", shared, ...options.map(([key, text]) => make("option", { value: key }, text)));
    } else if (kind === "lines") {
      this.input = make("textarea", { ...shared, rows: 6, spellcheck: "false" });
    } else {
      const mode = kind === "number" ? "decimal" : "text";
      this.input = make("input", { ...shared, type: kind === "day" ? "date" : "text", inputmode: mode, autocomplete: "off" });
    }
    this.input.addEventListener("input", () => this.moved());
    if (low !== undefined) {
      const attributes = { type: "range", min: 0, max: STEPS, step: 1, "aria-label": `${label}, slider` };
      this.slider = make("input", { ...attributes, oninput: () => this.slid() });
    }
    this.error = make("p", { id: `${id}-error`, class: "error" });
    this.element = make(
      "div",
      { class: "field" },
      make("label", { for: id }, label),
      this.input,
      this.slider,
      make("p", { id: `${id}-hint`, class: "hint" }, hint ?? ""),
      this.error,
    );
    this.value = value;
  }

  get value() {
    return this.input.value.trim();
  }

  set value(value) {
    this.input.value = value;
    this.follow();
  }

  /** What was typed: the slider goes there, and the answer follows. */
  moved() {
    this.follow();
    this.change();
  }

  /** What was slid: the typed field has it, with as many digits as a slider can mean. */
  slid() {
    const part = Number(this.slider.value) / STEPS;
    const value = Math.exp(Math.log(this.low) + part * (Math.log(this.high) - Math.log(this.low)));
    if (this.whole) this.input.value = String(value < 1000 ? Math.round(value) : Number(value.toPrecision(3)));
    else this.input.value = String(Number(value.toPrecision(3)));
    this.describe();
    this.change();
  }

  follow() {
    if (!this.slider) return;
    const part = Math.log(typed(this.input.value) / this.low) / Math.log(this.high / this.low);
    if (Number.isFinite(part)) this.slider.value = String(Math.round(STEPS * Math.min(Math.max(part, 0), 1)));
    this.describe();
  }

  describe() {
    const value = typed(this.input.value);
    const text = this.whole && Number.isInteger(value) ? count(value) : this.input.value;
    this.slider.setAttribute("aria-valuetext", text);
  }

  /** Say what is wrong, or that nothing is. */
  refuse(message) {
    this.error.textContent = message;
    this.input.setAttribute("aria-invalid", String(message !== ""));
  }

  /** Show the field only where it has a part in the question. */
  fit(values) {
    this.element.hidden = this.when !== undefined && !this.when(values);
  }
}
