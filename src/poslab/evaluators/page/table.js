// All rows: a click on a column sorts, words in the field filter, as text and never as markup.
{
  const {columns, rows} = JSON.parse(document.getElementById("data").textContent);
  const MOST = 300; // rows on the page at once
  const [table, field, count, link] = ["all", "filter", "count", "download"].map(id => document.getElementById(id));
  let by = null, ascending = true, found = rows;
  const cells = (words, kind) => {
    const line = document.createElement("tr");
    line.append(...words.map(word => Object.assign(document.createElement(kind), {textContent: word})));
    return line;
  };
  const compare = (a, b) => a === "" || b === "" ? (a === "") - (b === "") // empty ones last, whatever the order
    : (ascending ? 1 : -1) * (isNaN(a) || isNaN(b) ? a.localeCompare(b, "en", {numeric: true}) : a - b);
  const readable = word => /^-?\d*\.\d{5,}(e.*)?$/.test(word) ? String(+(+word).toPrecision(5)) : word;
  const show = () => {
    const words = field.value.toLowerCase().split(/\s+/);
    found = rows.filter(row => words.every(word => row.join("\n").toLowerCase().includes(word)));
    if (by !== null) found.sort((a, b) => compare(a[by], b[by]));
    table.tBodies[0].replaceChildren(...found.slice(0, MOST).map(row => cells(row.map(readable), "td")));
    count.textContent = `${Math.min(MOST, found.length)} of ${found.length} rows are shown.`;
    [...head.children].forEach((cell, number) =>
      cell.setAttribute("aria-sort", number !== by ? "none" : ascending ? "ascending" : "descending"));
  };
  const head = cells(columns, "th");
  [...head.children].forEach((cell, number) => cell.addEventListener("click", () => {
    ascending = by === number ? !ascending : true;
    by = number;
    show();
  }));
  table.tHead.append(head);
  field.addEventListener("input", show);
  link.addEventListener("click", () => {
    const quoted = [columns, ...found].map(row => row.map(word => `"${word.replaceAll('"', '""')}"`).join(","));
    link.href = `data:text/csv;charset=utf-8,${encodeURIComponent(quoted.join("\n") + "\n")}`;
  });
  show();
}
