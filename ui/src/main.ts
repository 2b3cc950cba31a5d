/** The page: reads the profile in it, and shows what is asked for. */

import { colours, onThemeChange } from './colours';
import { type Choices, Controls, labelsOf } from './controls';
import { type Direction, Flame, type Listener, type Naming } from './flame';
import { showLegend } from './legend';
import { showPath } from './path';
import { type Profile, read, VALUES } from './profile';
import { callees, callers } from './sandwich';
import { Adder, type Selection, type Totals } from './selection';
import { element, Table } from './table';
import { ms, percent } from './text';
import { Tip } from './tip';
import { Tree } from './tree';

const EMPTY = new Tree(Int32Array.of(-1), Int32Array.of(-1), Float64Array.of(0));

/** The page at work. */
class Page {
  private readonly adder: Adder;
  private readonly controls: Controls;
  private readonly table: Table;
  private readonly naming: Naming;
  private readonly graph: Flame;
  private readonly callers: Flame;
  private readonly callees: Flame;
  private readonly trees = new Map<string, Tree>();
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
    this.graph = this.flame('flame', 'icicle', 'Flame graph: arrows go to callers, callees and '
      + 'neighbours, Enter zooms, s shows callers and callees, Escape shows all');
    this.callers = this.flame('callers', 'flame', 'Callers of the chosen function');
    this.callees = this.flame('callees', 'icicle', 'Callees of the chosen function');
    this.legend(false);
    this.about();
    this.listen();
    this.show();
  }

  private flame(id: string, direction: Direction, label: string): Flame {
    const treeOf = () => this.trees.get(id) ?? EMPTY;
    const listener: Listener = {
      zoomed: (node) => {
        if (id === 'flame') this.path(node);
        this.tip.tell(treeOf(), node, this.whole());
      },
      pointed: (node, x, y) => this.tip.point(treeOf(), node, this.whole(), x, y),
      focused: (node) => this.tip.tell(treeOf(), node, this.whole()),
      chosen: (node) => this.choose(treeOf().functions[node]),
    };
    return new Flame(element(id), this.naming, colours, listener, direction, label);
  }

  /** Adds up what is selected, and shows it everywhere. */
  private show(): void {
    this.tree = this.adder.tree(this.selection());
    this.put('flame', this.graph, this.tree);
    this.totals = this.adder.totals(this.tree);
    this.path(0);
    this.find();
    if (this.chosen >= 0) this.sandwich();
    document.documentElement.dataset['whole'] = String(this.tree.total[0]);
  }

  /** All nanoseconds. */
  private whole(): number {
    return this.tree.total[0];
  }

  private selection(): Selection {
    const { label, ...chosen } = this.controls.chosen();
    const sets = this.profile.header.labels;
    const has = (set: [string, string][]) => set.some((one) => one.join('=') === label);
    const labels = label === null ? null
      : new Set(sets.flatMap((set, at) => (has(set) ? [at] : [])));
    return { ...chosen, labels };
  }

  private put(id: string, flame: Flame, tree: Tree): void {
    this.trees.set(id, tree);
    flame.show(tree);
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
    this.put('callers', this.callers, callers(this.tree, nodes, count));
    this.put('callees', this.callees, callees(this.tree, nodes, count));
  }

  /** Marks what the search finds, and says what part of all time that is. */
  private find(): void {
    const wanted = this.search.value.trim().toLowerCase();
    const { names } = this.profile.header.functions;
    const marks = wanted === '' ? null
      : Uint8Array.from(names, (name) => (name.toLowerCase().includes(wanted) ? 1 : 0));
    for (const flame of [this.graph, this.callers, this.callees]) flame.mark(marks);
    this.table.show(this.totals, this.tree.total[0], marks);
    const matched = element('matched');
    const ns = marks ? this.tree.marked(marks) : 0;
    matched.dataset['matched'] = String(ns);
    matched.textContent = marks ? `found in ${percent(ns, this.tree.total[0])}, ${ms(ns)}` : '';
  }

  /** How one came to what is zoomed to. */
  private path(node: number): void {
    const go = (step: number) => this.graph.zoomTo(step);
    showPath(element('path'), this.tree, node, (of) => this.naming.name(of), go);
  }

  private legend(onPaper: boolean): void {
    showLegend(element('legend'), this.profile.header.origins, colours(onPaper).origins);
  }

  private about(): void {
    const { header } = this.profile;
    element('title').textContent = header.name || 'corprof';
    document.title = `${header.name} · corprof`;
    const begin = header.start_unix_ms > 0 ? new Date(header.start_unix_ms).toISOString() : '';
    const seconds = (header.duration_ns / 1e9).toFixed(1);
    const files = `${header.files} file${header.files === 1 ? '' : 's'}`;
    const parts = [begin.slice(0, 19).replace('T', ' '), `${seconds} s`, files];
    element('about').textContent = parts.filter((part) => part).join(', ');
  }

  private listen(): void {
    const flames = [this.graph, this.callers, this.callees];
    this.search.addEventListener('input', () => this.find());
    element('back').addEventListener('click', () => this.choose(-1));
    const direction = element<HTMLSelectElement>('direction');
    direction.addEventListener('change', () => this.graph.turn(direction.value as Direction));
    document.addEventListener('keydown', (event) => this.key(event));
    onThemeChange(() => {
      this.legend(false);
      for (const flame of flames) flame.redraw();
    });
    const print = (onPaper: boolean) => {
      this.legend(onPaper);
      for (const flame of flames) flame.print(onPaper);
    };
    window.addEventListener('beforeprint', () => print(true));
    window.addEventListener('afterprint', () => print(false));
  }

  private key(event: KeyboardEvent): void {
    const isTyping = event.target === this.search;
    if (event.key === '/' && !isTyping) {
      event.preventDefault();
      this.search.focus();
      this.search.select();
    } else if (event.key === 'Escape' && isTyping) {
      this.search.value = '';
      this.find();
      this.search.blur();
    } else if (event.key === 'Escape' && this.chosen >= 0) {
      this.choose(-1);
    } else if (event.key === 'Escape' && !(event.target instanceof HTMLCanvasElement)) {
      this.graph.zoomTo(0);
    }
  }

  /** The middle of a function's widest box, in the page; for tests. */
  whereIs(name: string): { x: number; y: number } | null {
    return this.graph.whereIs(this.profile.header.functions.names.indexOf(name));
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
