// A click on the head of a column sorts its table; another one turns the order round.
(() => {
  const value = (row, at) => {
    const text = row.cells[at].innerText.trim();
    const number = parseFloat(text.replace(/,/g, ""));
    return Number.isNaN(number) ? text : number;
  };
  const compared = (one, other) =>
    typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));
  const sort = (table, at, head) => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows].sort((one, other) => (up ? 1 : -1) * compared(value(one, at), value(other, at)));
    body.append(...rows);
  };
  document.addEventListener("click", (event) => {
    const head = event.target.closest(".md-typeset thead th");
    if (head) sort(head.closest("table"), head.cellIndex, head);
  });
})();
