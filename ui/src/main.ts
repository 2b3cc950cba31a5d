/** The page: reads the profile in it, and shows what is asked for. */

import { colours, onThemeChange } from './colours';
import { Controls } from './controls';
import { type Direction, Flame, type Listener, type Naming } from './flame';
import { type Profile, read } from './profile';
import { callees, callers } from './sandwich';
import { Adder, type Totals } from './selection';
import { element, Table } from './table';
import { ms, percent } from './text';
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
  private readonly tip = element('tip');
  private tree = EMPTY;
  private totals: Totals = { self: new Float64Array(), total: new Float64Array() };
  private chosen = -1;

  constructor(private readonly profile: Profile) {
    const { functions } = profile.header;
    this.naming = { name: (of) => functions.names[of], origin: (of) => functions.origins[of] };
    this.adder = new Adder(profile);
    this.controls = new Controls(profile, () => this.show());
    this.table = new Table(profile, (of) => this.choose(of));
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
        this.tell(treeOf(), node);
      },
      pointed: (node, x, y) => this.point(treeOf(), node, x, y),
      focused: (node) => this.tell(treeOf(), node),
      chosen: (node) => this.choose(treeOf().functions[node]),
    };
    return new Flame(element(id), this.naming, colours, listener, direction, label);
  }

  /** Adds up what is selected, and shows it everywhere. */
  private show(): void {
    this.tree = this.adder.tree(this.controls.selection());
    this.put('flame', this.graph, this.tree);
    this.totals = this.adder.totals(this.tree);
    this.path(0);
    this.find();
    if (this.chosen >= 0) this.sandwich();
    document.documentElement.dataset['whole'] = String(this.tree.total[0]);
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
    this.point(EMPTY, -1, 0, 0);
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
    const steps = this.tree.path(node).map((step) => {
      const button = document.createElement('button');
      button.type = 'button';
      const of = this.tree.functions[step];
      button.textContent = of < 0 ? 'all' : this.naming.name(of);
      button.addEventListener('click', () => this.graph.zoomTo(step));
      return button;
    });
    // A deep stack would fill the page: its beginning and its end say enough.
    const shown: (Node | string)[] = steps.length > 7 ? [steps[0], '…', ...steps.slice(-5)] : steps;
    const parts = shown.flatMap((step, at) => (at > 0 ? [' › ', step] : [step]));
    element('path').replaceChildren(...parts);
  }

  private text(tree: Tree, node: number): string {
    const of = tree.functions[node];
    const whole = this.tree.total[0];
    const { functions, modules, origins } = this.profile.header;
    const amount = (ns: number) => `${ms(ns)} (${percent(ns, whole)})`;
    const times = `total ${amount(tree.total[node])}\nself ${amount(tree.self[node])}`;
    if (of < 0) return `all\n${times}`;
    const module = modules[functions.modules[of]];
    const origin = origins[functions.origins[of]];
    return `${functions.names[of]}\n${module ? `${module}, ${origin}` : origin}\n${times}`;
  }

  private point(tree: Tree, node: number, x: number, y: number): void {
    this.tip.hidden = node < 0;
    if (node < 0) return;
    this.tip.textContent = this.text(tree, node);
    const { offsetWidth, offsetHeight } = this.tip;
    this.tip.style.left = `${Math.max(Math.min(x + 14, innerWidth - offsetWidth - 8), 4)}px`;
    const below = y + 18 + offsetHeight < innerHeight;
    this.tip.style.top = `${below ? y + 18 : Math.max(y - offsetHeight - 10, 4)}px`;
  }

  /** For those who don't see it. */
  private tell(tree: Tree, node: number): void {
    element('told').textContent = this.text(tree, node);
  }

  private legend(onPaper: boolean): void {
    const { origins } = this.profile.header;
    const items = origins.map((name, at) => {
      const item = document.createElement('li');
      const colour = document.createElement('span');
      colour.style.background = colours(onPaper).origins[at];
      item.append(colour, name);
      return item;
    });
    element('legend').replaceChildren(...items);
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

  /** The middle of the box of a function's first node, in the page; for tests. */
  whereIs(name: string): { x: number; y: number } | null {
    const of = this.profile.header.functions.names.indexOf(name);
    for (const node of this.adder.nodesOf(this.tree, of)) {
      const place = this.graph.where(node);
      const corner = element('flame').getBoundingClientRect();
      const scrolled = element('flame').scrollTop;
      if (place) return { x: corner.left + place.x + 1, y: corner.top + place.y + 1 - scrolled };
    }
    return null;
  }
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
