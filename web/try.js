import { h } from "./dom.js";
export async function tryView(root) {
  root.append(h("p", {}, "…"));
  return { stop() {}, redraw() {} };
}
