"use strict";
// The charts of a report: accuracy over the stream, by corruption and against cost, and estimates.
const STEP = 0.035, LABELS = 18, BAND = 14;  // distance of rows of marks; maximum labels of dots; pixels per name
const SHAPES = { reset: "dash", "undone step": "x" };
const highest = Math.max(0.1, ...data.panels.flatMap((p) => p.curves).flatMap((c) => c.values)) * 1.06;
const flat = (several) => ({
  x: several.flatMap((c) => c.images), y: several.flatMap((c) => c.values),
  method: several.flatMap((c) => c.images.map(() => c.method)),
});

// The curves of one stream of a panel, or the means over all streams (-1).
function curvesOf(panel, stream) {
  if (stream < 0) return panel.curves;
  return panel.curves.flatMap(({ method, each }) =>
    each.filter((one) => one.place === stream).map((one) => ({ ...one, method, runs: 1, sd: null })));
}

function drawPanel(panel, stream, chart) {
  const curves = curvesOf(panel, stream);
  const alone = panel.streams.length === 1 ? 0 : stream;
  const marks = panel.marks.filter((mark) => alone < 0 || mark.place === alone);
  const rows = [...new Set(marks.map((mark) => mark.method))];
  const bands = alone < 0 ? [] : panel.streams[alone].bands, plain = bands.filter(([, , name]) => !name.includes("+"));
  const named = plain.length > 1 && chart.clientWidth > BAND * plain.length, top = highest * (named ? 1.4 : 1);
  const below = -STEP * (rows.length + 0.8);
  const fig = figure({ height: named ? 340 : 290, y_range: new B.Range1d({ start: below, end: top }) });
  drawBands(fig, bands, top);
  if (named) drawNames(fig, plain, top);
  const banded = curves.filter((c) => c.runs > 1);
  const sd = ofMethods({
    xs: banded.map((c) => [...c.images, ...c.images.toReversed()]),
    ys: banded.map((c) => [...c.values.map((v, n) => v + c.sd[n]), ...c.values.map((v, n) => v - c.sd[n]).toReversed()]),
    method: banded.map((c) => c.method),
  }, 0.13);
  fig.patches({ field: "xs" }, { field: "ys" },
    { source: sd, fill_color: { field: "colour" }, fill_alpha: { field: "alpha" }, line_color: null });
  const paths = (several) =>
    ({ xs: several.map((c) => c.images), ys: several.map((c) => c.values), method: several.map((c) => c.method) });
  const single = banded.flatMap(({ method, each }) => each.map((one) => ({ ...one, method })));
  if (single.length) lines(fig, paths(single), 0.6, 0.3);
  const main = lines(fig, paths(curves), 2, 1);
  const known = curves.flatMap((c) => c.images.map((_, n) => `${c.runs} run${c.runs > 1 ? "s" : ""}` +
    (c.runs > 1 ? `, ± ${(100 * c.sd[n]).toFixed(1)} points` : "")));
  const points = dots(fig, ofMethods({ ...flat(curves), known }, 0), { size: 9 });
  hover(fig, [points], [["", "@method"], ["accuracy", "@y{0.0%}"], ["images", "@x{0,0}"], ["", "@known"]]);
  drawMarks(fig, marks, rows);
  onClick(fig, [main, points]);
  fig.yaxis.bounds = [0, highest];
  percent(fig.yaxis);
  thousands(fig.xaxis);
  fig.xaxis.axis_label = "images seen";
  return B.Plotting.show(fig, chart);
}

function drawBands(fig, bands, top) {
  const source = new B.ColumnDataSource({ data: {
    left: bands.map((b) => b[0]), right: bands.map((b) => b[1]), name: bands.map((b) => b[2]),
    shade: bands.map((_, n) => (n % 2 ? 0.11 : 0.04)),
  } });
  const quad = fig.quad({ left: { field: "left" }, right: { field: "right" }, bottom: 0, top, source,
    fill_color: css("ink"), fill_alpha: { field: "shade" }, line_color: null });
  hover(fig, [quad], [["corruption", "@name"]]);
}

function drawNames(fig, bands, top) {
  const source = new B.ColumnDataSource({ data: {
    x: bands.map((b) => (b[0] + b[1]) / 2), y: bands.map(() => top * 0.99), name: bands.map((b) => short(b[2], 18)),
  } });
  fig.text({ field: "x" }, { field: "y" }, { field: "name" }, { source, angle: -Math.PI / 2,
    text_baseline: "middle", text_align: "left", text_font_size: "10px", text_color: css("soft") });
}

function drawMarks(fig, marks, rows) {
  for (const kind of [...new Set(marks.map((mark) => mark.kind))].sort()) {  // alarms first, resets above them
    const own = marks.filter((mark) => mark.kind === kind);
    const source = ofMethods({
      x: own.flatMap((m) => m.images), y: own.flatMap((m) => m.images.map(() => -STEP * (rows.indexOf(m.method) + 0.9))),
      method: own.flatMap((m) => m.images.map(() => m.method)), kind: own.flatMap((m) => m.images.map(() => kind)),
    });
    const shape = SHAPES[kind] ?? "inverted_triangle", upright = { angle: shape === "dash" ? Math.PI / 2 : 0 };
    const small = shape === "inverted_triangle" ? { size: 4, fill_color: null } : { size: 9 };
    const glyph = dots(fig, source, { marker: shape, ...upright, ...small });
    hover(fig, [glyph], [["", "@method: @kind"], ["images", "@x{0,0}"]]);
  }
  fig.add_layout(new B.Span({ location: 0, dimension: "width", line_color: css("soft"), line_width: 1 }));
}

function drawPanels(parent) {
  parent.classList.toggle("one", data.panels.length === 1);
  for (const panel of data.panels) {
    const choice = document.createElement("select");
    choice.setAttribute("aria-label", `Stream of ${panel.setting}`);
    choice.add(new Option(`mean of ${panel.streams.length} streams`, "-1"));
    panel.streams.forEach(({ name }, n) => choice.add(new Option(name, String(n))));
    const chart = frame(parent, panel.setting, panel.streams.length > 1 ? choice : null);
    choice.addEventListener("change", () => {
      chart.replaceChildren();
      shown(drawPanel(panel, Number(choice.value), chart));
    });
    shown(drawPanel(panel, -1, chart));
  }
}

function drawCorruptions(parent) {
  const most = Math.max(...data.corruptions.flatMap((c) => c.methods.map((m) => m.accuracy)));
  const methods = data.styles.map((style) => style.method);
  for (const { corruption, methods: found } of data.corruptions) {
    const batches = Math.max(...found.map((m) => m.batches));
    const fig = figure({
      height: 48 + 15 * methods.length, x_range: new B.Range1d({ start: 0, end: most * 1.08 }),
      y_range: new B.Range1d({ start: 0.4 - methods.length, end: 0.6 }),
    });
    fig.xaxis.ticker = new B.BasicTicker({ desired_num_ticks: 3 });
    const source = ofMethods({
      x: found.map((m) => m.accuracy), y: found.map((m) => -methods.indexOf(m.method)),
      method: found.map((m) => m.method), batches: found.map((m) => m.batches),
      shape: found.map((m) => marker(m.method)), fill: found.map((m) => (m.batches < batches ? css("paper") : colour(m.method))),
    });
    const glyph = dots(fig, source, { marker: { field: "shape" }, fill_color: { field: "fill" }, size: 8, line_width: 1.5 });
    hover(fig, [glyph], [["", "@method"], ["accuracy", "@x{0.0%}"], ["batches", "@batches{0,0}"]]);
    onClick(fig, [glyph]);
    names(fig.yaxis, methods.map((method) => short(method, 16)));
    percent(fig.xaxis);
    shown(B.Plotting.show(fig, frame(parent, corruption)));
  }
}

function drawCost(parent) {
  const known = data.summary.filter((g) => g.accuracy !== null && g.time_in_sources > 0 && styleOf.has(g.method));
  const times = known.map((g) => g.time_in_sources), best = Math.max(...known.map((g) => g.accuracy));
  const fig = figure({
    height: 340, x_axis_type: "log", y_range: new B.Range1d({ start: 0, end: best * 1.08 }),
    x_range: new B.Range1d({ start: Math.min(...times) * 0.85, end: Math.max(...times) * 1.3 }),
  });
  const late = times.map((time) => time > Math.sqrt(Math.min(...times) * Math.max(...times)));  // its name to the left
  const source = ofMethods({
    x: times, y: known.map((g) => g.accuracy), method: known.map((g) => g.method),
    label: known.map((g) => short(g.method)), align: late.map((own) => (own ? "right" : "left")),
    offset: late.map((own) => (own ? -8 : 8)),
    setting: known.map((g) => g.setting), shape: known.map((g) => marker(g.method)),
  });
  const glyph = dots(fig, source, { marker: { field: "shape" }, size: 10 });
  if (known.length <= LABELS) {
    fig.text({ field: "x" }, { field: "y" }, { field: "label" }, { source, x_offset: { field: "offset" }, y_offset: 4,
      text_align: { field: "align" }, text_font_size: "11px", text_color: css("ink"), text_alpha: { field: "alpha" } });
  }
  hover(fig, [glyph], [["", "@method, @setting"], ["accuracy", "@y{0.0%}"], ["time × Source", "@x{0.00}"]]);
  onClick(fig, [glyph]);
  percent(fig.yaxis);
  fig.xaxis.formatter = new B.NumeralTickFormatter({ format: "0[.]0" });
  fig.xaxis.axis_label = "time × Source";
  shown(B.Plotting.show(fig, frame(parent, "Mean accuracy and time of a run")));
}

function drawEstimates(parent) {
  for (const { setting, estimator, curves } of data.estimates) {
    const truth = data.panels.find((p) => p.setting === setting)?.curves ?? [];
    const most = Math.max(highest, ...curves.flatMap((c) => c.values));
    const fig = figure({ height: 260, y_range: new B.Range1d({ start: 0, end: most }) });
    const glyph = lines(fig, { xs: curves.map((c) => c.images), ys: curves.map((c) => c.values), method: curves.map((c) => c.method) }, 2, 1);
    const points = dots(fig, ofMethods(flat(curves), 0), { size: 8 });
    dots(fig, ofMethods(flat(truth), 0.6), { size: 3 });
    hover(fig, [points], [["", "@method"], ["estimate", "@y{0.0%}"], ["images", "@x{0,0}"]]);
    onClick(fig, [glyph, points]);
    percent(fig.yaxis);
    thousands(fig.xaxis);
    fig.xaxis.axis_label = "images seen";
    shown(B.Plotting.show(fig, frame(parent, `${estimator} on ${setting}`)));
  }
}

function drawMethods(parent) {
  for (const { method } of data.styles) {
    const button = document.createElement("button"), swatch = document.createElement("i"), text = document.createElement("span");
    button.type = "button";
    button.dataset.method = method;
    button.setAttribute("aria-pressed", String(method === single));
    swatch.style.borderTopColor = colour(method);
    swatch.style.borderTopStyle = ["solid", "dashed", "dotted"][styleOf.get(method).adapts ? MARKERS.indexOf(marker(method)) : 1];
    text.textContent = method;
    button.append(swatch, text);
    button.addEventListener("click", () => singleOut(method));
    parent.append(button);
  }
}

let waiting = [];
const shown = (view) => waiting.push(view);

async function drawAll() {
  linked = [];
  waiting = [];
  const parts = { methods: drawMethods, panels: drawPanels, corruptions: drawCorruptions, cost: drawCost, estimates: drawEstimates };
  const filled = { corruptions: data.corruptions.length, cost: data.summary.some((g) => g.time_in_sources > 0), estimates: data.estimates.length };
  for (const [id, draw] of Object.entries(parts)) {
    const parent = document.getElementById(id);
    parent.replaceChildren();
    if (filled[id] ?? true) draw(parent);
    const section = parent.closest("section");
    if (section) section.hidden = !(filled[id] ?? true);
  }
  await Promise.all(waiting);
  document.documentElement.dataset.drawn = "yes";
}

document.addEventListener("keydown", (event) => event.key === "Escape" && single && singleOut(single));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();
