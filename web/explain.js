import { h } from "./dom.js";
export async function explainView(root) {
  root.append(h("p", {}, "…"));
  return { stop() {}, redraw() {} };
}
