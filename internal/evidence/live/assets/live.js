"use strict";
// The live view: draws the state that /events sends first, and then what comes (see
// type State of package live).
const Live = (() => {
  const $ = (id) => document.getElementById(id);
  const words = Object.fromEntries(Places.map((p) => [p.where, p.words]));
  const byLetter = Object.fromEntries(Places.map((p) => [p.letter, p.where]));
  let state = null;
  let chart = null;
  let dirty = true; // the chart lacks something
  let arrived = 0; // samples since the page was opened, for its tests

  // The pool: as many cells as it may have workers, those that are not there yet
  // dotted; without a bound as many as there are requests.
  function drawCells(where) {
    const box = $("cells");
    const wanted = Math.max(where.length, state.run.workers);
    while (box.children.length < wanted) box.append(document.createElement("i"));
    while (box.children.length > wanted) box.lastChild.remove();
    const counts = {};
    for (let i = 0; i < wanted; i++) {
      const place = byLetter[where[i]];
      const style = place ? `f-${place}` : "absent";
      if (place) counts[place] = (counts[place] ?? 0) + 1;
      if (box.children[i].className !== style) box.children[i].className = style;
    }
    for (const key of $("keys").children) {
      key.querySelector("b").textContent = counts[key.dataset.where] ?? 0;
    }
    const said = Places.filter((p) => counts[p.where]).map((p) => `${counts[p.where]} ${p.words}`);
    box.setAttribute("aria-label", said.length ? `${where.length} workers: ${said.join(", ")}` : "no workers");
  }

  const ms = (v) => (v >= 1000 ? `${(v / 1000).toFixed(1)} s` : `${v.toFixed(v < 10 ? 1 : 0)} ms`);

  function tile(id, value, small, mood) {
    const box = $(id);
    const dd = box.querySelector("dd");
    const text = document.createElement("small");
    text.textContent = small;
    dd.replaceChildren(value, text);
    box.className = mood ?? "";
  }

  let answered = null; // the newest sample in which /fast was answered
  // How long /fast has given no answer though somebody waits, in seconds.
  function silence() {
    const h = state.history;
    let from = h.length - 1;
    while (from >= 0 && h[from].fast.waiting > 0 && !h[from].fast.count) from--;
    return from === h.length - 1 ? 0 : h[h.length - 1].at_s - h[from + 1].at_s;
  }

  function drawTiles(s) {
    const { run } = state;
    const full = run.workers > 0 && s.busy >= run.workers;
    tile("tile-busy", String(s.busy), run.workers ? `of ${run.workers}` : "no bound", full ? "bad" : "good");
    tile("tile-queued", String(s.queued), s.accept_queue ? `${s.accept_queue} more in the kernel` : "", s.queued ? "bad" : "good");
    tile("tile-permits", run.permits ? String(s.permits) : "none", run.permits ? `of ${run.permits}` : "no bulkhead", "");
    tile("tile-cpu", `${s.cpu_percent.toFixed(1)} %`, "of one core", "");
    if (s.fast.count) answered = s;
    const silent = silence();
    if (silent > 1) tile("tile-fast", "no answer", `for ${silent.toFixed(1)} s; ${s.fast.waiting} wait`, "bad");
    else if (answered) tile("tile-fast", ms(answered.fast.p50_ms), `slowest ${ms(answered.fast.max_ms)}; ${s.fast.waiting} wait`, answered.fast.max_ms > 1000 ? "bad" : "good");
    const gone = s.fast.gone + s.upstream.gone;
    tile("tile-gone", String(gone), "their clients had left", gone ? "bad" : "good");
  }

  function chartOf() {
    const h = state.history;
    const series = (label, colour, values, style) => ({ label, colour, values, style });
    return {
      x: { kind: "seconds", label: "seconds" },
      xs: h.map((s) => s.at_s),
      // The first is what makes room for the labels of those to come.
      marks: [{ at: 0, label: "" }, ...state.events.map((e) => ({ at: e.at_s, label: e.mark }))],
      panes: [
        { title: "Workers and queue", unit: "count", top: state.run.workers || 10, height: 170, series: [
          series("busy", "upstream_read", h.map((s) => s.busy), "step"),
          series("queued", "queued", h.map((s) => s.queued), "step"),
          series("permits held", "permit_wait", h.map((s) => s.permits), "step")] },
        { title: "CPU of the victim", unit: "percent", top: 20, height: 80, series: [
          series("CPU", "cpu", h.map((s) => s.cpu_percent), "step")] },
        { title: "/fast", unit: "ms", log: true, height: 130, series: [
          series("p50", "2", h.map((s) => (s.fast.count ? Math.max(s.fast.p50_ms, 0.1) : null))),
          series("slowest", "1", h.map((s) => (s.fast.count ? Math.max(s.fast.max_ms, 0.1) : null)))] },
      ],
    };
  }

  // Drawn when the browser has time for it, and not more often than it must: the
  // browser shares the machine with what is measured.
  const chartEveryMS = 200;
  let drawnAt = -Infinity;
  function drawChart(now) {
    requestAnimationFrame(drawChart);
    if (!dirty || !state || !state.history.length || now - drawnAt < chartEveryMS) return;
    dirty = false;
    drawnAt = now;
    const next = chartOf();
    if (chart) chart.update(next);
    else chart = Charts.draw($("chart"), next);
  }

  function drawEvent(e) {
    const item = document.createElement("li");
    const time = document.createElement("time");
    time.textContent = `${e.at_s.toFixed(1)} s`;
    item.dataset.name = e.name;
    item.append(time, e.text);
    $("log").prepend(item); // the newest first
  }

  function drawPhase() {
    $("sentence").textContent = state.phase.sentence || "Nothing has begun yet.";
  }

  function drawReports() {
    $("reports-section").hidden = state.reports.length === 0;
    $("reports").replaceChildren(...state.reports.map((r) => {
      const item = document.createElement("li");
      item.append(`${r.title}: ${r.outcome}`);
      if (r.path) {
        const link = document.createElement("a");
        link.href = r.path;
        link.textContent = "report";
        item.append(" (", link, ")");
      }
      return item;
    }));
  }

  function drawSample(s) {
    drawCells(s.where ?? "");
    drawTiles(s);
  }

  // All of it: at the beginning, after a break, and when another run begins.
  function drawState(next) {
    const sameRun = state && state.run.number === next.run.number;
    state = next;
    state.events ??= []; state.history ??= []; state.reports ??= [];
    if (!sameRun) answered = null;
    answered = state.history.findLast((s) => s.fast.count) ?? answered;
    const { run } = state;
    if (run.number) {
      $("title").textContent = `${run.scenario}, profile ${run.profile}`;
      $("run").textContent = `Run ${run.number} of ${run.of}, at scale ${run.scale}: ${run.summary}.`;
    }
    drawPhase();
    $("log").replaceChildren();
    state.events.forEach(drawEvent);
    drawReports();
    if (state.last) drawSample(state.last);
    else drawCells("");
    dirty = true;
    if (state.end) drawEnd();
  }

  function drawEnd() {
    const { end } = state;
    source.close();
    link("over", "");
    $("sentence").textContent = `${end.title}: ${end.outcome}.`;
    if (end.path) location.assign(end.path);
  }

  function link(text, style) {
    $("link").textContent = text;
    $("link").className = `link ${style}`;
  }

  const source = new EventSource("/events");
  const on = (name, use) => source.addEventListener(name, (m) => use(JSON.parse(m.data)));
  source.addEventListener("open", () => link("live", "on"));
  source.addEventListener("error", () => link("not connected; trying again", "off"));
  on("state", drawState);
  on("sample", (s) => {
    arrived++;
    state.last = s;
    state.history.push(s);
    dirty = true;
    drawSample(s);
  });
  on("event", (e) => { state.events.push(e); drawEvent(e); dirty = true; });
  on("phase", (p) => { state.phase = p; drawPhase(); });
  on("end", (r) => { state.end = r; drawEnd(); });
  document.addEventListener("DOMContentLoaded", () => requestAnimationFrame(drawChart));
  return { get state() { return state; }, get arrived() { return arrived; }, words };
})();
