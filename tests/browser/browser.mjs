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

/** A page whose complaints, and whose requests beyond files, are noted. */
export async function newPage(browser, options = {}) {
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
    if (!/^(file|data|blob|about):/.test(url)) complaints.push(`a request to ${url}`);
  });
  return { page, complaints };
}
