// The waits by stack: a flame graph whose root is at the top. A click shows only the stacks with a frame.
const stacks = () => {
  if (!page.stacks) return;
  const place = element("section", { id: "stacks" }, element("h2", {}, "Stacks"));
  section("waits").before(place);
  document.querySelector('nav a[href="#waits"]').before(element("a", { href: "#stacks" }, "Stacks"));
  const node = (name, parent) => ({ name, parent, ns: 0, inner: new Map() });
  const root = node("all waits", null);
  for (const [ns, frames] of page.stacks) {
    let at = root;
    at.ns += ns;
    for (const frame of frames) {
      const name = page.names[frame];
      if (!at.inner.has(name)) at.inner.set(name, node(name, at));
      at = at.inner.get(name);
      at.ns += ns;
    }
  }
  const ROW = 18;
  const holder = element("figure");
  const found = element("span", { role: "status" });
  let [shown, words] = [root, ""];
  const depth = (at) => 1 + Math.max(0, ...[...at.inner.values()].map(depth));
  const matches = (at) => words !== "" && at.name.toLowerCase().includes(words);
  // Each wait once, however often a word is on its stack.
  const matched = (at) => (matches(at) ? at.ns : sum([...at.inner.values()], matched));
  const hue = (name) => [...name].reduce((hash, letter) => (hash * 31 + letter.codePointAt(0)) % 997, 7) % 3;
  const draw = () => {
    const path = [];
    for (let at = shown.parent; at; at = at.parent) path.unshift(at);
    const height = ROW * (path.length + depth(shown)) + 4;
    holder.replaceChildren(svg(height, "Flame graph of the waits by stack; the table below has the same figures", (add) => {
      const frame = (at, row, x, width) => {
        const label = `${at.name}: ${time(at.ns)}, ${share(at.ns, root.ns)}`;
        const choose = (event) => {
          if (event.key && event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          shown = at;
          draw();
          holder.querySelector(`[data-row="${row}"]`)?.focus();
        };
        const ink = matches(at) ? "var(--c4)" : ["var(--c1)", "var(--c5)", "var(--c3)"][hue(at.name)];
        add("rect", { "data-cell": "", "data-row": row, "data-ns": at.ns, tabindex: 0, role: "button", "aria-label": label, x, y: ROW * row,
          width: Math.max(0.5, width - 0.5), height: ROW - 1, fill: ink, "fill-opacity": row < path.length ? 0.35 : matches(at) ? 1 : 0.75,
          on: { click: choose, keydown: choose } }, title(label));
        const letters = Math.floor((width - 6) / 7.2);
        if (letters >= 3) {
          add("text", { class: "frame", x: x + 4, y: ROW * row + 13 }, at.name.length > letters ? `${at.name.slice(0, letters - 1)}…` : at.name);
        }
      };
      const below = (at, row, x, width) => {
        frame(at, row, x, width);
        let left = x;
        for (const inner of [...at.inner.values()].sort((a, b) => b.ns - a.ns)) {
          const wide = (width * inner.ns) / at.ns;
          if (wide >= 0.5) below(inner, row + 1, left, wide);
          left += wide;
        }
      };
      path.forEach((at, row) => frame(at, row, 0, WIDTH));
      below(shown, path.length, 0, WIDTH);
    }));
    found.textContent = words === "" ? "" : `${share(matched(root), root.ns)} of the waiting time has it on a stack.`;
  };
  const input = search("Search functions", (next) => { words = next; draw(); });
  draw();
  const columns = [
    { name: "stack, the outermost function first", text: true, value: (row) => row.text },
    { name: "waiting time", value: (row) => row.ns, show: (row) => time(row.ns) },
    { name: "share", value: (row) => row.ns, show: (row) => share(row.ns, root.ns) },
  ];
  const rows = page.stacks.map(([ns, frames]) => ({ ns, text: frames.map((frame) => page.names[frame]).join(" › ") }));
  place.append(
    note("The stacks with which tasks left their CPU, and after “--” the stacks of their wakers, the innermost function first. A frame is as wide as the waits with it are long; select one to see only these."),
    element("div", { class: "controls" }, input, button("Show all", false, () => { shown = root; draw(); }), found), holder,
    element("details", {}, element("summary", {}, "Figures of the stacks"), table("Waits by stack", columns, rows, { sort: 1, limit: 20 }).whole));
};

