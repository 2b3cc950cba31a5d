/** The table of functions, the largest first. */

import type { Names } from './names';
import type { Totals } from './selection';
import { ms, percent } from './text';

const ROWS_MAX = 100;

export type Sort = 'self' | 'total';

/** The table beside the graph. */
export class Table {
  private readonly rows = element('rows');
  private readonly more = element('more');
  private sort: Sort = 'total';
  private totals: Totals = { self: new Float64Array(), total: new Float64Array() };
  private whole = 0;
  private marks: Uint8Array | null = null;
  private chosen = -1;

  constructor(private readonly names: Names, private readonly choose: (of: number) => void) {
    for (const button of document.querySelectorAll<HTMLButtonElement>('[data-sort]')) {
      button.addEventListener('click', () => this.sortBy(button.dataset['sort'] as Sort));
    }
    this.rows.addEventListener('click', (event) => {
      const row = (event.target as Element).closest('tr');
      if (row) this.choose(Number(row.dataset['function']));
    });
  }

  /**
   * Shows these, of functions that a search has found only those; `whole` is all time, in
   * nanoseconds.
   */
  show(totals: Totals, whole: number, marks: Uint8Array | null): void {
    this.totals = totals;
    this.whole = whole;
    this.marks = marks;
    this.fill();
  }

  /** Marks the function whose callers and callees are shown; -1 is none. */
  markChosen(of: number): void {
    this.chosen = of;
    for (const row of this.rows.querySelectorAll('tr')) {
      row.classList.toggle('chosen', Number(row.dataset['function']) === of);
    }
  }

  private sortBy(sort: Sort): void {
    this.sort = sort;
    for (const name of ['self', 'total']) {
      const heading = element(`by-${name}`);
      if (name === sort) heading.setAttribute('aria-sort', 'descending');
      else heading.removeAttribute('aria-sort');
    }
    this.fill();
  }

  private fill(): void {
    const { self, total } = this.totals;
    const by = this.totals[this.sort];
    const other = this.sort === 'self' ? total : self;
    const list: number[] = [];
    for (let of = 0; of < by.length; of++) {
      if (by[of] > 0 && (!this.marks || this.marks[of])) list.push(of);
    }
    list.sort((a, b) => by[b] - by[a] || other[b] - other[a] || a - b);
    this.rows.replaceChildren(...list.slice(0, ROWS_MAX).map((of) => this.row(of)));
    const more = list.length - ROWS_MAX;
    this.more.textContent = more > 0 ? `and ${more} more functions; search for them` : '';
  }

  private row(of: number): HTMLTableRowElement {
    const { functions, modules } = this.names;
    const row = document.createElement('tr');
    row.dataset['function'] = String(of);
    row.dataset['self'] = String(this.totals.self[of]);
    row.dataset['total'] = String(this.totals.total[of]);
    row.classList.toggle('chosen', of === this.chosen);
    const name = document.createElement('td');
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = functions.names[of];
    const module = document.createElement('small');
    module.textContent = ` ${modules[functions.modules[of]]}`;
    name.append(button, module);
    row.append(this.number(this.totals.self[of]), this.number(this.totals.total[of]), name);
    return row;
  }

  private number(ns: number): HTMLTableCellElement {
    const cell = document.createElement('td');
    cell.className = 'number';
    const share = document.createElement('small');
    share.textContent = percent(ns, this.whole);
    cell.append(ms(ns), share);
    return cell;
  }
}

/** An element of the page. */
export function element<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no ${id}`);
  return found as T;
}
