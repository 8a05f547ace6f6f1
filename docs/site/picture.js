// The field above a picture shows the dots whose names hold all of its words.
document.addEventListener("input", (event) => {
  const picture = event.target.closest(".picture");
  if (!picture) return;
  const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const dot of picture.querySelectorAll("circle")) {
    const name = dot.textContent.toLowerCase();
    dot.style.display = words.every((word) => name.includes(word)) ? "" : "none";
  }
});
