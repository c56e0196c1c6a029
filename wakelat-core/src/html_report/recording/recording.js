const { page, hist, why } = data;
const clock = (offset_ns) => new Date((page.start_unix_ns + offset_ns) / 1e6).toISOString().slice(11, 23);

const KINDS = { irq: "IRQ", vector: "IRQ", softirq: "softirq", idle: "C-state" };
const actor = (of) => {
  const name = of.name ?? of.cgroup ?? of.kind;
  if (of.kind === "task") return `${name}${of.tid !== null ? `/${of.tid}` : ""}${of.is_own ? " (wakelat's own)" : ""}`;
  return of.kind in KINDS ? `${KINDS[of.kind]} ${name}` : name;
};
const titles = new Map(page.components.map(({ id, name }) => [id, name]));
const componentTitle = (id) => titles.get(id) ?? id;

const summary = () => {
  const waits = sum(why.classes, (of) => of.count);
  const longest = Math.max(0, ...why.classes.map((of) => of.max_ns));
  const where = page.sources.map((source) => source.machine).filter(Boolean).join("; ");
  section("summary").append(
    element("p", {}, `${count(waits)} waits of ${time(sum(why.classes, (of) => of.sum_ns))} in total; the longest took ${time(longest)}.`),
    element("p", {}, `${time(why.duration_ns)} from ${new Date(page.start_unix_ns / 1e6).toISOString().replace("T", " ").slice(0, 19)} UTC. ${where}`));
};

const findings = () => {
  const all = why.findings.map((finding) =>
    element("div", { class: "finding" }, element("p", {}, finding.evidence),
      finding.remedy ? element("p", { class: "remedy" }, `Remedy: ${finding.remedy}`) : null));
  section("findings").append(...(all.length ? all : [element("p", {}, "No cause stands out.")]));
};

// Four to a doubling: the buckets of the report are too fine to draw. Each goes where its lower bound lies.
const bins = (buckets) => {
  const waits = new Map();
  for (const { from_ns, count: more } of buckets) {
    const bin = Math.floor(4 * Math.log2(Math.max(1, from_ns)) + 1e-9);
    waits.set(bin, (waits.get(bin) ?? 0) + more);
  }
  return [...waits].sort(([a], [b]) => a - b).map(([bin, found]) => ({ from: 2 ** (bin / 4), to: 2 ** ((bin + 1) / 4), waits: found }));
};

const distribution = () => {
  const place = section("distribution");
  const all = hist.groups.filter((of) => of.count > 0);
  if (!all.length) return place.append(element("p", {}, "There are no waits."));
  const holder = element("figure");
  let [of, logarithmic] = [all[0], true];
  const draw = () => {
    const bars = bins(of.buckets);
    const [low, high] = [bars[0].from, bars[bars.length - 1].to];
    const [left, right, top, bottom, height] = [56, 12, 24, 30, 300];
    const x = (ns) => left + ((WIDTH - left - right) * Math.log(ns / low)) / Math.log(high / low);
    const most = Math.max(...bars.map((bar) => bar.waits));
    const least = 0.5;
    const y = (value) => {
      const part = logarithmic ? Math.log(value / least) / Math.log(most / least) : value / most;
      return height - bottom - (height - top - bottom) * part;
    };
    const label = `Distribution of the latency of ${CLASS_NAMES[of.class]}: ${count(of.count)} waits, median ${time(of.percentiles_ns["50"])}, longest ${time(of.max_ns)}`;
    holder.replaceChildren(svg(height, label, (add) => {
      for (const ns of decades(low, high)) {
        add("line", { class: "tick", x1: x(ns), x2: x(ns), y1: top, y2: height - bottom });
        add("text", { x: x(ns), y: height - bottom + 16, "text-anchor": "middle" }, time(ns));
      }
      bars.forEach((bar) =>
        add("rect", { class: "column", x: x(bar.from), y: y(bar.waits), width: Math.max(1, x(bar.to) - x(bar.from) - 0.3),
          height: height - bottom - y(bar.waits) }, title(`${time(bar.from)} to ${time(bar.to)}: ${count(bar.waits)} waits`)));
      add("line", { class: "axis", x1: left, x2: WIDTH - right, y1: height - bottom, y2: height - bottom });
      Object.entries(of.percentiles_ns).forEach(([percent, ns], index) => {
        if (ns < low) return;
        add("line", { class: "mark", x1: x(ns), x2: x(ns), y1: top - 4, y2: height - bottom });
        add("text", { class: "marked", x: x(ns), y: 10 + 10 * (index % 2), "text-anchor": "middle" }, `p${percent}`);
      });
    }), element("figcaption", {}, `Waits in each quarter of a doubling of the latency, on a ${logarithmic ? "logarithmic" : "linear"} axis.`));
  };
  const classes = choice(all.map((each) => CLASS_NAMES[each.class]), (index) => { of = all[index]; draw(); });
  const axes = choice(["logarithmic", "linear"], (index) => { logarithmic = index === 0; draw(); });
  draw();
  const columns = [
    { name: "class", text: true, value: (row) => CLASS_NAMES[row.class] },
    { name: "waits", value: (row) => row.count, show: (row) => count(row.count) },
    { name: "sum", value: (row) => row.sum_ns, show: (row) => time(row.sum_ns) },
    ...["50", "90", "99", "99.9"].map((percent) => ({
      name: `p${percent}`, value: (row) => row.percentiles_ns[percent] ?? 0, show: (row) => time(row.percentiles_ns[percent]) })),
    { name: "longest", value: (row) => row.max_ns, show: (row) => time(row.max_ns) },
  ];
  place.append(element("div", { class: "controls" }, classes, axes), holder, table("Latency by class", columns, all, { sort: 1 }).whole);
};

const { intervals } = page;
const [LEFT, RIGHT, BOTTOM] = [64, 12, 24];
const column = (index) => LEFT + ((WIDTH - LEFT - RIGHT) * index) / intervals;
const timeAxis = (add, height) => {
  const step = Math.ceil(intervals / 8);
  for (let index = 0; index <= intervals; index += step) {
    add("text", { x: column(index), y: height - 8, "text-anchor": index === 0 ? "start" : index > intervals - step / 2 ? "end" : "middle" }, `+${time(index * page.interval_ns)}`);
  }
};

// Set by the list of waits: they show the waits of a cell of the heat map, and the waits with a word.
let [selectWaits, searchWaits] = [() => {}, () => {}];
const overTime = () => {
  const place = section("over-time");
  if (!page.cells.length) return place.append(element("p", {}, "There are no waits."));
  const rows = page.cells.map(([, row]) => row);
  const [low, high] = [Math.min(...rows), Math.max(...rows)];
  const [top, cell] = [8, 16];
  const height = top + cell * (high - low + 1) + BOTTOM;
  const most = Math.max(...page.cells.map(([, , waits]) => waits));
  let chosen = null;
  const map = svg(height, "Heat map of waits by time and latency; the table of waits has the same figures", (add) => {
    for (let row = low; row <= high; row += Math.ceil((high - low + 1) / 12)) {
      add("text", { x: LEFT - 6, y: top + cell * (high - row) + cell - 3, "text-anchor": "end" }, time(2 ** row));
    }
    for (const [index, row, waits] of page.cells) {
      const opacity = 0.12 + 0.88 * (Math.log1p(waits) / Math.log1p(most));
      const [from, to] = [2 ** row, 2 ** (row + 1)];
      const what = `${clock(index * page.interval_ns)}: ${count(waits)} waits of ${time(from)} to ${time(to)}`;
      const choose = (event) => {
        if (event.key && event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        chosen?.classList.remove("chosen");
        chosen = event.currentTarget;
        chosen.classList.add("chosen");
        selectWaits({ from_ns: index * page.interval_ns, to_ns: (index + 1) * page.interval_ns, low: row === 0 ? 0 : from, high: to, what });
      };
      add("rect", { "data-cell": "", tabindex: 0, role: "button", "aria-label": what, x: column(index), width: Math.max(1, column(index + 1) - column(index) - 0.5),
        y: top + cell * (high - row), height: cell - 0.5, fill: "var(--c5)", "fill-opacity": opacity.toFixed(3), on: { click: choose, keydown: choose } }, title(what));
    }
    timeAxis(add, height);
  });
  place.append(note("Each cell is an interval and a range of latencies; the stronger its colour, the more waits. Select a cell to see its waits."), element("figure", {}, map));
};

const causes = () => {
  const place = section("causes");
  const totals = page.components.map(({ name, ns }) => ({ name, ns, total: sum(ns) })).filter(({ total }) => total > 0);
  totals.sort((a, b) => b.total - a.total);
  if (!totals.length) return place.append(element("p", {}, "There are no waits."));
  const parts = totals.slice(0, COLORS.length);
  const [top, height] = [8, 260];
  const stacks = Array.from({ length: intervals }, (_, index) => sum(parts, (part) => part.ns[index] ?? 0));
  const most = Math.max(...stacks);
  const y = (ns) => (height - top - BOTTOM) * (ns / most);
  const chart = svg(height, "Waiting time by cause over time, stacked; the table below has the sums", (add) => {
    for (const part of [0.5, 1]) {
      const at = height - BOTTOM - y(most * part);
      add("line", { class: "tick", x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at });
      add("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, time(most * part));
    }
    for (let index = 0; index < intervals; index += 1) {
      let below = height - BOTTOM;
      parts.forEach((part, at) => {
        const ns = part.ns[index] ?? 0;
        if (ns === 0) return;
        below -= y(ns);
        add("rect", { x: column(index), width: Math.max(1, column(index + 1) - column(index) - 0.5), y: below, height: y(ns), fill: color(at) },
          title(`${clock(index * page.interval_ns)}: ${part.name} ${time(ns)}`));
      });
    }
    timeAxis(add, height);
  });
  const legend = element("ul", { class: "legend" }, ...parts.map((part, at) => {
    const key = element("i");
    key.style.background = color(at);
    return element("li", {}, key, part.name);
  }));
  const whole = sum(totals, ({ total }) => total);
  const columns = [
    { name: "cause", text: true, value: (row) => row.name },
    { name: "sum", value: (row) => row.total, show: (row) => time(row.total) },
    { name: "share", value: (row) => row.total, show: (row) => share(row.total, whole) },
  ];
  place.append(element("figure", {}, chart, legend), table("Waiting time by cause; the parts of each wait add up to its latency", columns, totals, { sort: 1 }).whole);
};

const groups = () => {
  const place = section("groups");
  const names = Object.keys(why.groups[0]?.key ?? {});
  if (!names.length) return place.append(element("p", {}, "There are no waits."));
  const whole = sum(why.groups, (group) => group.sum_ns);
  const main = (group) => [...group.components].sort((a, b) => b.sum_ns - a.sum_ns)[0];
  const bar = (group) => {
    const made = element("span", { class: "bar", "aria-hidden": true });
    made.style.width = `${(6 * group.sum_ns) / Math.max(1, whole)}rem`;
    return element("span", {}, made, ` ${share(group.sum_ns, whole)}`);
  };
  const select = (row) => element("button", { type: "button", on: { click: () =>
    searchWaits(String(row.key.comm ?? row.key[names[0]] ?? "")) } }, "waits");
  const columns = [
    ...names.map((name) => ({ name, text: true, value: (row) => String(row.key[name] ?? "–") })),
    { name: "class", text: true, value: (row) => CLASS_NAMES[row.class] },
    { name: "waits", value: (row) => row.count, show: (row) => count(row.count) },
    { name: "sum", value: (row) => row.sum_ns, show: (row) => time(row.sum_ns) },
    { name: "share", value: (row) => row.sum_ns, show: bar },
    { name: "longest", value: (row) => row.max_ns, show: (row) => time(row.max_ns) },
    { name: "mostly", text: true, value: (row) => main(row)?.component ?? "", show: (row) => (main(row) ? `${componentTitle(main(row).component)} ${share(main(row).sum_ns, row.sum_ns)}` : "–") },
    { name: "show", text: true, value: (row) => row.key.comm ?? "", show: select },
  ];
  const made = table("Groups and what they waited for", columns, why.groups, { sort: names.length + 2 });
  const text = (row) => [...names.map((name) => row.key[name]), row.class].join(" ").toLowerCase();
  place.append(element("div", { class: "controls" }, search("Search groups", (words) => made.filter((row) => text(row).includes(words)))), made.whole);
};

const culprits = () => {
  const whole = sum(why.classes, (of) => of.sum_ns);
  const columns = [
    { name: "task or interrupt", text: true, value: actor },
    { name: "cgroup", text: true, value: (row) => row.cgroup ?? "–" },
    { name: "made others wait", value: (row) => row.sum_ns, show: (row) => time(row.sum_ns) },
    { name: "share", value: (row) => row.sum_ns, show: (row) => share(row.sum_ns, whole) },
    { name: "at most", value: (row) => row.max_ns, show: (row) => time(row.max_ns) },
    { name: "waits", value: (row) => row.waits, show: (row) => count(row.waits) },
    { name: "victims", value: (row) => row.victims, show: (row) => `${row.victims}${row.more_victims ? "+" : ""}` },
  ];
  section("culprits").append(table("What ran while others waited", columns, why.interferers, { sort: 2, limit: 20 }).whole);
};

// What happened during one wait: a bar for each of its parts.
const timeline = (wait) => {
  const [left, row, top] = [230, 20, 4];
  const drawn = wait.shares.filter((part) => part.spans.length > 0);
  const height = top + row * drawn.length + 22;
  const x = (ns) => left + ((WIDTH - left - 16) * ns) / wait.latency_ns;
  return svg(height, `Timeline of a wait of ${time(wait.latency_ns)}`, (add) => {
    drawn.forEach((part, index) => {
      const y = top + row * index;
      const name = part.culprit ?? part.component;
      add("text", { x: 0, y: y + 13 }, name.length > 34 ? `${name.slice(0, 33)}…` : name);
      for (const [from, to] of part.spans) {
        add("rect", { x: x(from), y: y + 2, width: Math.max(1, x(to) - x(from)), height: row - 5, fill: color(index) },
          title(`${part.component}, ${name}: ${time(part.ns)}`));
      }
    });
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      add("text", { x: x(wait.latency_ns * part), y: height - 6, "text-anchor": part === 1 ? "end" : "middle" }, time(Math.round(wait.latency_ns * part)));
    }
  });
};

const waits = () => {
  const place = section("waits");
  const name = (index) => (index === null ? null : page.names[index]);
  const shares = ([component, culprit, ns, spans]) => ({ component: name(component), culprit: name(culprit), ns, spans });
  const timeLines = new Map(page.time_lines.map((line) => [line.row, line.shares.map(shares)]));
  const rows = page.waits.map(([offset_ns, latency_ns, of, tid, comm, cgroup, cpu, component, culprit], row) => ({
    offset_ns, latency_ns, class: page.class_names[of], tid, comm: name(comm), cgroup: name(cgroup), cpu,
    component: name(component), culprit: name(culprit), shares: timeLines.get(row),
  }));
  const columns = [
    { name: "ended", text: true, value: (row) => row.offset_ns, show: (row) => clock(row.offset_ns) },
    { name: "latency", value: (row) => row.latency_ns, show: (row) => time(row.latency_ns) },
    { name: "class", text: true, value: (row) => row.class },
    { name: "task", text: true, value: (row) => `${row.comm}/${row.tid}` },
    { name: "CPU", value: (row) => row.cpu },
    { name: "cgroup", text: true, value: (row) => row.cgroup ?? "–" },
    { name: "mostly", text: true, value: (row) => [row.component, row.culprit].filter(Boolean).join(": ") },
  ];
  const decorate = (line, row, width) => {
    if (!row.shares) return [line];
    const detail = element("tr", { hidden: "" }, element("td", { colspan: width, class: "text" }));
    const toggle = button("timeline", false, () => {
      const opens = detail.hidden;
      detail.hidden = !opens;
      toggle.setAttribute("aria-pressed", opens);
      if (opens) detail.firstChild.replaceChildren(timeline(row), parts(row));
    });
    line.lastChild.append(" ", toggle);
    return [line, detail];
  };
  const parts = (wait) => table(`Parts of the wait of ${wait.comm}/${wait.tid}`, [
    { name: "part", text: true, value: (row) => row.component },
    { name: "task, interrupt or cgroup", text: true, value: (row) => row.culprit ?? "–" },
    { name: "time", value: (row) => row.ns, show: (row) => `${count(row.ns)} ns` },
    { name: "share", value: (row) => row.ns, show: (row) => share(row.ns, wait.latency_ns) },
  ], wait.shares, { sort: 2 }).whole;
  const made = table("Waits; the longest have a timeline", columns, rows, { sort: 1, limit: 25, row: decorate });
  const selected = element("span");
  let [words, cell] = ["", null];
  const accept = () => made.filter((row) =>
    (!cell || (row.offset_ns >= cell.from_ns && row.offset_ns < cell.to_ns && row.latency_ns >= cell.low && row.latency_ns < cell.high)) &&
    (!words || `${row.comm}/${row.tid} ${row.cgroup} ${row.component} ${row.culprit}`.toLowerCase().includes(words)));
  selectWaits = (next) => {
    cell = next;
    selected.replaceChildren(`${next.what} `, button("Show all", false, () => { cell = null; selected.replaceChildren(); accept(); }));
    accept();
    place.scrollIntoView();
  };
  const searched = search("Search waits", (next) => { words = next; accept(); });
  searchWaits = (next) => {
    [searched.value, words] = [next, next.toLowerCase()];
    accept();
    place.scrollIntoView();
  };
  const left = page.waits_left_out > 0 ? note(`The longest waits, and the longest of each group; ${count(page.waits_left_out)} others are only in the figures above.`) : null;
  place.append(...[left].filter(Boolean), element("div", { class: "controls" }, searched, selected), made.whole);
};

const trust = () => {
  const place = section("trust");
  for (const line of page.coverage) place.append(element("p", { class: line.startsWith("!") ? "warning" : null }, line));
  const { coverage } = why;
  const rows = [["wakeups", coverage], ["preemptions", coverage.preemptions]].filter(([, terms]) => terms).flatMap(([of, terms]) =>
    Object.entries(terms).filter(([, value]) => typeof value === "number" && value > 0).map(([term, value]) => ({ of, term, value })));
  const columns = [
    { name: "of", text: true, value: (row) => row.of },
    { name: "term", text: true, value: (row) => row.term.replaceAll("_", " ") },
    { name: "count", value: (row) => row.value, show: (row) => count(row.value) },
  ];
  const facts = page.sources.flatMap((source) => [
    ["recording", source.file], ["machine", source.machine], ["command line", source.command_line], ["labels", source.labels], ["written because of", source.trigger],
  ].filter(([, text]) => text).map(([what, text]) => ({ what, text })));
  place.append(
    table("What became of every wakeup and preemption", columns, rows, { sort: 2, limit: Infinity }).whole,
    table("How it was measured", [{ name: "what", text: true, value: (row) => row.what }, { name: "value", text: true, value: (row) => row.text }], facts, { limit: Infinity }).whole,
    note(`wakelat ${page.version}; latency from ${why.from}.`));
};

for (const show of [summary, findings, distribution, overTime, causes, groups, culprits, waits, stacks, trust]) show();
