// Opens a file in speedscope, has speedscope export what it understood, and puts that to OUT.
//
//   node speedscope.mjs FILE OUT PICTURE
import { readFile, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { pathToFileURL } from 'node:url';
import { newPage, withBrowser } from './browser.mjs';

const [file, out, picture] = process.argv.slice(2);

await withBrowser(async (browser) => {
  const { page, complaints } = await newPage(browser);
  // As its own command line does: a script that the page loads gives it the file.
  const base64 = (await readFile(file)).toString('base64');
  const name = JSON.stringify(basename(file));
  const script = `${out}.js`;
  await writeFile(script, `speedscope.loadFileFromBase64(${name}, ${JSON.stringify(base64)})`);
  const url = pathToFileURL(process.env.SPEEDSCOPE);
  url.hash = `localProfilePath=${script}`;
  await page.goto(url.href);
  const button = page.getByText('Export', { exact: false }).first();
  await button.waitFor({ timeout: 60_000 });
  await page.screenshot({ path: picture });
  const [download] = await Promise.all([page.waitForEvent('download'), button.click()]);
  await download.saveAs(out);
  console.log(JSON.stringify({ complaints }));
});
