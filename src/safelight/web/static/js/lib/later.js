// Scripts that the first look at a page does without, as <meta name="later" content="address">: they
// are fetched once it is painted, or soon where nobody sees it.
const PATIENCE = 1_000;

const painted = new Promise((resolve) => {
  requestAnimationFrame(() => setTimeout(resolve));
  setTimeout(resolve, PATIENCE);
});

painted.then(() => document.querySelectorAll('meta[name="later"]').forEach(fetchIt));

function fetchIt({ content }) {
  const script = document.createElement("script");
  script.type = "module";
  script.src = content;
  document.head.append(script);
}
