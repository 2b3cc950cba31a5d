// Drives the page of `corprof serve` as a person would, and prints what it shows, as JSON.
//
//   node serve.mjs LINK FOLDER SERVICE BEFORE AFTER LATE FROM TO
//
// Pictures go to the folder. The service is chosen, and two of its versions are compared; the file
// LATE is pushed for the later one while the page is open; then the time from FROM to TO (in
// milliseconds since 1970) is opened, and the latest again.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { answered, newPage, withBrowser } from './browser.mjs';

const [link, folder, service, before, after, late, from, to] = process.argv.slice(2);
const { origin, searchParams } = new URL(link);

const wholeOf = (page) => page.evaluate(() => Number(document.documentElement.dataset.whole));

const picture = (page, name) => page.screenshot({ path: join(folder, `${name}.png`) });

const choose = (page, field, value) => answered(page, () => page.selectOption(field, value));

const options = (page, field) => page.$$eval(`${field} option`, (all) => all.map((o) => o.value));

async function drive(page, seen) {
  await page.waitForSelector('html[data-lanes]');
  await answered(page, () => page.uncheck('#fold'));
  seen.all = await wholeOf(page);
  seen.services = await options(page, '#service');
  seen.names = await page.$$eval('#source option', (all) => all.map((o) => o.textContent));
  await choose(page, '#service', service);
  seen.service = await wholeOf(page);
  seen.files = (await options(page, '#source')).length - 1;
  seen.threads = (await options(page, '#thread')).slice(1).map(Number);
  seen.threadsOfService = await page.evaluate((service) => {
    const of = window.corprof.header.sources.filter((source) => source.service === service);
    return [...new Set(of.flatMap((source) => source.threads))].sort((a, b) => a - b);
  }, service);
  await page.waitForFunction((service) => {
    const of = window.corprof.header.sources.filter((source) => source.service === service);
    return window.corprof.timeline.lanes.from === Math.min(...of.map((source) => source.from));
  }, service);
  await picture(page, 'service');
  await versions(page, seen);
  await push(page, seen);
  await times(page, seen);
}

async function versions(page, seen) {
  await answered(page, () => page.click('#tab-changes'));
  await choose(page, '#version', before);
  seen.before = await wholeOf(page);
  await page.click('#as-base');
  await choose(page, '#version', after);
  seen.after = await wholeOf(page);
  await page.click('#as-new');
  await page.waitForSelector('html[data-compared]');
  seen.verdict = await page.locator('#verdict').innerText();
  seen.sides = [await page.locator('#base-is').innerText(), await page.locator('#new-is').innerText()];
  seen.slower = await page.$$eval('#diff tr', (rows) => rows
    .filter((row) => row.querySelector('.worse'))
    .map((row) => row.querySelector('button').textContent));
  await picture(page, 'versions');
}

/** A profile that comes while the page is open is in the next answer. */
async function push(page, seen) {
  const query = new URLSearchParams({ service, version: after, instance: 'late' });
  const body = await readFile(late);
  const headers = { Authorization: `Bearer ${searchParams.get('token')}` };
  const answer = await fetch(`${origin}/v1/push?${query}`, { method: 'POST', headers, body });
  seen.pushed = answer.status;
  await answered(page, () => page.click('#tab-requests'));
  seen.late = await wholeOf(page);
}

/** An older time, which is read from the disk, and the latest again. */
async function times(page, seen) {
  const local = (ms) => page.evaluate((ms) => {
    const time = new Date(ms);
    return new Date(ms - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  }, Number(ms));
  const typed = [await local(from), await local(to)];
  await page.fill('#store-from', typed[1]);
  await page.fill('#store-to', typed[0]);
  await page.click('#store-open');
  seen.backwards = await page.locator('#store-problem').innerText();
  await page.fill('#store-from', typed[0]);
  await page.fill('#store-to', typed[1]);
  await open(page, '#store-open');
  const shown = [await page.inputValue('#store-from'), await page.inputValue('#store-to')];
  seen.keepsTime = JSON.stringify(shown) === JSON.stringify(typed);
  seen.old = await wholeOf(page);
  seen.oldVersions = await options(page, '#version');
  seen.oldService = await page.inputValue('#service');
  await picture(page, 'time');
  await open(page, '#store-latest');
  seen.latest = await wholeOf(page);
  await nothing(page.context(), seen);
}

/** A time without profiles says so, and another can be chosen. */
async function nothing(context, seen) {
  const page = await context.newPage();
  await page.goto(`${origin}/?span=60000000-120000000`);
  await page.waitForSelector('#problem:not([hidden])');
  seen.nothing = await page.locator('#problem').innerText();
  await page.fill('#store-from', '1970-01-02T00:00');
  seen.fieldsOfNothing = await page.locator('#store-open').isVisible();
  await open(page, '#store-latest');
  seen.fromNothing = await wholeOf(page);
  await page.close();
}

/** Clicks what loads the page anew. */
async function open(page, button) {
  await Promise.all([page.waitForNavigation(), page.click(button)]);
  await page.waitForSelector('html[data-answered][data-lanes]');
}

await withBrowser(async (browser) => {
  const { page, complaints } = await newPage(browser, { colorScheme: 'light' }, origin);
  await page.goto(link);
  await page.waitForSelector('html[data-answered]', { timeout: 60_000 });
  const seen = { complaints, url: page.url() };
  await drive(page, seen);
  console.log(JSON.stringify(seen));
});
