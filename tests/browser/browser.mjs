// What all scripts here share: a browser, and a list of what a page complained of.
import { pathToFileURL } from 'node:url';

const { chromium } = await import(pathToFileURL(process.env.PLAYWRIGHT).href);

/** Opens a browser without a window, calls `use` with it, and closes it whatever happens. */
export async function withBrowser(use) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    // Root may not use the sandbox; the pages are our own.
    args: ['--no-sandbox', '--disable-gpu'],
  });
  try {
    await use(browser);
  } finally {
    await browser.close();
  }
}

/**
 * A page whose complaints are noted, and whose requests beyond files and that origin (of a server of
 * ours) are, too.
 */
export async function newPage(browser, options = {}, origin = null) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    acceptDownloads: true,
    ...options,
  });
  const page = await context.newPage();
  const complaints = [];
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('request', (request) => {
    const url = request.url();
    const isOurs = origin !== null && url.startsWith(`${origin}/`);
    if (!isOurs && !/^(file|data|blob|about):/.test(url)) complaints.push(`a request to ${url}`);
  });
  return { page, complaints };
}

/** Does something in the page of `corprof view`, and waits until what it asks for is shown. */
export async function answered(page, action) {
  const before = await page.evaluate(() => window.corprof.asked);
  await action();
  await page.waitForFunction(
    (before) => window.corprof.asked > before && window.corprof.answered === window.corprof.asked,
    before,
  );
}
