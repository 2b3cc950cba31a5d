// Makes each page one file: its script and its style go into its HTML. `node build.mjs FOLDER`
// writes there, and without a folder to dist.
import { build } from 'esbuild';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** For each page its HTML, script and style. */
const PAGES = {
  'flamegraph.html': ['src/page.html', 'src/main.ts', 'src/style.css'],
  'view.html': ['src/view.html', 'src/view.ts', 'src/view.css'],
};

const folder = process.argv[2] ?? 'dist';
await mkdir(folder, { recursive: true });
for (const [name, [html, script, style]] of Object.entries(PAGES)) {
  const bundled = await build({
    entryPoints: [script, style],
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
  const page = (await readFile(html, 'utf8'))
    .replace('/* style */', () => text('.css').trim())
    .replace('/* script */', () => text('.js').trim());
  await writeFile(join(folder, name), page);
}
