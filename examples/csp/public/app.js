import { get, getSecure, onChange } from "/rep/client.js";

const headline = document.querySelector("h1");
const output = document.querySelector("output");

function showTitle() {
  headline.textContent = get("TITLE");
}

showTitle();
onChange("TITLE", showTitle);
document.querySelector("button").addEventListener("click", async () => {
  output.textContent = await getSecure("MAP_KEY");
});
