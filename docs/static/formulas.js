// Draws every formula of the page; one that is wrong is shown in red, and a test finds it.
for (const element of document.querySelectorAll(".formula")) {
  const displayMode = element.classList.contains("display");
  katex.render(element.textContent, element, { displayMode, throwOnError: false, strict: "ignore" });
}
