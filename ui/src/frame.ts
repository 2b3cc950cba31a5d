/** What both pages have around their graphs: a title, a search, keys. */

import { element } from './table';
import { ms, percent, stamp } from './text';

/**
 * Says what is shown, since when (in milliseconds since 1970; 0 if unknown), how long it was, and
 * which filters have left only a part.
 */
export function showAbout(
  name: string, begin: number, seconds: number, files: number, filter = '',
): void {
  const title = [name, filter].filter((part) => part).join(' ');
  element('title').textContent = title || 'corprof';
  document.title = `${title} · corprof`;
  const since = begin > 0 ? stamp(begin) : '';
  const parts = [since, `${seconds.toFixed(1)} s`, `${files} file${files === 1 ? '' : 's'}`];
  element('about').textContent = parts.filter((part) => part).join(', ');
}

/** Which functions have the word in their names; none without a word. */
export function marksOf(word: string, names: readonly string[]): Uint8Array | null {
  const wanted = word.toLowerCase();
  return wanted === '' ? null
    : Uint8Array.from(names, (name) => (name.toLowerCase().includes(wanted) ? 1 : 0));
}

/** Says what part of all time is under the functions that are found; -1 if nothing is searched. */
export function showMatched(ns: number, whole: number): void {
  const matched = element('matched');
  matched.dataset['matched'] = String(Math.max(ns, 0));
  matched.textContent = ns >= 0 ? `found in ${percent(ns, whole)}, ${ms(ns)}` : '';
}

/** What keys do. */
export interface Keys {
  searched(): void;
  /** Leads back from callers and callees; whether they were shown. */
  back(): boolean;
  /** Shows the whole graph. */
  all(): void;
}

/** `/` searches, Escape ends the search, leads back, shows all. */
export function onKeys(search: HTMLInputElement, keys: Keys): void {
  document.addEventListener('keydown', (event) => {
    const field = event.target instanceof HTMLInputElement ? event.target.type : 'checkbox';
    if (event.key === '/' && field === 'checkbox') {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === 'Escape' && event.target === search) {
      search.value = '';
      keys.searched();
      search.blur();
    } else if (event.key === 'Escape' && !keys.back()) {
      // A graph that has the focus does it itself.
      if (!(event.target instanceof HTMLCanvasElement)) keys.all();
    }
  });
}
