// Elements of the page, made without HTML in strings.

/** Return an element with these attributes and children; texts become text, and nothing else. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

/** Return a list of terms with what is to be said of each; rows without a value are left out. */
export function facts(rows) {
  const shown = rows.filter(([, value]) => value !== undefined && value !== null);
  return make("dl", {}, ...shown.map(([term, ...value]) => make("div", {}, make("dt", {}, term), make("dd", {}, ...value))));
}

/** Return a table with a caption. */
export function table(caption, head, rows) {
  const cells = (tag, values, more) => values.map((value, i) => make(tag, more(i), ...[value].flat()));
  return make(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make(
      "table",
      {},
      make("caption", {}, caption),
      make("thead", {}, make("tr", {}, ...cells("th", head, () => ({ scope: "col" })))),
      make(
        "tbody",
        {},
        ...rows.map(({ cells: values, kind }) =>
          make("tr", { class: kind }, ...cells("td", values, (i) => ({ "data-head": head[i] }))),
        ),
      ),
    ),
  );
}

/** Put a file into the person's downloads. */
export function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** An answer that says what is wrong with the question, and in which field. */
export class Refusal extends Error {
  constructor(message, field) {
    super(message);
    this.field = field;
  }
}
