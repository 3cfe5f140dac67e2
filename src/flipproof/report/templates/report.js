"use strict";
document.documentElement.classList.add("js");

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const whole = new Intl.NumberFormat("en");

// Rounded down: never claim more than was proved.
function percent(count, total) {
  return total ? (Math.floor((count * 1000) / total) / 10).toFixed(1) + "%" : "none";
}

function flipsText(flips) {
  if (!data.counted) return data.flips_name + " of " + Number(flips.toPrecision(3));
  const name = flips === 1 ? data.flips_name.slice(0, -1) : data.flips_name;
  if (data.unit === "rows") return whole.format(flips) + " " + name + " (" + shareOf(flips) + " of " + whole.format(data.n_units) + ")";
  return whole.format(flips) + " " + name + " of " + whole.format(data.n_units) + " (" + shareOf(flips) + ")";
}

// Two significant digits, rounded down.
function shareOf(flips) {
  const share = (100 * flips) / data.n_units;
  if (share <= 0) return "0%";
  if (share >= 100) return whole.format(Math.floor(share)) + "%";
  const places = 1 - Math.floor(Math.log10(share)), scale = 10 ** places;
  return Number((Math.floor(Number((share * scale).toFixed(6))) / scale).toFixed(Math.max(places, 0))) + "%";
}

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// The slider: certified shares at one number of flips.
function setUpSlider() {
  const slider = byId("flips"), chart = byId("chart"), area = chart.querySelector(".area");
  const cursor = chart.querySelector(".cursor"), last = data.flips[data.flips.length - 1] || 1;

  const bars = [];
  function addBar(name, counts, total) {
    const line = element("div"), track = element("span", "track"), fill = element("span", "fill"), value = element("b");
    track.append(fill);
    line.append(element("span", "", name), track, value);
    byId("flips-bars").append(line);
    bars.push((index) => {
      fill.style.width = (total ? (100 * counts[index]) / total : 0) + "%";
      value.textContent = percent(counts[index], total);
    });
  }
  if (data.methods.length > 1) {
    byId("flips-bars").append(element("h4", "", data.methods[0].correct ? "Correct and certified, by method" : "Certified, by method"));
    for (const method of data.methods) addBar(method.name, method.correct || method.certified, data.n_test);
  }
  if (data.classes.length) {
    byId("flips-bars").append(element("h4", "", data.methods[0].correct ? "Certified recall, by true class" : "Certified, by predicted class"));
    for (const one of data.classes) addBar(one.name, one.certified, one.n);
  }

  function show(index) {
    const main = data.methods[0], flips = data.flips[index];
    byId("flips-name").textContent = flipsText(flips);
    slider.setAttribute("aria-valuetext", flipsText(flips));
    let says = percent(main.certified[index], data.n_test) + " of predictions are certified (" +
      whole.format(main.certified[index]) + " of " + whole.format(data.n_test) + ")";
    if (main.correct) says += "; " + percent(main.correct[index], data.n_test) + " are correct and certified";
    byId("flips-says").textContent = says + ".";
    cursor.style.left = (100 * flips) / last + "%";
    cursor.classList.toggle("flipped", flips > last / 2);
    cursor.firstElementChild.textContent = (data.counted ? whole.format(flips) : Number(flips.toPrecision(3))) + ": " +
      percent((main.correct || main.certified)[index], data.n_test);
    cursor.hidden = false;
    for (const update of bars) update(index);
  }
  // The first point at or after this number of flips: never show a share for fewer flips.
  function indexOf(flips) {
    const index = data.flips.findIndex((one) => one >= flips);
    return index < 0 ? data.flips.length - 1 : index;
  }

  const start = indexOf(data.start);
  slider.value = data.flips[start] > data.start ? start - 1 : start;
  slider.addEventListener("input", () => show(Number(slider.value)));
  function indexAt(event) {
    const box = area.getBoundingClientRect(), at = (last * (event.clientX - box.left)) / box.width;
    return indexOf(data.counted ? Math.round(at) : at);
  }
  area.addEventListener("pointermove", (event) => show(indexAt(event)));
  area.addEventListener("pointerleave", () => show(Number(slider.value)));
  area.addEventListener("click", (event) => {
    slider.value = indexAt(event);
    show(Number(slider.value));
  });
  byId("slider").hidden = false;
  byId("slider").addEventListener("submit", (event) => event.preventDefault());
  show(Number(slider.value));
}

// Tables: click a column head to sort; one page of rows at a time.
function setUpTable(table, matches) {
  const body = table.tBodies[0], rows = Array.from(body.rows);
  const more = document.querySelector('[data-more="' + table.id + '"]');
  const page = Number(table.dataset.page);
  let all = false;

  function refresh() {
    let found = 0, shown = 0;
    for (const row of body.rows) {
      const fits = matches(row);
      if (fits) found += 1;
      row.hidden = !fits || (!all && found > page);
      if (!row.hidden) shown += 1;
    }
    const status = more.querySelector("[role=status]"), button = more.querySelector("button");
    status.textContent = found === 0 ? "No row matches." :
      "Showing " + whole.format(shown) + " of " + whole.format(found) + (found < rows.length ? " that match." : ".");
    button.hidden = found <= page;
    button.textContent = all ? "Show fewer" : "Show all";
    more.hidden = false;
  }
  more.querySelector("button").addEventListener("click", () => { all = !all; refresh(); });

  Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
    if (head.dataset.kind === "none") return;
    const number = head.dataset.kind === "number", button = element("button", "", head.textContent);
    button.type = "button";
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => number ? Number(row.cells[column].dataset.value) : row.cells[column].textContent.replace(/^[✓✗]\s/, "");
      const order = number ? (a, b) => (a === b ? 0 : a - b) : new Intl.Collator("en", { numeric: true }).compare;
      const sorted = rows.map((row) => [key(row), row]).sort((a, b) => (down ? -1 : 1) * order(a[0], b[0]));
      body.append(...sorted.map((pair) => pair[1]));
      refresh();
    });
  });
  refresh();
  return refresh;
}

function setUpPredictions() {
  const search = byId("search"), ofClass = byId("of-class"), outcome = byId("outcome"), limit = byId("at-most");
  const text = new Map();
  const textOf = (row) => {
    if (!text.has(row)) text.set(row, row.textContent.toLowerCase());
    return text.get(row);
  };
  function matches(row) {
    const wanted = search.value.trim().toLowerCase();
    return (!wanted || textOf(row).includes(wanted)) &&
      (!ofClass.value || "=" + row.dataset.class === ofClass.value) &&
      (!outcome || !outcome.value || row.dataset.outcome === outcome.value) &&
      (limit.value === "" || Number(row.dataset.radius) <= Number(limit.value));
  }
  const refresh = setUpTable(byId("predictions"), matches);
  byId("filters").hidden = false;
  for (const kind of ["input", "change"]) byId("filters").addEventListener(kind, refresh);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
}

setUpSlider();
setUpPredictions();
if (byId("audited")) setUpTable(byId("audited"), () => true);
