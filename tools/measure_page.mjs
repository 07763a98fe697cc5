#!/usr/bin/env node
// The page in Chromium: how soon the first picture of a text of 512 tokens is there, how long another head takes, and
// what axe finds in every view, light and dark.
//
//     npm install playwright-core axe-core                    in a folder of your own, and run it from there
//     bertie serve bert-base-uncased --port 8091 &
//     node PATH/TO/tools/measure_page.mjs http://127.0.0.1:8091/ [CHROMIUM]
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const here = createRequire(`${process.cwd()}/`);
const { chromium } = here("playwright-core");
const [, , base = "http://127.0.0.1:8080/", executablePath = "/usr/bin/chromium"] = process.argv;
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"];
const browser = await chromium.launch({ executablePath, args });

async function speed() {
  const page = await browser.newPage({ viewport: { width: 1400, height: 1000 } });
  const words = "the river bank near the old mill was quiet that morning and nobody came".split(" ");
  const text = Array.from({ length: 510 }, (_, i) => words[(i * 7 + (i >> 4)) % words.length]).join(" ");
  await page.goto(base);
  await page.waitForSelector(".pane[data-ready]");
  let pass = 0, bytes = 0;
  page.on("response", async (r) => {
    if (!r.url().endsWith("/atlas")) return;
    pass = Number(r.headers()["x-inference-time"] ?? 0);
    bytes = (await r.body()).length;
  });
  await page.fill("textarea", text);
  const begun = performance.now();
  await page.press("textarea", "Enter");
  await page.waitForSelector('[data-ready$=" 512"]', { timeout: 60000 });
  const all = performance.now() - begun;
  console.log(`512 tokens: ${all.toFixed(0)} ms, ${pass} of them the server's pass and atlas; ${bytes} bytes`);
  for (const [layer, head] of [[1, 1], [6, 12], [5, 4], [3, 9], [2, 2]]) {
    await page.evaluate(([l, h]) => {
      location.hash = location.hash.replace(/&?(layer|head)=\d+/g, "") + `&layer=${l}&head=${h}`;
    }, [layer, head]);
    await page.waitForFunction(([l, h]) => document.querySelector(".pane").dataset.ready?.includes(` ${l} ${h} `),
                               [layer, head], { polling: 5 });
    const took = await page.evaluate(() => document.querySelector(".pane").dataset.headMilliseconds);
    console.log(`head ${layer}-${head}: ${Math.round(took)} ms`);
  }
  await page.close();
}

async function accessibility() {
  const axe = readFileSync(here.resolve("axe-core/axe.min.js"), "utf8");
  const views = ["", "#color=entropy&compare=1", "#view=explain&step=6&cell=1.1", "#view=mechanisms", "#view=try",
                 "#view=try&task=senses", "#view=try&task=surprise", "#view=try&task=entities", "#view=heads",
                 "#view=heads&by=loss", "#view=training"];
  for (const colorScheme of ["light", "dark"])
    for (const view of views) {
      const context = await browser.newContext({ colorScheme, bypassCSP: true, viewport: { width: 1200, height: 900 } });
      const page = await context.newPage();
      await page.goto(base + view);
      await page.waitForTimeout(1500);
      await page.evaluate(axe);
      const runOnly = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"];
      const { violations } = await page.evaluate((tags) => globalThis.axe.run({ runOnly: tags }), runOnly);
      console.log(colorScheme, view || "start", violations.map((v) => `${v.id} ×${v.nodes.length}`).join(", ") || "none");
      await context.close();
    }
}

await speed();
await accessibility();
await browser.close();
