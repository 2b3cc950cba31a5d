/** The form: what of the profile is shown. */

import { type Profile, type Value, VALUES } from './profile';
import type { Selection } from './selection';
import { element } from './table';

const VALUE_NAMES: Record<Value, string> = { cpu: 'CPU', wall: 'wall', gc: 'GC pauses' };
const ALL = '-1';

/** Fills the form; calls back when another part is to be shown. */
export class Controls {
  private readonly value = element<HTMLSelectElement>('value');
  private readonly thread = element<HTMLSelectElement>('thread');
  private readonly endpoint = element<HTMLSelectElement>('endpoint');
  private readonly state = element<HTMLSelectElement>('state');
  private readonly label = element<HTMLSelectElement>('label');
  private readonly fold = element<HTMLInputElement>('fold');

  constructor(private readonly profile: Profile, changed: () => void) {
    const { header, rows } = profile;
    for (const value of VALUES) {
      if (!rows.values[value].some((ns) => ns > 0)) continue;
      this.value.append(new Option(VALUE_NAMES[value], value));
    }
    this.value.value = header.value;
    fill(this.thread, 'all threads', header.threads.map((name, at) => [name, at]));
    fill(this.endpoint, 'all', header.endpoints.map((name, at) => [name, at]));
    fill(this.state, 'all', statesOf(profile));
    fill(this.label, 'all', labelsOf(profile).map((text) => [text, text]));
    element('controls').addEventListener('submit', (event) => event.preventDefault());
    for (const field of [this.value, this.thread, this.endpoint, this.state, this.label, this.fold]) {
      field.addEventListener('change', changed);
    }
  }

  selection(): Selection {
    return {
      value: this.value.value as Value,
      thread: Number(this.thread.value),
      endpoint: Number(this.endpoint.value),
      state: Number(this.state.value),
      labels: this.labels(),
      fold: this.fold.checked,
    };
  }

  private labels(): ReadonlySet<number> | null {
    const wanted = this.label.value;
    if (wanted === ALL) return null;
    const sets = this.profile.header.labels;
    const has = (set: [string, string][]) => set.some((label) => label.join('=') === wanted);
    return new Set(sets.flatMap((set, at) => (has(set) ? [at] : [])));
  }
}

function fill(select: HTMLSelectElement, all: string, options: [string, number | string][]): void {
  select.append(new Option(all, ALL));
  for (const [name, value] of options) select.append(new Option(name, String(value)));
  const hasChoice = options.length > 1;
  select.disabled = !hasChoice;
  const label = select.closest('label');
  if (label && options.length === 0) label.hidden = true;
}

/** The states that there are. */
function statesOf(profile: Profile): [string, number][] {
  const present = new Set(profile.rows.state);
  const states = profile.header.states.map((name, at): [string, number] => [name, at + 1]);
  return states.filter(([, number]) => present.has(number));
}

/** All labels, as `name=value`. */
function labelsOf(profile: Profile): string[] {
  const labels = profile.header.labels.flat().map((label) => label.join('='));
  return [...new Set(labels)].sort();
}
