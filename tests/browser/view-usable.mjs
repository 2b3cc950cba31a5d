// How long the page of `corprof view` takes to answer, in milliseconds: each thing that one does,
// until what it asks for is drawn. Prints JSON.
//
//   node view-usable.mjs LINK ROUNDS
import { newPage, withBrowser } from './browser.mjs';

const [link, rounds] = process.argv.slice(2);

/** In the page: does one thing, waits for the picture, gives the time. */
async function timed([action, round]) {
  const frame = () => new Promise((done) => requestAnimationFrame(() => done()));
  const page = window.corprof;
  const fire = (id, value, event = 'change') => {
    const field = document.getElementById(id);
    field.value = value;
    field.dispatchEvent(new Event(event));
  };
  const click = (id) => document.getElementById(id).click();
  const { from, to } = page.header;
  const times = (part) => part && part.map((at) => Math.round(from + at * (to - from)));
  const during = (part) => page.during(times(part));
  const shown = document.documentElement.dataset;
  const look = (part) => {
    delete shown.lanes;
    page.look(times(part));
  };
  // Another time in each round, so that none is known already.
  const step = round * 0.003;
  const actions = {
    'half of the time': () => during([0.2 + step, 0.7 + step]),
    'most of the time': () => during([0.02 + step, 0.95 + step]),
    'a percent of the time': () => during([0.4 + step, 0.41 + step]),
    endpoint: () => fire('endpoint', String(2 + (round % 3))),
    'all endpoints': () => fire('endpoint', '-1'),
    thread: () => fire('thread', String(round + 1)),
    'all threads': () => fire('thread', '-1'),
    'all of the time': () => during(null),
    unfold: () => click('fold'),
    fold: () => click('fold'),
    value: () => fire('value', 'wall'),
    'value back': () => fire('value', 'cpu'),
    search: () => fire('search', 'order', 'input'),
    'end of search': () => fire('search', '', 'input'),
    'look closer': () => look([0.1 + step, 0.6 + step]),
    'look very close': () => look([0.4 + step, 0.401 + step]),
    'the whole timeline': () => look(null),
    sandwich: () => document.querySelector(`#rows tr:nth-child(${round + 1}) button`).click(),
  };
  if (!action) return Object.keys(actions);
  await frame();
  const asked = page.asked;
  const isLook = action.includes('look') || action.includes('timeline');
  const isDone = () => (
    isLook ? 'lanes' in shown : page.asked > asked && page.answered === page.asked);
  const begin = performance.now();
  actions[action]();
  while (!isDone()) await frame();
  await new Promise((done) => setTimeout(done));
  const time = performance.now() - begin;
  if (action === 'sandwich') page.choose(-1);
  return time;
}

await withBrowser(async (browser) => {
  const { page, complaints } = await newPage(browser, {}, new URL(link).origin);
  const begin = performance.now();
  await page.goto(link);
  await page.waitForSelector('html[data-answered]', { timeout: 300_000 });
  await page.waitForSelector('html[data-lanes]', { timeout: 60_000 });
  const opened = performance.now() - begin;
  const actions = await page.evaluate(timed, ['', 0]);
  const times = Object.fromEntries(actions.map((action) => [action, []]));
  for (let round = 0; round < Number(rounds); round++) {
    for (const action of actions) times[action].push(await page.evaluate(timed, [action, round]));
  }
  const moments = await page.evaluate(() => window.corprof.header.moments);
  console.log(JSON.stringify({ opened, times, moments, complaints }));
});
