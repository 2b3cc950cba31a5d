/** Of which time a server's profiles are looked at: the latest, or one that is read for it. */

import { element } from './table';

/** In microseconds. */
const MINUTE = 60e6;

/** Shows the fields, where there is a store: from its first to its last profile, in microseconds. */
export function storeControls(store: [number, number] | null): void {
  const form = element('store');
  form.hidden = store === null;
  if (store === null) return;
  const [from, to] = ['store-from', 'store-to'].map((id) => element<HTMLInputElement>(id));
  const span = new URLSearchParams(location.search).get('span')?.split('-').map(Number) ?? store;
  // The fields have minutes; what is opened must have all of it, and the same when opened again.
  from.value = local(span[0]);
  to.value = local(Math.ceil(span[1] / MINUTE) * MINUTE);
  const go = (search: string) => {
    location.href = `${location.pathname}${search}${location.hash}`;
  };
  element('store-open').addEventListener('click', () => {
    const [begin, end] = [from, to].map((field) => new Date(field.value).getTime() * 1e3);
    const isKnown = !Number.isNaN(begin) && !Number.isNaN(end);
    element('store-problem').textContent = !isKnown ? 'both times are needed'
      : begin < end ? '' : 'that ends before it begins';
    if (begin < end) go(`?span=${begin}-${end}`);
  });
  element('store-latest').addEventListener('click', () => go(''));
}

/** A time as the field has it, in this place's time, to the minute. */
function local(us: number): string {
  const time = new Date(us / 1e3);
  const two = (number: number) => String(number).padStart(2, '0');
  const date = [time.getFullYear(), two(time.getMonth() + 1), two(time.getDate())].join('-');
  return `${date}T${two(time.getHours())}:${two(time.getMinutes())}`;
}
