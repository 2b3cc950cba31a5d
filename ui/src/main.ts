/** The page: reads the profile in it, and shows what is asked for. */

import { colours, onThemeChange } from './colours';
import { type Choices, Controls, labelsOf } from './controls';
import type { Direction, Naming } from './flame';
import { marksOf, onKeys, showAbout, showMatched } from './frame';
import { EMPTY, Graphs } from './graphs';
import { showLegend } from './legend';
import { showPath } from './path';
import { type Profile, read, VALUES } from './profile';
import { callees, callers } from './sandwich';
import { Adder, type Selection, type Totals } from './selection';
import { element, Table } from './table';
import { Tip } from './tip';

/** The page at work. */
class Page {
  private readonly adder: Adder;
  private readonly controls: Controls;
  private readonly table: Table;
  private readonly naming: Naming;
  private readonly graphs: Graphs;
  private readonly search = element<HTMLInputElement>('search');
  private readonly tip: Tip;
  private tree = EMPTY;
  private totals: Totals = { self: new Float64Array(), total: new Float64Array() };
  private chosen = -1;

  constructor(private readonly profile: Profile) {
    const { functions } = profile.header;
    this.naming = { name: (of) => functions.names[of], origin: (of) => functions.origins[of] };
    this.adder = new Adder(profile);
    this.tip = new Tip(profile.header);
    this.controls = new Controls(choices(profile), () => this.show());
    this.table = new Table(profile.header, (of) => this.choose(of));
    this.graphs = new Graphs(this.naming, this.tip, () => this.tree.total[0], {
      zoomed: (node) => this.path(node),
      chosen: (of) => this.choose(of),
    });
    this.legend(false);
    this.about();
    this.listen();
    this.show();
  }

  /** Adds up what is selected, and shows it everywhere. */
  private show(): void {
    this.tree = this.adder.tree(this.selection());
    this.graphs.show(this.tree);
    this.totals = this.adder.totals(this.tree);
    this.path(0);
    this.find();
    if (this.chosen >= 0) this.sandwich();
    document.documentElement.dataset['whole'] = String(this.tree.total[0]);
  }

  private selection(): Selection {
    const { label, ...chosen } = this.controls.chosen();
    const sets = this.profile.header.labels;
    const has = (set: [string, string][]) => set.some((one) => one.join('=') === label);
    const labels = label === null ? null
      : new Set(sets.flatMap((set, at) => (has(set) ? [at] : [])));
    return { ...chosen, labels };
  }

  /** Shows the callers and callees of a function; -1 is none. */
  private choose(of: number): void {
    this.chosen = of;
    element('graph').hidden = of >= 0;
    element('sandwich').hidden = of < 0;
    this.table.markChosen(of);
    this.tip.hide();
    if (of >= 0) this.sandwich();
  }

  private sandwich(): void {
    const count = this.profile.header.functions.names.length;
    const nodes = this.adder.nodesOf(this.tree, this.chosen);
    element('chosen').textContent = this.naming.name(this.chosen);
    this.graphs.showSides(callers(this.tree, nodes, count), callees(this.tree, nodes, count));
  }

  /** Marks what the search finds, and says what part of all time that is. */
  private find(): void {
    const marks = marksOf(this.search.value.trim(), this.profile.header.functions.names);
    const whole = this.tree.total[0];
    this.graphs.mark(marks);
    this.table.show(this.totals, whole, marks);
    showMatched(marks ? this.tree.marked(marks) : -1, whole);
  }

  /** How one came to what is zoomed to. */
  private path(node: number): void {
    const go = (step: number) => this.graphs.zoomTo(step);
    showPath(element('path'), this.tree, node, (of) => this.naming.name(of), go);
  }

  private legend(onPaper: boolean): void {
    showLegend(element('legend'), this.profile.header.origins, colours(onPaper).origins);
  }

  private about(): void {
    const { name, start_unix_ms, duration_ns, files, filter } = this.profile.header;
    showAbout(name, start_unix_ms, duration_ns / 1e9, files, filter.text);
  }

  private listen(): void {
    this.search.addEventListener('input', () => this.find());
    element('back').addEventListener('click', () => this.choose(-1));
    const direction = element<HTMLSelectElement>('direction');
    direction.addEventListener('change', () => this.graphs.turn(direction.value as Direction));
    onKeys(this.search, {
      searched: () => this.find(),
      back: () => {
        const isShown = this.chosen >= 0;
        if (isShown) this.choose(-1);
        return isShown;
      },
      all: () => this.graphs.zoomTo(0),
    });
    onThemeChange(() => {
      this.legend(false);
      this.graphs.redraw();
    });
    const print = (onPaper: boolean) => {
      this.legend(onPaper);
      this.graphs.print(onPaper);
    };
    window.addEventListener('beforeprint', () => print(true));
    window.addEventListener('afterprint', () => print(false));
  }

  /** The middle of a function's widest box, in the page; for tests. */
  whereIs(name: string): { x: number; y: number } | null {
    return this.graphs.whereIs(this.profile.header.functions.names.indexOf(name));
  }
}

/** What there is to choose from in a profile. */
function choices(profile: Profile): Choices {
  const { header, rows } = profile;
  const present = new Set(rows.state);
  const states = header.states.map((name, at): [string, number] => [name, at + 1]);
  return {
    values: VALUES.filter((value) => rows.values[value].some((ns) => ns > 0)),
    value: header.value,
    threads: header.threads,
    endpoints: header.endpoints,
    states: states.filter(([, number]) => present.has(number)),
    labels: labelsOf(header.labels),
    filter: header.filter,
  };
}

async function start(): Promise<void> {
  try {
    const page = new Page(await read(element('profile').textContent ?? ''));
    Object.assign(window, { corprof: page });
    document.documentElement.dataset['ready'] = 'true';
  } catch (error) {
    const problem = element('problem');
    problem.hidden = false;
    problem.textContent = `The profile in this page can't be shown: ${String(error)}. `
      + 'Make the page anew with corprof flamegraph, and open it in a browser of 2023 or later.';
  }
}

void start();
