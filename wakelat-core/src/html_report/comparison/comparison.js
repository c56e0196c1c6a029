const { page, diff } = data;
const ARMS = ["base", "new"];
const ARM_COLORS = ["var(--c0)", "var(--c1)"];
const WORDS = { not_worse: "not worse", inconclusive: "inconclusive", worse: "worse" };

const isShare = (metric) => metric.startsWith("above(");
// A value of a metric in its unit.
const shown = (metric, value) => {
  if (value === null || value === undefined) return "–";
  if (isShare(metric)) return share(value, 1);
  return metric === "wait" ? `${time(value)}/s` : time(value);
};
const ratio = (value) => (value === null ? "–" : value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2));
const interval = (low, high, show) => {
  if (low === null && high === null) return "not limited";
  if (low === null) return `below ${show(high)}`;
  return high === null ? `above ${show(low)}` : `${show(low)} to ${show(high)}`;
};
const signed = (ns) => `${ns < 0 ? "−" : "+"}${time(Math.abs(ns))}/s`;
const verdictOf = (name) => (name ? element("span", { class: `verdict ${name}` }, WORDS[name]) : "–");
const percent = (part) => `${+(100 * part).toFixed(2)} %`;
const legend = (names) => element("ul", { class: "legend" }, ...names.map((name, at) => {
  const key = element("i");
  key.style.background = ARM_COLORS[at];
  return element("li", {}, key, name);
}));
const waitsOf = (arm) => sum(diff.groups.filter((group) => group.key.length === 0), (group) => group.waits[arm]);

const summary = () => {
  const arm = (at) => {
    const { runs, duration_ns } = diff[ARMS[at]];
    return `${ARMS[at]}: ${count(runs.length)} ${runs.length === 1 ? "run" : "runs"}, ${time(duration_ns)}, ${count(waitsOf(at))} waits`;
  };
  section("summary").append(element("p", {}, `${arm(0)}; ${arm(1)}.`), element("p", {}, `Intervals: ${page.method}.`));
};

const verdict = () => {
  const box = element("div", { class: `finding outcome ${page.outcome.replace(" ", "_")}` }, element("p", { class: "answer" }, page.verdict));
  if (page.reasons.length) box.append(element("ul", {}, ...page.reasons.map((reason) => element("li", {}, reason))));
  if (page.runs_needed) box.append(element("p", { class: "remedy" }, page.runs_needed));
  const notes = diff.notes.map((text) => element("p", { class: "warning" }, `Note: ${text}`));
  section("verdict").append(box, ...notes);
};

const overview = () => {
  const rows = diff.groups.map((group, at) => ({ ...group, at, name: page.groups[at].name }));
  const of = (row, name) => row.metrics.find(({ metric }) => metric === name);
  const change = (name) => ({
    name, value: (row) => of(row, name)?.ratio,
    show: (row) => (of(row, name)?.ratio ? `${ratio(of(row, name).ratio)} ×` : "–"),
  });
  const columns = [
    { name: "group", text: true, value: (row) => row.name, show: (row) => element("a", { href: `#group-${row.at}` }, row.name) },
    { name: "verdict", text: true, value: (row) => row.verdict, show: (row) => verdictOf(row.verdict) },
    { name: "waits, base", value: (row) => row.waits[0], show: (row) => count(row.waits[0]) },
    { name: "waits, new", value: (row) => row.waits[1], show: (row) => count(row.waits[1]) },
    ...["p50", "p90", "p99", "p99.9", "wait"].map(change),
  ];
  const left = diff.groups_left_out;
  section("overview").append(
    table("Groups: the ratio of new to base of each figure", columns, rows, { sort: null }).whole,
    ...(left ? [note(`${count(left)} other ${left === 1 ? "group is" : "groups are"} not compared: beyond --max-groups, not in each run, or with too few waits.`)] : []));
};

// The interval of each ratio on a logarithmic axis, and its margin.
const shifts = (group, name) => {
  const rows = group.metrics.filter((metric) => metric.ratio !== null);
  if (!rows.length) return null;
  const [left, right, top, row, bottom] = [90, 110, 22, 26, 24];
  const ends = rows.flatMap(({ ratio, low, high, margin }) => [ratio, low, high, margin === null ? null : 1 + margin]);
  const farthest = (of) => Math.max(Math.log(1.1), ...of.filter((end) => end > 0).map((end) => Math.abs(Math.log(end))));
  // Every ratio is on the axis; an interval may go on beyond it.
  const reach = Math.max(Math.min(Math.log(8), farthest(ends)), farthest(rows.map(({ ratio }) => ratio))) * 1.1;
  const x = (value) => left + ((WIDTH - left - right) * (Math.min(1, Math.max(-1, Math.log(value) / reach)) + 1)) / 2;
  const height = top + row * rows.length + bottom;
  return svg(height, `Ratio of new to base of ${name}, with intervals; the table has the same figures`, (add) => {
    const over = [1.05, 1.1, 1.25, 1.5, ...Array.from({ length: 20 }, (_, power) => 2 ** (power + 1))];
    const steps = [...over.map((step) => 1 / step).reverse(), 1, ...over];
    let last = -Infinity;
    for (const step of steps.filter((step) => Math.abs(Math.log(step)) <= reach)) {
      if (step !== 1 && (x(step) - last < 46 || Math.abs(x(step) - x(1)) < 46)) continue;
      last = x(step);
      add("line", { class: step === 1 ? "one" : "tick", x1: x(step), x2: x(step), y1: top - 4, y2: height - bottom });
      add("text", { x: x(step), y: height - bottom + 15, "text-anchor": "middle" }, `${+step.toPrecision(2)} ×`);
    }
    add("text", { x: left, y: 11 }, "◂ shorter in new");
    add("text", { x: WIDTH - right, y: 11, "text-anchor": "end" }, "longer in new ▸");
    rows.forEach((metric, at) => {
      const middle = top + row * at + row / 2;
      const ink = metric.verdict === "worse" ? "var(--c5)" : metric.verdict === "not_worse" ? "var(--c2)" : "var(--dim)";
      // An arrow at the edge: the interval goes on beyond it.
      const [low, high] = [metric.low, metric.high].map((end) => (end > 0 && Math.abs(Math.log(end)) <= reach ? end : null));
      const [from, to] = [low === null ? left : x(low), high === null ? WIDTH - right : x(high)];
      add("text", { class: "name", x: left - 10, y: middle + 4, "text-anchor": "end" }, metric.metric === "wait" ? "waiting time" : metric.metric);
      if (metric.margin !== null) {
        const bound = x(1 + metric.margin);
        add("rect", { class: "within", x: left, width: bound - left, y: middle - row / 2 + 1, height: row - 2 }, title(`margin ${percent(metric.margin)}`));
        add("line", { class: "mark", x1: bound, x2: bound, y1: middle - row / 2 + 1, y2: middle + row / 2 - 1 });
      }
      add("line", { x1: from, x2: to, y1: middle, y2: middle, stroke: ink, "stroke-width": 3 });
      [[low, from, -1], [high, to, 1]].forEach(([end, at, way]) => {
        if (end !== null) add("line", { x1: at, x2: at, y1: middle - 6, y2: middle + 6, stroke: ink, "stroke-width": 2 });
        else add("path", { d: `M ${at} ${middle} l ${-8 * way} -5 v 10 z`, fill: ink });
      });
      add("circle", { cx: x(metric.ratio), cy: middle, r: 5, fill: ink },
        title(`${metric.metric}: ${ratio(metric.ratio)} × (${interval(metric.low, metric.high, ratio)})`));
      add("text", { x: WIDTH - right + 10, y: middle + 4 }, `${ratio(metric.ratio)} ×`);
    });
  });
};

const metrics = (group, name) => {
  const level = percent(1 - group.level);
  return table(`Figures of ${name}`, [
    { name: "figure", text: true, value: (row) => row.metric },
    { name: "base", value: (row) => row.base, show: (row) => shown(row.metric, row.base) },
    { name: "new", value: (row) => row.new, show: (row) => shown(row.metric, row.new) },
    { name: "ratio", value: (row) => row.ratio, show: (row) => (row.ratio === null ? "not resolvable" : `${ratio(row.ratio)} ×`) },
    { name: `${level} interval`, text: true, value: (row) => row.low, show: (row) => (row.ratio === null ? "–" : interval(row.low, row.high, ratio)) },
    { name: "margin", value: (row) => row.margin, show: (row) => (row.margin === null ? "–" : percent(row.margin)) },
    { name: "verdict", text: true, value: (row) => row.verdict ?? "", show: (row) => verdictOf(row.verdict) },
  ], group.metrics, { sort: null }).whole;
};

const limits = (group, name) => (group.limits.length === 0 ? null : table(`Limits of ${name}`, [
  { name: "figure", text: true, value: (row) => row.metric },
  { name: "limit", value: (row) => row.limit, show: (row) => `below ${shown(row.metric, row.limit)}` },
  { name: "base", value: (row) => row.base, show: (row) => shown(row.metric, row.base) },
  { name: "new", value: (row) => row.new, show: (row) => shown(row.metric, row.new) },
  { name: "interval of new", text: true, value: (row) => row.low, show: (row) => interval(row.low, row.high, (end) => shown(row.metric, end)) },
  { name: "verdict", text: true, value: (row) => row.verdict, show: (row) => verdictOf(row.verdict) },
], group.limits, { sort: null }).whole);

const counts = (group, name) => {
  const perSecond = (rate) => `${rate >= 100 ? count(Math.round(rate)) : rate.toFixed(1)}/s`;
  const rows = [
    { what: "waits", values: group.waits, show: count },
    { what: group.class === "preempted" ? "preemptions" : "waits per second", values: group.waits_per_s, show: perSecond },
    ...(group.migrations_per_s ? [{ what: "migrations", values: group.migrations_per_s, show: perSecond }] : []),
    { what: "longest", values: group.max_ns, show: time },
  ];
  return table(`Not tested: ${name}`, [
    { name: "figure", text: true, value: (row) => row.what },
    ...ARMS.map((arm, at) => ({ name: arm, value: (row) => row.values[at], show: (row) => row.show(row.values[at]) })),
  ], rows, { sort: null }).whole;
};

const distribution = (group, { name, bins }) => {
  const totals = [0, 1].map((arm) => Math.max(1, sum(bins, (bin) => bin[arm + 1])));
  const from = (bin) => 2 ** (bin / 4);
  const [low, high] = [bins[0][0], bins[bins.length - 1][0] + 1];
  const parts = new Map(bins.map(([bin, ...waits]) => [bin, waits.map((waits, arm) => waits / totals[arm])]));
  const most = Math.max(...[...parts.values()].flat());
  const least = 0.5 / Math.max(...totals);
  const [left, right, top, bottom, height] = [64, 12, 8, 26, 240];
  const holder = element("figure");
  let logarithmic = false;
  const draw = () => {
    const x = (bin) => left + ((WIDTH - left - right) * (bin - low)) / (high - low);
    const y = (part) => {
      const at = logarithmic ? Math.log(Math.max(part, least) / least) / Math.log(most / least) : part / most;
      return height - bottom - (height - top - bottom) * at;
    };
    holder.replaceChildren(svg(height, `Distribution of the latency of ${name} in base and new; the table below has the same figures`, (add) => {
      const rows = logarithmic ? decades(1, most / least).map((step) => most / step) : [most / 2, most];
      for (const part of rows.slice(0, 6)) {
        add("line", { class: "tick", x1: left, x2: WIDTH - right, y1: y(part), y2: y(part) });
        add("text", { x: left - 6, y: y(part) + 4, "text-anchor": "end" }, share(part, 1));
      }
      for (const ns of decades(from(low), from(high))) {
        add("line", { class: "tick", x1: x(4 * Math.log2(ns)), x2: x(4 * Math.log2(ns)), y1: top, y2: height - bottom });
        add("text", { x: x(4 * Math.log2(ns)), y: height - bottom + 16, "text-anchor": "middle" }, time(ns));
      }
      ARMS.forEach((arm, at) => {
        let path = `M ${x(low)} ${height - bottom}`;
        for (let bin = low; bin < high; bin += 1) path += ` V ${y(parts.get(bin)?.[at] ?? 0).toFixed(1)} H ${x(bin + 1).toFixed(1)}`;
        add("path", { class: "arm", d: `${path} V ${height - bottom} Z`, fill: ARM_COLORS[at], stroke: ARM_COLORS[at] });
      });
      bins.forEach(([bin, ...waits]) =>
        add("rect", { class: "hover", x: x(bin), width: x(bin + 1) - x(bin), y: top, height: height - top - bottom },
          title(`${time(from(bin))} to ${time(from(bin + 1))}: ${ARMS.map((arm, at) => `${arm} ${count(waits[at])} waits, ${share(waits[at], totals[at])}`).join("; ")}`)));
      add("line", { class: "axis", x1: left, x2: WIDTH - right, y1: height - bottom, y2: height - bottom });
    }), legend(ARMS), element("figcaption", {}, `Share of each arm's waits in each quarter of a doubling of the latency, on a ${logarithmic ? "logarithmic" : "linear"} axis.`));
  };
  const axes = choice(["linear", "logarithmic"], (index) => { logarithmic = index === 1; draw(); });
  draw();
  const figures = table(`Distribution of ${name}`, [
    { name: "from", value: ([bin]) => from(bin), show: ([bin]) => time(from(bin)) },
    ...ARMS.flatMap((arm, at) => [
      { name: `${arm}, waits`, value: (row) => row[at + 1], show: (row) => count(row[at + 1]) },
      { name: `${arm}, share`, value: (row) => row[at + 1] / totals[at], show: (row) => share(row[at + 1], totals[at]) },
    ]),
  ], bins, { sort: null, limit: Infinity }).whole;
  return [axes, holder, element("details", {}, element("summary", {}, "Figures of the distribution"), figures)];
};

const causes = (group, name) => {
  if (!group.causes.length) return note("What these waits were for is not known: not all runs have events.");
  const most = Math.max(1, ...group.causes.flatMap((cause) => [cause.base_per_s, cause.new_per_s]));
  const bar = (ns, at) => {
    const made = element("span", { class: "bar", "aria-hidden": true });
    made.style.width = `${(7 * ns) / most}rem`;
    made.style.background = ARM_COLORS[at];
    return made;
  };
  const change = (row) => row.new_per_s - row.base_per_s;
  return table(`Causes of the waits of ${name}: waiting time per second, the one that changed most first`, [
    { name: "cause", text: true, value: (row) => row.name },
    { name: "change", value: change, show: (row) => signed(change(row)) },
    { name: "base", value: (row) => row.base_per_s, show: (row) => `${time(row.base_per_s)}/s` },
    { name: "new", value: (row) => row.new_per_s, show: (row) => `${time(row.new_per_s)}/s` },
    { name: "both", text: true, value: (row) => Math.max(row.base_per_s, row.new_per_s),
      show: (row) => element("span", { class: "pair" }, bar(row.base_per_s, 0), bar(row.new_per_s, 1)) },
  ], group.causes, { sort: null, limit: 10 }).whole;
};

const groups = () => {
  const place = section("groups");
  diff.groups.forEach((group, at) => {
    const { name } = page.groups[at];
    const drawing = shifts(group, name);
    const parts = [
      element("h3", {}, `${name} `, verdictOf(group.verdict)),
      drawing ? element("figure", {}, drawing, element("figcaption", {},
        `Ratio of new to base with its ${percent(1 - group.level)} interval. The shaded range is within the margin: worse is an interval wholly beyond it.`)) : null,
      metrics(group, name), limits(group, name), counts(group, name), causes(group, name), ...distribution(group, page.groups[at]),
    ];
    place.append(element("section", { id: `group-${at}`, class: "group" }, ...parts.filter(Boolean)));
  });
};

const trust = () => {
  const rows = page.runs.flatMap((runs, arm) => runs.map((run) => ({ ...run, arm: ARMS[arm] })));
  const columns = [
    { name: "arm", text: true, value: (row) => row.arm },
    { name: "run", text: true, value: (row) => row.source.file ?? "–" },
    { name: "waits", value: (row) => row.waits, show: (row) => count(row.waits) },
    { name: "duration", value: (row) => row.duration_ns, show: (row) => time(row.duration_ns) },
    { name: "lost", value: (row) => row.lost[0], show: (row) => count(row.lost[0]) },
    { name: "overhead", value: (row) => row.overhead, show: (row) => (row.overhead === null ? "–" : share(row.overhead, 1)) },
  ];
  // Arms whose runs were all measured in one way have one row.
  const facts = ARMS.flatMap((arm) => ["machine", "command_line", "labels"].flatMap((what) => {
    const texts = new Set(rows.filter((row) => row.arm === arm).map((row) => row.source[what]).filter(Boolean));
    return [...texts].map((text) => ({ arm, what: what.replace("_", " "), text }));
  }));
  const notes = diff.notes.length ? diff.notes.map((text) => element("p", { class: "warning" }, `${text}: this may be the reason for a change.`))
    : [element("p", {}, "The conditions of all runs that wakelat knows are equal.")];
  section("trust").append(...notes,
    table("Runs", columns, rows, { sort: null, limit: Infinity }).whole,
    table("How they were measured", [{ name: "arm", text: true, value: (row) => row.arm }, { name: "what", text: true, value: (row) => row.what },
      { name: "value", text: true, value: (row) => row.text }], facts, { sort: null, limit: Infinity }).whole,
    note(`Intervals: ${page.method}. The unit of the test is ${diff.unit === "runs" ? "the run" : "a block of intervals of one run, which says nothing about the next run"}; all intervals of a group hold at once.`),
    note(`wakelat ${page.version}; latency from ${rows[0]?.from ?? "–"}.`));
};

for (const show of [summary, verdict, overview, groups, trust]) show();
