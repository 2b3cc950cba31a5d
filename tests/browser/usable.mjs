// How long a page takes to answer, in milliseconds: each thing that one does, until the next frame
// is there. Prints JSON.
//
//   node usable.mjs PAGE ROUNDS
import { pathToFileURL } from 'node:url';
import { newPage, withBrowser } from './browser.mjs';

const [file, rounds] = process.argv.slice(2);

/** In the page: does one thing, waits for the picture, gives the time. */
async function timed(action) {
  const frame = () => new Promise((done) => requestAnimationFrame(() => done()));
  const select = (id, value) => {
    const field = document.getElementById(id);
    field.value = value;
    field.dispatchEvent(new Event('change'));
  };
  const page = window.corprof;
  const search = (word) => {
    const field = document.getElementById('search');
    field.value = word;
    field.dispatchEvent(new Event('input'));
  };
  const large = () => {
    const children = page.tree.childrenOf(0);
    return page.tree.childrenOf(children[0])[0] ?? children[0];
  };
  const actions = {
    zoom: () => page.graphs.zoomTo(large()),
    reset: () => page.graphs.zoomTo(0),
    search: () => search('order'),
    'end of search': () => search(''),
    unfold: () => document.getElementById('fold').click(),
    fold: () => document.getElementById('fold').click(),
    endpoint: () => select('endpoint', '1'),
    'all endpoints': () => select('endpoint', '-1'),
    value: () => select('value', 'wall'),
    'value back': () => select('value', 'cpu'),
    sandwich: () => document.querySelector('#rows tr:nth-child(1) button').click(),
    'end of sandwich': () => document.getElementById('back').click(),
  };
  await frame();
  const begin = performance.now();
  actions[action]();
  // What is asked for is drawn before this one, and laid out and painted right after it.
  await frame();
  await new Promise((done) => setTimeout(done));
  return performance.now() - begin;
}

const ACTIONS = [
  'zoom', 'reset', 'search', 'end of search', 'unfold', 'fold', 'endpoint', 'all endpoints',
  'value', 'value back', 'sandwich', 'end of sandwich',
];

await withBrowser(async (browser) => {
  const { page, complaints } = await newPage(browser);
  const begin = performance.now();
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector('html[data-ready=true]', { timeout: 60_000 });
  const opened = performance.now() - begin;
  const times = Object.fromEntries(ACTIONS.map((action) => [action, []]));
  for (let round = 0; round < Number(rounds); round++) {
    for (const action of ACTIONS) times[action].push(await page.evaluate(timed, action));
  }
  console.log(JSON.stringify({ opened, times, complaints }));
});
