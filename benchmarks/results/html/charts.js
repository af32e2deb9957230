"use strict";
// Shared by all charts: the data, colours, highlighted methods, axes and hover texts.
const data = JSON.parse(document.getElementById("data").textContent);
const B = Bokeh, MARKERS = ["circle", "square", "triangle"];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const styleOf = new Map(data.styles.map((style) => [style.method, style]));
const dark = () => matchMedia("(prefers-color-scheme: dark)").matches;
const lighter = (hex) => "#" + hex.match(/[0-9a-f]{2}/gi)
  .map((part) => Math.round(0.6 * parseInt(part, 16) + 0.4 * 255).toString(16).padStart(2, "0")).join("");
const own = (hex) => (dark() ? lighter(hex) : hex);
const colour = (method) => (styleOf.get(method).adapts ? own(styleOf.get(method).colour) : css("source"));
const dashes = (method, width) => styleOf.get(method).dashes.map((part) => part * width);
const marker = (method) =>
  styleOf.get(method).adapts ? MARKERS[styleOf.get(method).variant % MARKERS.length] : "diamond";

// Abbreviates a name to its start and end for labels in charts; hover texts show all of it.
const short = (name, most = 26) => (name.length > most ? `${name.slice(0, most - 10)}…${name.slice(-9)}` : name);

let single = null;  // the highlighted method
let linked = [];  // sources with entries of methods, each with its alphas while no method is highlighted

function alphas(methods, alpha) {
  return methods.map((method, n) => (alpha[n] ?? alpha) * (single && method !== single ? 0.07 : 1));
}

// A source whose column `method` is the method of each entry, and `alpha` its opacity.
function ofMethods(columns, alpha = 1) {
  const all = { ...columns, colour: columns.method.map(colour), alpha: alphas(columns.method, alpha) };
  const source = new B.ColumnDataSource({ data: all });
  linked.push([source, alpha]);
  return source;
}

function singleOut(method) {
  single = method === single ? null : method;
  for (const [source, alpha] of linked) {
    source.data = { ...source.data, alpha: alphas(source.data.method, alpha) };
  }
  for (const button of document.querySelectorAll("#methods button")) {
    button.setAttribute("aria-pressed", String(button.dataset.method === single));
  }
}

function onClick(figure, glyphs) {
  figure.add_tools(new B.TapTool({ renderers: glyphs }));
  for (const { data_source: source } of glyphs) {
    source.selected.change.connect(() => {
      const [first] = source.selected.indices;
      if (first === undefined) return;
      source.selected.indices = [];
      singleOut(source.data.method[first]);
    });
  }
}

function hover(figure, glyphs, rows) {
  figure.add_tools(new B.HoverTool({ renderers: glyphs, tooltips: rows }));
}

function figure({ height = 250, ...options }) {
  const found = B.Plotting.figure({
    height, sizing_mode: "stretch_width", tools: "", toolbar_location: null, min_border_right: 12,
    background_fill_color: null, border_fill_color: null, outline_line_color: css("line"), ...options,
  });
  for (const axis of [found.xaxis, found.yaxis]) {
    Object.assign(axis, {
      axis_line_color: css("line"), major_tick_line_color: css("line"), minor_tick_line_color: null,
      major_label_text_color: css("soft"), axis_label_text_color: css("soft"), axis_label_text_font_style: "normal",
      major_label_text_font_size: "11px", axis_label_text_font_size: "11px",
    });
  }
  for (const grid of [found.xgrid, found.ygrid]) grid.grid_line_color = css("line");
  for (const grid of [found.xgrid, found.ygrid]) grid.grid_line_alpha = 0.5;
  return found;
}

const percent = (axis) => (axis.formatter = new B.NumeralTickFormatter({ format: "0%" }));
const thousands = (axis) => (axis.formatter = new B.NumeralTickFormatter({ format: "0[.]0a" }));

// Names at positions along an axis, always as plain text.
function names(axis, found) {
  axis.ticker = new B.FixedTicker({ ticks: found.map((_, n) => -n) });
  axis.major_label_overrides = new Map(found.map((name, n) => [-n, new B.PlainText({ text: name })]));
}

function lines(figure, columns, width, alpha) {
  const source = ofMethods({ ...columns, dash: columns.method.map((name) => dashes(name, width)) }, alpha);
  const line = { source, line_width: width, line_color: { field: "colour" }, line_alpha: { field: "alpha" } };
  const same = { nonselection_line_alpha: { field: "alpha" }, line_dash: { field: "dash" } };
  return figure.multi_line({ field: "xs" }, { field: "ys" }, { ...line, ...same });
}

function dots(figure, source, options = {}) {
  const look = { fill_color: { field: "colour" }, line_color: { field: "colour" }, size: 6 };
  const alpha = { fill_alpha: { field: "alpha" }, line_alpha: { field: "alpha" } };
  const same = { nonselection_fill_alpha: { field: "alpha" }, nonselection_line_alpha: { field: "alpha" } };
  return figure.scatter({ field: "x" }, { field: "y" }, { source, ...look, ...alpha, ...same, ...options });
}

// An element with a heading and an area for a chart.
function frame(parent, title, control = null) {
  const outer = document.createElement("figure"), head = document.createElement("figcaption");
  const heading = document.createElement("h3"), chart = document.createElement("div");
  heading.textContent = title;
  chart.className = "chart";
  head.append(heading, ...(control ? [control] : []));
  outer.append(head, chart);
  outer.setAttribute("aria-label", title);
  parent.append(outer);
  return chart;
}
