"use strict";
// Charts draws a chart (type Chart of package page) with uPlot into a figure: panes over
// one x axis, with a common cursor. Charts.draw returns an object whose update takes a
// newer chart with the same panes and series, for pages that go on.
const Charts = (() => {
  const axisWidth = 66; // the same in all panes, so that they stand one above another
  const shade = () => Theme.colour("shade");

  const short = (v, digits) => v.toLocaleString("en", { maximumFractionDigits: digits });
  const units = {
    ms(v) {
      if (v === 0) return "0";
      if (v >= 1000) return `${short(v / 1000, 1)} s`;
      return `${short(v, v < 1 ? 3 : v < 10 ? 1 : 0)} ms`;
    },
    percent: (v) => `${short(v, 1)} %`,
    count: (v) => short(v, 1),
  };
  const inUnit = (unit) => units[unit] ?? units.count;

  // On a percentile axis x is log10(1/(1-p)): 1 is 90 %, 2 is 99 %.
  const percentile = (x) => `${short(100 * (1 - 10 ** -x), Math.max(0, Math.ceil(x) - 1))} %`;
  const xAxes = {
    seconds: { at: (x) => `${short(x, 1)} s` },
    offset: { at: (x) => `${x > 0 ? "+" : ""}${short(x, 1)} ms` },
    percentile: {
      at: percentile,
      splits: (u, i, low, high) => [0, Math.log10(2), 1, 2, 3, 4, 5, 6].filter((x) => x >= low - 1e-9 && x <= high + 1e-9),
      values: (u, splits) => splits.map(percentile),
    },
  };

  // Bands are phases, behind the lines.
  function drawBands(u, chart) {
    const { ctx, bbox } = u;
    for (const band of chart.bands ?? []) {
      const from = Math.max(bbox.left, u.valToPos(band.from, "x", true));
      const to = Math.min(bbox.left + bbox.width, u.valToPos(band.to, "x", true));
      if (to <= from) continue;
      ctx.save();
      ctx.fillStyle = shade();
      ctx.fillRect(from, bbox.top, to - from, bbox.height);
      ctx.restore();
    }
  }

  function drawMarks(u, chart, labelled) {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, 0, ctx.canvas.width, bbox.top + bbox.height);
    ctx.clip();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.lineWidth = ratio;
    ctx.textBaseline = "bottom";
    ctx.textAlign = "left"; // the axes leave it at theirs
    let free = -Infinity; // labels do not run into each other, or out of the picture
    const label = (text, at, y) => {
      const { width } = ctx.measureText(text);
      const x = Math.min(at, ctx.canvas.width - width);
      if (x < free) return;
      ctx.fillText(text, x, y);
      free = x + width + 6 * ratio;
    };
    for (const mark of chart.marks ?? []) {
      const x = Math.round(u.valToPos(mark.at, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = ctx.fillStyle = Theme.colour("ink");
      ctx.setLineDash([4 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      if (labelled) label(mark.label, x + 2 * ratio, bbox.top - 2 * ratio);
    }
    ctx.restore();
  }

  // Of stacked series, the sums from the first one up; hidden ones add nothing.
  function stacked(series, hidden) {
    const sums = [];
    let below = null;
    series.forEach((s, i) => {
      const values = hidden.has(i) ? s.values.map(() => 0) : s.values;
      below = values.map((v, at) => (v ?? 0) + (below ? below[at] : 0));
      sums.push(below);
    });
    return sums;
  }

  const paths = {
    step: () => uPlot.paths.stepped({ align: 1 }),
    since: () => uPlot.paths.stepped({ align: -1 }),
    line: () => uPlot.paths.linear(),
  };

  // A value between two gaps has no line: it is a point.
  const alone = (u, i) => {
    if (u.series[i].spanGaps) return [];
    const values = u.data[i], found = [];
    const gap = (at) => values[at] === null || values[at] === undefined;
    for (let at = 0; at < values.length; at++) if (!gap(at) && gap(at - 1) && gap(at + 1)) found.push(at);
    return found;
  };

  // Lines at the powers of ten alone: those between would be a grey wall.
  const decades = (u, axis, low, high) => {
    const all = [];
    for (let d = Math.floor(Math.log10(low)); d <= Math.ceil(Math.log10(high)); d++) all.push(10 ** d);
    return all.filter((v) => v >= low * 0.999 && v <= high * 1.001);
  };

  class Pane {
    constructor(box, chart, index, sync, said, toggle) {
      this.chart = chart;
      this.index = index;
      this.hidden = new Set();
      this.said = said;
      this.keys = [];
      this.buttons = [];
      this.pressed = toggle;
      const pane = chart.panes[index];
      const head = document.createElement("h3");
      head.textContent = pane.title;
      const legend = document.createElement("ul");
      legend.className = "legend";
      pane.series.forEach((s, i) => legend.append(this.key(s, i)));
      this.plotBox = document.createElement("div");
      this.plotBox.setAttribute("role", "img");
      this.plotBox.setAttribute("aria-label", `${pane.title}: ${pane.series.map((s) => s.label).join(", ")}`);
      const element = document.createElement("div");
      element.className = "pane";
      element.append(head, legend, this.plotBox);
      box.append(element);
      this.plot = new uPlot(this.options(box.clientWidth, sync), this.data(), this.plotBox);
    }

    get pane() { return this.chart.panes[this.index]; }
    get last() { return this.index === this.chart.panes.length - 1; }

    key(series, i) {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      const swatch = document.createElement("span");
      swatch.className = `key f-${series.colour}`;
      const value = document.createElement("span");
      button.append(swatch, series.label, value);
      button.addEventListener("click", () => this.pressed(series.label, this.hidden.has(i)));
      this.buttons.push(button);
      this.keys.push(value);
      const item = document.createElement("li");
      item.append(button);
      return item;
    }

    show(label, shown) {
      this.pane.series.forEach((s, i) => {
        if (s.label !== label) return;
        if (shown) this.hidden.delete(i); else this.hidden.add(i);
        this.buttons[i].setAttribute("aria-pressed", String(shown));
        this.plot.setSeries(this.place(i), { show: shown });
      });
      if (this.pane.stacked) this.plot.setData(this.data(), false);
    }

    // Stacked series are drawn from the highest sum to the lowest.
    place(i) { return this.pane.stacked ? this.pane.series.length - i : i + 1; }

    data() {
      const { pane } = this;
      const values = pane.stacked ? stacked(pane.series, this.hidden).reverse() : pane.series.map((s) => s.values);
      return [this.chart.xs, ...values];
    }

    options(width, sync) {
      const { pane, chart } = this;
      const stroke = () => Theme.colour("quiet");
      const lines = { stroke: () => Theme.colour("line"), width: 1 };
      const x = xAxes[chart.x.kind] ?? xAxes.seconds;
      const series = pane.series.map((s) => ({
        label: s.label,
        stroke: () => Theme.colour(`g-${s.colour}`),
        fill: pane.stacked ? () => Theme.colour(`g-${s.colour}`) : undefined,
        width: pane.stacked ? 0 : 1.75,
        spanGaps: s.spans === true,
        dash: s.dashed ? [6, 4] : undefined,
        paths: (paths[s.style] ?? paths.line)(),
        points: pane.stacked ? { show: false } : { size: 4, show: true, filter: alone },
      }));
      const logarithmic = pane.log === true;
      return {
        width, height: this.height(),
        padding: [this.index === 0 && chart.marks?.length ? 18 : 8, 18, 0, 0],
        legend: { show: false },
        cursor: { sync: { key: sync }, points: { size: 6 }, drag: { x: true, y: false } },
        scales: {
          x: { time: false, range: (u, low, high) => (low === null ? [0, 1] : [low, high === low ? low + 1 : high]) },
          y: logarithmic ? { distr: 3 } : { range: (u, low, high) => [0, Math.max(pane.top ?? 0, high ?? 0) * 1.04 || 1] },
        },
        axes: [
          { stroke, grid: lines, ticks: lines, splits: x.splits, values: this.last ? x.values : (u, splits) => splits.map(() => ""),
            size: this.last ? 44 : 12, label: this.last ? chart.x.label : undefined, labelSize: 18, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" },
          { stroke, grid: lines, ticks: lines, size: axisWidth, font: "12px system-ui, sans-serif",
            splits: logarithmic ? decades : undefined, filter: logarithmic ? (u, splits) => splits : undefined,
            values: (u, splits) => splits.map((v) => (v === null ? "" : inUnit(pane.unit)(v))) },
        ],
        series: [{}, ...(pane.stacked ? series.reverse() : series)],
        hooks: {
          drawClear: [(u) => drawBands(u, this.chart)],
          draw: [(u) => drawMarks(u, this.chart, this.index === 0)],
          setCursor: [(u) => this.say(u.cursor.idx)],
        },
      };
    }

    height() { return (this.pane.height || 150) + (this.last ? 32 : 0); }

    // The legend shows what is under the cursor.
    say(at) {
      const format = inUnit(this.pane.unit);
      this.keys.forEach((key, i) => {
        const v = at === null || at === undefined ? null : this.pane.series[i].values[at];
        key.textContent = v === null || v === undefined ? "" : ` ${format(v)}`;
      });
      if (this.index === 0) {
        const x = xAxes[this.chart.x.kind] ?? xAxes.seconds;
        this.said.textContent = at === null || at === undefined ? "" : `at ${x.at(this.chart.xs[at])}`;
      }
    }

    update(chart) {
      this.chart = chart;
      this.plot.setData(this.data());
    }

    resize(width) { this.plot.setSize({ width, height: this.height() }); }
    redraw() { this.plot.redraw(false, true); }
  }

  let drawn = 0;
  function draw(figure, chart) {
    const box = document.createElement("div");
    const said = document.createElement("div");
    said.className = "at";
    figure.querySelector(".plots").replaceChildren(box, said);
    const sync = chart.sync || `chart-${++drawn}`;
    // What has one name in several panes is one thing, such as a profile.
    const show = (label, shown) => panes.forEach((p) => p.show(label, shown));
    const panes = [];
    chart.panes.forEach((_, i) => panes.push(new Pane(box, chart, i, sync, said, show)));
    let width = box.clientWidth;
    const fit = () => {
      if (box.clientWidth > 0 && box.clientWidth !== width) {
        width = box.clientWidth;
        panes.forEach((p) => p.resize(width));
      }
    };
    new ResizeObserver(fit).observe(box);
    document.addEventListener("themechange", () => panes.forEach((p) => p.redraw()));
    return { panes, update: (newer) => panes.forEach((p) => p.update(newer)) };
  }

  // A figure names the element that holds its chart as JSON.
  document.addEventListener("DOMContentLoaded", () => {
    for (const figure of document.querySelectorAll("figure[data-chart]")) {
      draw(figure, JSON.parse(document.getElementById(figure.dataset.chart).textContent));
    }
  });
  return { draw };
})();
