/** The form: what of the profile is shown. */

import { type Filter, type Value, VALUES } from './profile';
import { element } from './table';

const VALUE_NAMES: Record<Value, string> = { cpu: 'CPU', wall: 'wall', gc: 'GC pauses' };
const ALL = '-1';

/** What there is to choose from. */
export interface Choices {
  /** Values of which there is anything. */
  values: readonly Value[];
  value: Value;
  threads: readonly string[];
  endpoints: readonly string[];
  /** Names, and the numbers that rows have. */
  states: readonly [string, number][];
  /** As `name=value`. */
  labels: readonly string[];
  /** What the profile has only a part of. */
  filter?: Filter;
}

/** What is chosen; -1 is everything. */
export interface Chosen {
  value: Value;
  thread: number;
  endpoint: number;
  state: number;
  /** As `name=value`. */
  label: string | null;
  fold: boolean;
}

/** Fills the form; calls back when another part is to be shown. */
export class Controls {
  private readonly value = element<HTMLSelectElement>('value');
  private readonly thread = element<HTMLSelectElement>('thread');
  private readonly endpoint = element<HTMLSelectElement>('endpoint');
  private readonly state = element<HTMLSelectElement>('state');
  private readonly label = element<HTMLSelectElement>('label');
  private readonly fold = element<HTMLInputElement>('fold');

  constructor(choices: Choices, changed: () => void) {
    for (const value of VALUES) {
      if (choices.values.includes(value)) this.value.append(new Option(VALUE_NAMES[value], value));
    }
    this.value.value = choices.value;
    fill(this.thread, 'all threads', choices.threads.map((name, at) => [name, at]));
    const all = (only?: string | null) => (only ? `only ${only}` : 'all');
    const { filter } = choices;
    fill(this.endpoint, all(filter?.endpoint), choices.endpoints.map((name, at) => [name, at]));
    fill(this.state, all(filter?.state), choices.states);
    fill(this.label, all(filter?.label), choices.labels.map((text) => [text, text]));
    element('controls').addEventListener('submit', (event) => event.preventDefault());
    for (const field of [this.value, this.thread, this.endpoint, this.state, this.label, this.fold]) {
      field.addEventListener('change', changed);
    }
  }

  /** Offers these threads only, by name and number; one that is not among them is not chosen. */
  offerThreads(threads: readonly (readonly [string, number])[]): void {
    refill(this.thread, 'all threads', ALL, threads);
  }

  /** What is chosen now. */
  chosen(): Chosen {
    return {
      value: this.value.value as Value,
      thread: Number(this.thread.value),
      endpoint: Number(this.endpoint.value),
      state: Number(this.state.value),
      label: this.label.value === ALL ? null : this.label.value,
      fold: this.fold.checked,
    };
  }

  /** Chooses something; what there is not is everything. */
  choose(chosen: Partial<Chosen>): void {
    const set = (select: HTMLSelectElement, value: string | number | null | undefined) => {
      if (value === undefined) return;
      select.value = String(value ?? ALL);
      if (select.selectedIndex < 0) select.selectedIndex = 0;
    };
    set(this.value, chosen.value);
    set(this.thread, chosen.thread);
    set(this.endpoint, chosen.endpoint);
    set(this.state, chosen.state);
    set(this.label, chosen.label);
    this.fold.checked = chosen.fold ?? this.fold.checked;
  }
}

function fill(
  select: HTMLSelectElement,
  all: string,
  options: readonly (readonly [string, number | string])[],
): void {
  refill(select, all, ALL, options);
  const label = select.closest('label');
  if (label && options.length === 0) label.hidden = true;
}

/** Puts other options into a field, which keeps its choice if that is among them. */
export function refill(
  select: HTMLSelectElement,
  all: string,
  none: string,
  options: readonly (readonly [string, number | string])[],
): void {
  const { value } = select;
  const offered = options.map(([name, value]) => new Option(name, String(value)));
  select.replaceChildren(new Option(all, none), ...offered);
  select.value = value;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
  select.disabled = options.length < 2 && select.selectedIndex === 0;
}

/** All labels of these sets, as `name=value`. */
export function labelsOf(sets: readonly [string, string][][]): string[] {
  return [...new Set(sets.flat().map((label) => label.join('=')))].sort();
}
