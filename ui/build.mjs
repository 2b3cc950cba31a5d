// Makes each page one file: its script and the style go into its HTML. `node build.mjs FOLDER`
// writes there, and without a folder to dist.
import { build } from 'esbuild';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** For each page its HTML and script. */
const PAGES = {
  'flamegraph.html': ['src/page.html', 'src/main.ts'],
  'view.html': ['src/view.html', 'src/view.ts'],
};
const STYLE = 'src/style.css';

const folder = process.argv[2] ?? 'dist';
await mkdir(folder, { recursive: true });
for (const [name, [html, script]] of Object.entries(PAGES)) {
  const bundled = await build({
    entryPoints: [script, STYLE],
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
