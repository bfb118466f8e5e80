
const root = document.documentElement, button = document.querySelector("#theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const theme = () => root.dataset.theme || (system.matches ? "dark" : "light");
const name = () => {
  button.textContent = theme() === "dark" ? "Light" : "Dark";
  button.ariaLabel = `${button.textContent} theme`;
};
button.addEventListener("click", () => { root.dataset.theme = theme() === "dark" ? "light" : "dark"; name(); });
system.addEventListener("change", name);
button.hidden = false;
name();
