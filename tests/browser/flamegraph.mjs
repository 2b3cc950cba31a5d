// Drives a page of `corprof flamegraph` as a person would, and prints what it shows, as JSON.
//
//   node flamegraph.mjs PAGE FOLDER ENDPOINT FUNCTION WORD
//
// Pictures go to the folder. The endpoint is chosen, the function's callers and callees are looked
// at, the word is searched for.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { newPage, withBrowser } from './browser.mjs';

const [file, folder, endpoint, chosen, word] = process.argv.slice(2);

/** The table's rows by function: its own nanoseconds, and all. */
const rowsOf = (page) => page.$$eval('#rows tr', (rows) => rows.map((row) => ({
  name: row.querySelector('button').textContent,
  self: Number(row.dataset.self),
  total: Number(row.dataset.total),
})));

/** All nanoseconds that are shown. */
const wholeOf = (page) => page.evaluate(() => Number(document.documentElement.dataset.whole));

const picture = (page, name) => page.screenshot({ path: join(folder, `${name}.png`) });

/** What the page shows now. */
const shown = async (page) => ({ whole: await wholeOf(page), rows: await rowsOf(page) });

const path = (page) => page.locator('#path').innerText();

async function open(browser, options) {
  const { page, complaints } = await newPage(browser, options);
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector('html[data-ready=true]', { timeout: 30_000 });
  return { page, complaints };
}

async function drive(browser) {
  const { page, complaints } = await open(browser, { colorScheme: 'light' });
  const seen = { title: await page.title(), complaints };
  seen.folded = await shown(page);
  await picture(page, 'folded');
  await page.uncheck('#fold');
  seen.full = await shown(page);
  await picture(page, 'full');

  await page.selectOption('#value', 'wall');
  seen.wall = await shown(page);
  await page.selectOption('#value', 'cpu');
  await page.selectOption('#endpoint', { label: endpoint });
  seen.endpoint = await shown(page);
  await picture(page, 'endpoint');
  await page.selectOption('#endpoint', '-1');

  await page.keyboard.press('/');
  await page.keyboard.type(word);
  seen.matched = await page.evaluate(
    () => Number(document.getElementById('matched').dataset.matched));
  seen.matchedText = await page.locator('#matched').innerText();
  seen.matchedRows = await rowsOf(page);
  await picture(page, 'search');
  await page.keyboard.press('Escape');
  seen.afterSearch = (await rowsOf(page)).length;

  await zoom(page, seen);
  await sandwich(page, seen);
  await page.check('#fold');
  await direction(page);
  await onPaper(page, seen);
  await page.close();
  return seen;
}

/** By the mouse and by keys. */
async function zoom(page, seen) {
  const place = await page.evaluate((name) => window.corprof.whereIs(name), chosen);
  await page.mouse.move(place.x, place.y);
  seen.tip = await page.locator('#tip').innerText();
  await page.mouse.click(place.x, place.y);
  seen.zoomed = await path(page);
  await picture(page, 'zoomed');
  await page.mouse.dblclick(place.x, place.y);
  seen.reset = await path(page);
  await page.focus('#flame canvas');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  seen.byKeys = await path(page);
  seen.told = await page.locator('#told').textContent();
  await page.keyboard.press('Escape');
  seen.byEscape = await path(page);
}

async function sandwich(page, seen) {
  await page.getByRole('button', { name: chosen, exact: true }).first().click();
  await page.waitForSelector('#sandwich:not([hidden])');
  seen.chosen = await page.locator('#chosen').innerText();
  const tops = page.evaluate(() => ['callers', 'callees'].map(
    (id) => window.corprof.graphs.trees.get(id).total[0]));
  seen.sandwich = await tops;
  await picture(page, 'sandwich');
  await page.keyboard.press('Escape');
  seen.backAtGraph = await page.locator('#graph').isVisible();
}

async function direction(page) {
  await page.selectOption('#direction', 'flame');
  await picture(page, 'flame');
  await page.selectOption('#direction', 'icicle');
}

/** As it is printed, in the dark, too: the graph comes first, and all of it. */
async function onPaper(page, seen) {
  const pdf = await page.pdf({ path: join(folder, 'print.pdf'), printBackground: true });
  seen.printed = pdf.length;
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  await page.evaluate(() => window.dispatchEvent(new Event('beforeprint')));
  await page.screenshot({ path: join(folder, 'print.png'), fullPage: true });
  seen.paper = await page.evaluate(() => {
    const corner = (id) => document.getElementById(id).getBoundingClientRect();
    return { graph: corner('graph').top, functions: corner('functions').top };
  });
}

async function inTheDark(browser) {
  const { page, complaints } = await open(browser, { colorScheme: 'dark' });
  const back = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await picture(page, 'dark');
  await page.close();
  return { back, complaints };
}

await withBrowser(async (browser) => {
  const seen = await drive(browser);
  seen.dark = await inTheDark(browser);
  console.log(JSON.stringify(seen));
});
