// Runs in a page before all else: notes what goes wrong, then does what a reader would do.
const problems = [];
addEventListener("error", (event) => problems.push(String(event.message)));
addEventListener("unhandledrejection", (event) => problems.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => problems.push(`refused: ${event.blockedURI}`));
for (const kind of ["error", "warn"]) console[kind] = (...words) => problems.push(words.join(" "));

const column = (table, n) => [...table.tBodies[0].rows].map((row) => row.cells[n].textContent);

function press(element) {
  element.focus();
  element.click();
}

async function asAReader() {
  while (!document.documentElement.dataset.drawn) await new Promise((done) => setTimeout(done, 20));
  const table = [...document.querySelectorAll("table")].at(-1), heads = table.tHead.rows[0].cells, found = {};
  found.charts = [...document.querySelectorAll(".chart")].filter((chart) => chart.childElementCount).length;
  const sort = (n) => press(heads[n].querySelector("button"));
  sort(2);
  found.down = [column(table, 2), heads[2].getAttribute("aria-sort")];
  sort(2);
  found.up = column(table, 2);
  sort(1);
  found.words = column(table, 1);
  heads[2].click();  // beside the text
  found.cell = heads[2].getAttribute("aria-sort");
  const field = document.querySelector(".rows"), shownRows = () => [...table.tBodies[0].rows].filter((row) => row.offsetParent);
  const type = (text) => { field.value = text; field.dispatchEvent(new Event("input")); };
  type("RDUMB");
  found.filtered = shownRows().map((row) => row.textContent);
  type("");
  found.all = shownRows().length === table.tBodies[0].rows.length;
  found.cut = Math.max(...[...document.querySelectorAll(".wide")].map((one) => one.scrollWidth - one.clientWidth));
  const chip = [...document.querySelectorAll("#methods button")].find((one) => one.textContent === "RDumb");
  press(chip);
  found.pressed = chip.getAttribute("aria-pressed");
  const drawn = linked.map(([source]) => source.data).find((one) => one.method.includes("Source"));
  found.dimmed = drawn.method.map((name, n) => [name, drawn.alpha[n]]);
  const choice = document.querySelector("select");
  choice.value = "1";
  choice.dispatchEvent(new Event("change"));
  await Promise.all(waiting);
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
  found.freed = chip.getAttribute("aria-pressed");
  found.resources = performance.getEntriesByType("resource").map((one) => one.name);
  found.wide = document.documentElement.scrollWidth - innerWidth;
  return found;
}

addEventListener("load", async () => {
  const found = await asAReader().catch((error) => ({ problem: String(error) }));
  const result = document.createElement("pre");
  result.id = "result";
  result.textContent = encodeURIComponent(JSON.stringify({ ...found, problems }));
  document.body.append(result);
});
