/** The part of the address after `#`, which says what is shown: a link restores it. */

/** What is shown, by names, which outlast the numbers of one reading. */
export type Shown = Map<string, string>;

/** What the address says. */
export function read(): Shown {
  return new Map(new URLSearchParams(location.hash.slice(1)));
}

/** Puts it into the address; empty texts are left out. */
export function write(shown: Shown): void {
  const parts = new URLSearchParams();
  for (const [name, text] of shown) if (text !== '') parts.set(name, text);
  const hash = parts.toString();
  if (hash !== location.hash.slice(1)) {
    history.replaceState(null, '', hash === '' ? `${location.pathname}${location.search}` : `#${hash}`);
  }
}
