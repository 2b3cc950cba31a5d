// Makes each page one file: the script and the style go into the HTML. `node build.mjs FOLDER`
// writes there, and without a folder to dist.
import { build } from 'esbuild';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const folder = process.argv[2] ?? 'dist';
const bundled = await build({
  entryPoints: ['src/main.ts', 'src/style.css'],
  bundle: true,
  charset: 'utf8',
  format: 'iife',
  legalComments: 'none',
  outdir: 'out',
  target: ['es2022', 'chrome109', 'firefox115', 'safari16.4'],
  write: false,
});
const text = (end) => bundled.outputFiles.find((file) => file.path.endsWith(end)).text;
// A function, since `$` has a meaning in a replacement.
const page = (await readFile('src/page.html', 'utf8'))
  .replace('/* style */', () => text('.css').trim())
  .replace('/* script */', () => text('.js').trim());
await mkdir(folder, { recursive: true });
await writeFile(join(folder, 'flamegraph.html'), page);
