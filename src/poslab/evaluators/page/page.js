// Figures are drawn when they come near, since a report may hold a hundred; a selector shows one of several.
const options = {responsive: true, displaylogo: false, modeBarButtons: [["toImage", "resetScale2d"]]};
// The legend of many lines makes a figure taller, and not its plot smaller.
const makeRoom = (data, layout, width) => {
  const names = new Set(data.filter(trace => trace.name && trace.showlegend !== false).map(trace => trace.name));
  if (!layout.showlegend || !names.size) return;
  const word = 8 * Math.max(...[...names].map(name => name.length)); // pixels
  const rows = Math.ceil(names.size / Math.max(1, Math.floor(width / (word + 50))));
  layout.legend.entrywidth = word;
  layout.margin.b = 65 + 20 * rows;
  layout.height += 20 * (rows - 1);
};
const draw = node => {
  if (node.classList.contains("js-plotly-plot")) return Plotly.Plots.resize(node);
  const {data, layout} = JSON.parse(node.nextElementSibling.textContent);
  makeRoom(data, layout, node.clientWidth);
  return Plotly.newPlot(node, data, layout, options);
};
const plots = [...document.querySelectorAll(".plot")];
const near = new IntersectionObserver(
  entries => entries.filter(entry => entry.isIntersecting).forEach(entry => draw(entry.target)),
  {rootMargin: "500px"},
);
plots.forEach(node => near.observe(node));
// paper also shows what nobody has scrolled to
addEventListener("beforeprint", () => plots.filter(node => node.offsetParent).forEach(draw));
document.querySelectorAll("select.choose").forEach(select => {
  const choices = [...select.closest("figure, section").children].filter(node => node.className === "choice");
  const show = () => choices.forEach((node, number) => { node.hidden = number !== select.selectedIndex; });
  select.addEventListener("change", show);
  show(); // a browser that goes back keeps what was selected
});
