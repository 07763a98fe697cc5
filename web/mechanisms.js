import { h } from "./dom.js";
export async function mechanismsView(root) {
  root.append(h("p", {}, "…"));
  return { stop() {}, redraw() {} };
}
