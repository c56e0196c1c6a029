const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 960;
const COLORS = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7"];
const CLASS_NAMES = { wakeup: "wakeups", new: "new tasks", preempted: "preempted tasks", runqueue: "all classes" };

// Text is only ever set as text, so a task's name cannot become markup.
const element = (name, attributes = {}, ...children) => {
  const made = name === "svg" || element.inSvg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};
const svg = (height, label, draw) => {
  element.inSvg = true;
  const made = element("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label });
  const add = (name, attributes, ...children) => made.appendChild(element(name, attributes, ...children));
  draw(add);
  element.inSvg = false;
  return made;
};
const title = (text) => element("title", {}, text);
const section = (id) => document.getElementById(id);
const note = (text) => element("p", { class: "note" }, text);

// As in the text views: three digits, and the unit that fits.
const time = (ns) => {
  if (ns === null || ns === undefined) return "–";
  const units = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
  const [unit, size] = units.find(([, size]) => ns >= size) ?? units[3];
  const value = ns / size;
  return `${size === 1 ? +value.toFixed(1) : value.toFixed(value < 10 ? 2 : 1)} ${unit}`;
};
const count = (n) => n.toLocaleString("en");
const share = (part, whole) => {
  if (!(whole > 0)) return "–";
  const percent = (100 * part) / whole;
  return percent > 0 && percent < 0.05 ? "<0.1 %" : `${percent.toFixed(1)} %`;
};
const sum = (list, of = (x) => x) => list.reduce((total, item) => total + of(item), 0);
const color = (index) => `var(${COLORS[Math.min(index, COLORS.length - 1)]})`;

const button = (text, pressed, press) =>
  element("button", { type: "button", "aria-pressed": pressed, on: { click: press } }, text);
// Buttons; exactly one is pressed. `changed` gets its index.
const choice = (labels, changed) => {
  const buttons = labels.map((label, index) =>
    button(label, index === 0, () => {
      buttons.forEach((other, at) => other.setAttribute("aria-pressed", at === index));
      changed(index);
    }));
  return element("div", { class: "controls" }, ...buttons);
};

// A table whose columns sort by a click; with `sort: null`, rows are in their order at first. Columns: { name, value(row),
// show?(row), text? }. A cell that shows a rounded number has the exact one in `data-value`.
const table = (caption, columns, rows, { sort = 0, limit = 50, row: decorate } = {}) => {
  const body = element("tbody");
  const more = element("p", { class: "note" });
  let [by, descending, shown, found] = [sort, sort !== null && !columns[sort].text, limit, rows];
  const heads = columns.map((column, index) =>
    element("th", { scope: "col", class: column.text ? "text" : null },
      element("button", { type: "button", on: { click: () => {
        descending = by === index ? !descending : !column.text;
        by = index;
        fill();
      } } }, column.name)));
  const fill = () => {
    const key = by === null ? () => 0 : columns[by].value;
    const sorted = [...found].sort((a, b) => {
      const [x, y] = [key(a) ?? -Infinity, key(b) ?? -Infinity];
      return (x < y ? -1 : x > y ? 1 : 0) * (descending ? -1 : 1);
    });
    heads.forEach((head, index) =>
      index === by ? head.setAttribute("aria-sort", descending ? "descending" : "ascending") : head.removeAttribute("aria-sort"));
    body.replaceChildren(...sorted.slice(0, shown).flatMap((row) => {
      const cells = columns.map((column) =>
        element("td", { class: column.text ? "text" : null, "data-value": column.show && !column.text ? column.value(row) : null },
          (column.show ?? column.value)(row)));
      const line = element("tr", {}, ...cells);
      return decorate ? decorate(line, row, columns.length) : [line];
    }));
    more.replaceChildren();
    if (found.length > shown) {
      more.append(`${count(shown)} of ${count(found.length)} rows. `,
        button("Show all", false, () => { shown = Infinity; fill(); }));
    }
  };
  const filter = (accepts) => {
    found = rows.filter(accepts);
    fill();
  };
  fill();
  const whole = element("div", {}, element("div", { class: "scroll" },
    element("table", {}, element("caption", {}, caption), element("thead", {}, element("tr", {}, ...heads)), body)), more);
  return { whole, filter };
};
const search = (label, changed) => {
  const input = element("input", { type: "search", "aria-label": label, placeholder: label });
  input.addEventListener("input", () => changed(input.value.toLowerCase()));
  return input;
};

// The x axis of latencies: powers of ten.
const decades = (from, to) => {
  const ticks = [];
  for (let ns = 1; ns <= to * 1.0001; ns *= 10) if (ns >= from * 0.9999) ticks.push(ns);
  return ticks;
};

const theme = section("theme");
theme.addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
