// Elements from text, never from markup: whatever a token says, it is only ever shown.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") { for (const [k, v] of Object.entries(value)) element.style.setProperty(k, v); }
    else if (name === "value" || name === "checked" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity))
    if (child !== undefined && child !== null && child !== false)
      element.append(child instanceof Node ? child : String(child));
}

// h("p", {class: "note"}, "words", h("b", {}, "more"))
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

let controls = 0;

// A control with its label; what is focused stays so when the rest of the page is drawn again.
export function field(label, control, props = {}) {
  control.id ||= `control-${++controls}`;
  return h("div", { class: "field", ...props }, h("label", { for: control.id }, label), control);
}

export function select(options, value, onchange, props = {}) {
  const element = h("select", { ...props, onchange: () => onchange(element.value) });
  for (const option of options) {
    const [key, name] = Array.isArray(option) ? option : [option, option];
    element.append(h("option", { value: key, selected: String(key) === String(value) }, name));
  }
  return element;
}

export function checkbox(label, checked, onchange, props = {}) {
  const box = h("input", { type: "checkbox", checked, ...props, onchange: () => onchange(box.checked) });
  return h("label", { class: "check" }, box, h("span", {}, label));
}

export function button(label, onclick, props = {}) {
  return h("button", { type: "button", onclick, ...props }, label);
}

// One of a few, side by side: arrow keys move, as in a group of radio buttons.
export function choice(label, options, value, onchange) {
  const name = `choice-${++controls}`;
  const items = options.map(([key, text, title]) => {
    const input = h("input", { type: "radio", name, value: key, checked: key === value,
      onchange: () => onchange(key) });
    return h("label", { title }, input, h("span", {}, text));
  });
  return h("fieldset", { class: "choice" }, h("legend", {}, label), h("div", {}, items));
}

export function choose(fieldset, value) {
  for (const input of fieldset.querySelectorAll("input")) input.checked = input.value === value;
}

// Shares as bars: a label (a text or an element), the share from 0 to 1, and its text.
export function bars(title, rows) {
  const bar = (share) =>
    h("span", { class: "bar", style: { width: `${Math.round(100 * Math.min(1, Math.max(0, share)))}%` } });
  return h("section", {}, h("h3", {}, title),
    h("ol", { class: "bars" },
      rows.map(([label, share, text]) =>
        h("li", {}, bar(share), label instanceof Node ? label : h("span", {}, label),
          h("span", { class: "number" }, text))
      )));
}

export function say(text) {
  const status = document.getElementById("status");
  if (status && status.textContent !== text) status.textContent = text;
}

export function table(caption, head, rows, props = {}) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", props, h("caption", {}, caption),
      h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {},
        rows.map((row) =>
          h("tr", {}, row.map((cell, i) => (i === 0 ? h("th", { scope: "row" }, cell) : h("td", {}, cell))))
        ))));
}

// A table that is made when it is opened: a picture's equivalent for those who do not see it.
export function tableDetails(summary, make) {
  const body = h("div", {});
  const details = h("details", { class: "as-table",
    ontoggle: () => details.open && !body.firstChild && append(body, [make()]) }, h("summary", {}, summary), body);
  return details;
}

export function download(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// A canvas as large as its place, sharp on every screen.
export function sizeCanvas(canvas, width, height) {
  const ratio = width * height > 4e6 ? 1 : Math.min(window.devicePixelRatio || 1, 3);
  const wide = Math.round(width * ratio), high = Math.round(height * ratio);
  if (canvas.width !== wide || canvas.height !== high) { // the same size needs no new layout
    canvas.width = wide, canvas.height = high;
    canvas.style.setProperty("width", `${width}px`);
    canvas.style.setProperty("height", `${height}px`);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
