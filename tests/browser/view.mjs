// Drives the page of `corprof view` as a person would, and prints what it shows, as JSON.
//
//   node view.mjs LINK FOLDER ENDPOINT FUNCTION WORD WORKER
//
// Pictures go to the folder. The endpoint is chosen, the function's callers and callees are looked
// at, the word is searched for, and so are the lines of the worker, which has time of its own.
import { join } from 'node:path';
import { answered, newPage, withBrowser } from './browser.mjs';

const [link, folder, endpoint, chosen, word, worker] = process.argv.slice(2);

const rowsOf = (page) => page.$$eval('#rows tr', (rows) => rows.map((row) => ({
  name: row.querySelector('button').textContent,
  self: Number(row.dataset.self),
  total: Number(row.dataset.total),
})));

const wholeOf = (page) => page.evaluate(() => Number(document.documentElement.dataset.whole));

const shown = async (page) => ({ whole: await wholeOf(page), rows: await rowsOf(page) });

const picture = (page, name) => page.screenshot({ path: join(folder, `${name}.png`) });

async function drive(page, seen) {
  await page.waitForSelector('html[data-lanes]');
  seen.folded = await shown(page);
  await picture(page, 'view');
  await answered(page, () => page.uncheck('#fold'));
  seen.full = await shown(page);
  await answered(page, () => page.selectOption('#value', 'wall'));
  seen.wall = await shown(page);
  await answered(page, () => page.selectOption('#value', 'cpu'));
  await empty(page, seen);
  await answered(page, () => page.click('#tab-requests'));
  seen.endpoints = await page.$$eval('#endpoints tr', (rows) => rows.map((row) => ({
    name: row.querySelector('button').textContent,
    requests: Number(row.dataset.requests),
    cpu: Number(row.dataset.cpu),
  })));
  await answered(page, () => page.click(`#endpoints button:text-is(${JSON.stringify(endpoint)})`));
  seen.endpoint = await wholeOf(page);
  await picture(page, 'requests');
  await answered(page, () => page.click('#spans tr:first-child button'));
  seen.request = await wholeOf(page);
  await answered(page, () => page.click('#no-request'));
  await answered(page, () => page.selectOption('#endpoint', '-1'));
  await answered(page, () => page.click('#tab-functions'));
  await searched(page, seen);
  await sandwich(page, seen);
  await zoom(page, seen);
  await range(page, seen);
  await late(page, seen);
  await diff(page, seen);
}

/** A state of which there is only wall time. */
async function empty(page, seen) {
  const states = await page.$$eval('#state option', (all) => all.map((one) => one.textContent));
  const [state] = states.filter((name) => ['sleeping', 'waiting', 'lock', 'io'].includes(name));
  await answered(page, () => page.selectOption('#state', { label: state }));
  seen.empty = await page.locator('#empty').innerText();
  await answered(page, () => page.selectOption('#state', '-1'));
  seen.emptyAgain = await page.locator('#empty').isVisible();
}

async function searched(page, seen) {
  await page.keyboard.press('/');
  await answered(page, () => page.keyboard.insertText(word));
  seen.matched = await page.evaluate(
    () => Number(document.getElementById('matched').dataset.matched));
  seen.matchedRows = (await rowsOf(page)).map((row) => row.name);
  await answered(page, () => page.keyboard.press('Escape'));
}

async function sandwich(page, seen) {
  await look(page, chosen);
  seen.sandwich = await page.evaluate(() => ['callers', 'callees'].map(
    (id) => window.corprof.graphs.trees.get(id).total[0]));
  seen.beside = await page.locator('#flame').isVisible();
  await picture(page, 'sandwich');
  await page.click('#back');
  await look(page, worker);
  seen.lines = await page.$$eval('#lines li', (items) => items.map((item) => item.textContent));
  await page.click('#back');
}

/** Chooses a function in the table. */
async function look(page, name) {
  const button = page.locator('#rows').getByRole('button', { name, exact: true });
  await answered(page, () => button.first().click());
}

async function zoom(page, seen) {
  const place = await page.evaluate((name) => window.corprof.whereIs(name), chosen);
  await page.mouse.click(place.x, place.y);
  seen.zoomed = await page.locator('#path').innerText();
  await page.mouse.dblclick(place.x, place.y);
  seen.reset = await page.locator('#path').innerText();
}

/** Two thirds of the time are chosen with the mouse; then what is left, by typing. */
async function range(page, seen) {
  const box = await page.locator('#lanes canvas').boundingBox();
  const left = box.x + 170;
  const width = box.width - 170;
  const y = box.y + 40;
  await page.mouse.move(left + width / 4, y);
  seen.laneTip = await page.locator('#tip').innerText();
  await answered(page, async () => {
    await page.mouse.move(left + 1, y);
    await page.mouse.down();
    await page.mouse.move(left + (width * 2) / 3, y, { steps: 4 });
    await page.mouse.up();
  });
  seen.range = await wholeOf(page);
  seen.link = page.url();
  await picture(page, 'range');
  const to = await page.inputValue('#to');
  const from = await page.inputValue('#from');
  await wrong(page, seen, to);
  await answered(page, async () => {
    await page.evaluate((to) => {
      document.getElementById('to').value = '';
      const field = document.getElementById('from');
      field.value = to;
      field.dispatchEvent(new Event('change'));
    }, to);
  });
  seen.rest = await wholeOf(page);
  await answered(page, async () => {
    await page.evaluate((from) => {
      document.getElementById('from').value = '0';
      const field = document.getElementById('to');
      field.value = from;
      field.dispatchEvent(new Event('change'));
    }, from);
  });
  seen.first = Number(from) > 0 ? await wholeOf(page) : 0;
  await answered(page, () => page.dblclick('#lanes canvas', { position: { x: 300, y: 30 } }));
  seen.again = await wholeOf(page);
  // The link alone, in a new window of the same browser.
  const other = await page.context().newPage();
  await other.goto(seen.link);
  await other.waitForSelector('html[data-answered]');
  seen.restored = await wholeOf(other);
  await other.close();
}

/** A time that ends before it begins is told of, and changes nothing. */
async function wrong(page, seen, to) {
  const typed = (Number(to) + 0.5).toFixed(3);
  await page.evaluate((typed) => {
    const field = document.getElementById('from');
    field.value = typed;
    field.dispatchEvent(new Event('change'));
  }, typed);
  seen.wrong = await page.locator('#time-problem').innerText();
  const kept = [await page.inputValue('#from'), await page.inputValue('#to')];
  seen.keepsTyped = kept[0] === typed && kept[1] === to && (await wholeOf(page)) === seen.range;
}

/** A drag that the system ends chooses nothing; an answer that comes too late is not drawn. */
async function late(page, seen) {
  const box = await page.locator('#lanes canvas').boundingBox();
  await page.mouse.move(box.x + 300, box.y + 30);
  await page.mouse.down();
  await page.mouse.move(box.x + 400, box.y + 30);
  seen.cancelled = await page.evaluate(() => {
    const canvas = document.querySelector('#lanes canvas');
    const { timeline } = window.corprof;
    const before = timeline.dragged !== null;
    canvas.dispatchEvent(new PointerEvent('pointercancel'));
    return before && timeline.dragged === null;
  });
  await page.mouse.up();
  const lanes = '**/api/timeline**';
  const answer = () => page.waitForResponse((response) => response.url().includes('api/timeline'));
  let held = null;
  const isHeld = new Promise((told) => {
    page.route(lanes, async (route) => {
      if (held) return route.continue();
      held = route;
      return told();
    });
  });
  let next = answer();
  await page.evaluate(() => {
    const { from, to } = window.corprof.header;
    window.corprof.look([from, from + Math.round((to - from) / 4)]);
    window.corprof.look(null);
  });
  await isHeld;
  await (await next).finished();
  next = answer();
  await held.continue();
  await (await next).finished();
  await page.unroute(lanes);
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => {
    requestAnimationFrame(drawn);
  })));
  seen.lanesOfAll = await page.evaluate(
    () => window.corprof.timeline.lanes.to === window.corprof.header.to);
}

/** The first half of the time against the second. */
async function diff(page, seen) {
  const length = await page.evaluate(() => {
    const { from, to } = window.corprof.header;
    return (to - from) / 1e6;
  });
  await answered(page, () => page.click('#tab-changes'));
  for (const [button, from, to] of [['#as-base', 0, length / 2], ['#as-new', length / 2, length]]) {
    await answered(page, () => page.evaluate(([from, to]) => {
      document.getElementById('from').value = String(from);
      const field = document.getElementById('to');
      field.value = String(to);
      field.dispatchEvent(new Event('change'));
    }, [from, to]));
    await page.click(button);
  }
  await page.waitForSelector('html[data-compared]');
  seen.verdict = await page.locator('#verdict').innerText();
  seen.sides = await page.locator('#base-is').innerText();
  await picture(page, 'changes');
}

await withBrowser(async (browser) => {
  const { page, complaints } = await newPage(browser, { colorScheme: 'light' }, new URL(link).origin);
  await page.goto(link);
  await page.waitForSelector('html[data-answered]', { timeout: 60_000 });
  const seen = { complaints, url: page.url() };
  await drive(page, seen);
  await page.emulateMedia({ colorScheme: 'dark' });
  await picture(page, 'dark');
  console.log(JSON.stringify(seen));
});
