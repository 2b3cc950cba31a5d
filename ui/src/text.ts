/** Numbers and names as a person reads them. */

/** A time in milliseconds: `1,234.5 ms`. */
export function ms(ns: number): string {
  if (ns === 0) return '0';
  const value = ns / 1e6;
  const digits = value >= 100 ? 0 : value >= 1 ? 1 : 3;
  const format = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return `${value.toLocaleString('en', format)} ms`;
}

/** A part of a whole: `12.3 %`. */
export function percent(part: number, whole: number): string {
  return whole > 0 ? `${((part / whole) * 100).toFixed(1)} %` : '';
}

/** A moment, in milliseconds since 1970, by the clock of Greenwich: `2026-11-29 10:15:00`. */
export function stamp(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace('T', ' ');
}

const CUT = '…';

/** The name in at most that many letters; nothing if that would say nothing. */
export function fitted(name: string, letters: number): string {
  if (name.length <= letters) return name;
  if (letters < 3) return '';
  const plain = emptied(emptied(name, '(', ')'), '<', '>');
  if (plain.length <= letters) return plain;
  const bare = plain.split('(')[0];
  if (bare.length <= letters) return bare;
  if (bare.startsWith('[')) return bare.slice(0, letters - 1) + CUT;
  const parts = bare.split(/(?<=[^.])\.|::/);
  for (let first = 1; first < parts.length; first++) {
    const rest = parts.slice(first).join('.');
    if (rest.length < letters) return CUT + rest;
  }
  return bare.length > 0 ? parts[parts.length - 1].slice(0, letters - 1) + CUT : '';
}

/** The text with `…` for all that stands in brackets. */
function emptied(text: string, open: string, close: string): string {
  let result = '';
  let depth = 0;
  let isFull = false;
  for (const letter of text) {
    if (letter === close && depth > 0) {
      depth--;
      if (depth === 0 && isFull) result += CUT;
    }
    if (depth === 0) result += letter;
    else isFull = true;
    if (letter === open) {
      depth++;
      if (depth === 1) isFull = false;
    }
  }
  return result;
}
