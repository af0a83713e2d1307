// A panel: fields on one side, the answer on the other, and ways to take it away.
import { ask } from "./ask.js";
import { csv, show } from "./chart.js";
import { make, Refusal, save } from "./elements.js";
import { Field } from "./fields.js";
import { newest } from "./newest.js";

const SLOW = 400; // milliseconds after which an answer that is still to come is said to be
const REST = 120; // milliseconds without a change, after which charts and tables follow

/** A panel of the page, from its description: name, title, about, question, fields, answer(facts, values), more. */
export class Panel {
  constructor(description, moved) {
    Object.assign(this, description);
    this.moved = moved;
    this.fields = description.fields.map((field) => new Field(this.name, field, () => this.changed()));
    this.form = make("form", { "aria-label": this.title, onsubmit: (event) => event.preventDefault() });
    this.form.append(...this.fields.map((field) => field.element));
    this.trouble = make("p", { class: "error", role: "alert" });
    this.output = make("div", { class: "answer", "aria-live": "polite" });
    this.charts = (description.more ?? []).map((more) => ({ ...more, holder: make("figure", { class: "more" }) }));
    this.actions = make("div", { class: "actions", role: "group", "aria-label": "Take it away" });
    this.element = make(
      "section",
      { id: this.name, role: "tabpanel", "aria-labelledby": `tab-${this.name}`, hidden: true },
      make("p", { class: "about" }, this.about),
      make("div", { class: this.fields.length ? "columns" : "" }, this.fields.length ? make("div", {}, this.form, this.actions) : null, make("div", { class: "said" }, this.trouble, this.output, ...this.charts.map(({ holder }) => holder))),
    );
    for (const [text, action] of [
      ["Copy Python", () => this.copyCode("python")],
      ["Copy command", () => this.copyCode("command")],
      ["Copy link", () => this.copy(location.href, "link")],
      ["SVG", () => this.saveChart("svg", "image/svg+xml", (chart) => this.file(chart))],
      ["CSV", () => this.saveChart("csv", "text/csv", (chart) => csv(chart.holder.querySelector("svg")))],
      ["JSON", () => this.facts && save(`${this.name}.json`, "application/json", JSON.stringify(this.facts, null, 2))],
    ]) {
      this.actions.append(make("button", { type: "button", onclick: action }, text));
    }
    this.run = newest(async (values, last) => this.answered(values, last));
  }

  /** The question as it stands: names and texts of the fields that have a part in it. */
  get values() {
    const all = Object.fromEntries(this.fields.map((field) => [field.name, field.value]));
    for (const field of this.fields) field.fit(all);
    const shown = this.fields.filter((field) => !field.element.hidden);
    const values = Object.fromEntries(shown.map((field) => [field.name, field.value]));
    return this.asked ? this.asked(values) : values;
  }

  /** The values of all fields that were changed, as they stand in the link. */
  get state() {
    const changed = this.fields.filter((field) => field.value !== field.initial);
    return new URLSearchParams(changed.map((field) => [field.name, field.value])).toString();
  }

  set state(text) {
    const given = new URLSearchParams(text);
    for (const field of this.fields) field.value = given.get(field.name) ?? field.initial;
    this.changed();
  }

  changed() {
    const values = this.values;
    this.moved(this);
    this.run(values);
  }

  async answered(values, last) {
    const slow = setTimeout(() => {
      if (this.facts) this.element.classList.add("stale");
      else this.output.replaceChildren(make("p", { class: "hint" }, "Computing …"));
    }, SLOW);
    try {
      const { body, ...rest } = values;
      const facts = this.question ? await ask(this.question, rest, body) : {};
      this.refuse("", null);
      this.facts = facts;
      this.output.replaceChildren(...this.answer(facts, values).filter(Boolean));
      this.element.classList.remove("stale");
      clearTimeout(this.rest);
      if (last()) this.rest = setTimeout(() => this.charts.forEach((chart) => this.follow(chart, values)), this.facts ? REST : 0);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.refuse(error.message, error.field);
    } finally {
      clearTimeout(slow);
    }
  }

  /** What follows once nothing moves: a chart or a table, each of its own question. */
  async follow(chart, values) {
    chart.run ??= newest(async (current) => {
      const asked = chart.ask(current, this.facts);
      if (!asked) return chart.holder.replaceChildren();
      try {
        const { question, body, ...rest } = asked;
        const answer = await ask(question, rest, body);
        chart.asked = asked;
        if (rest.as === "inline") show(chart.holder, answer);
        else chart.holder.replaceChildren(...chart.show(answer, current));
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        chart.holder.replaceChildren(make("p", { class: "hint" }, error.message));
      }
    });
    await chart.run(values);
  }

  /** Say what is wrong in the field that it is about, or above the answer. */
  refuse(message, name) {
    const field = this.fields.find((one) => one.name === name && !one.element.hidden);
    for (const one of this.fields) one.refuse(one === field ? message : "");
    this.trouble.textContent = field ? "" : message;
    if (message) this.element.classList.add("stale");
  }

  async copyCode(kind) {
    const { body, ...rest } = this.values;
    try {
      this.copy((await ask(this.question, { ...rest, as: "code" }, body))[kind], kind === "python" ? "Python" : "command");
    } catch (error) {
      this.say(error.message);
    }
  }

  async copy(text, what) {
    try {
      await navigator.clipboard.writeText(text);
      this.say(`Copied: ${what}`);
    } catch {
      this.say(text);
    }
  }

  async saveChart(ending, type, text) {
    const chart = this.charts.find(({ holder }) => holder.querySelector("svg"));
    if (chart) save(`${this.name}.${ending}`, type, await text(chart));
    else this.say("There is no chart yet.");
  }

  /** Return a chart as a file that needs nothing else. */
  file({ asked: { question, body, ...rest } }) {
    return ask(question, { ...rest, as: "svg" }, body);
  }

  say(text) {
    document.getElementById("state").textContent = text;
  }
}
