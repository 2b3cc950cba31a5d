/** The page of `corprof view`: asks the command line for what is looked at, and shows it. */

import { type Diff, flame, type Flame as Answer, header, type Header, type Lanes, type Line } from './answers';
import { type Requests, sandwich, type Source, sourceNames, told, Trouble } from './answers';
import { colours, onThemeChange } from './colours';
import { Controls, labelsOf, refill } from './controls';
import type { Direction, Naming } from './flame';
import { marksOf, onKeys, showAbout, showMatched } from './frame';
import { EMPTY, Graphs } from './graphs';
import { showLegend } from './legend';
import * as link from './link';
import { showDiff, showLines, showRequests } from './lists';
import { showPath } from './path';
import type { Value } from './profile';
import { storeControls } from './store';
import { element, Table } from './table';
import { Timeline } from './timeline';
import { Tip } from './tip';

const TABS = ['functions', 'requests', 'changes'] as const;
type Tab = (typeof TABS)[number];
/** Fields by which sources are chosen, and what they are of a source. */
const GROUPS = ['service', 'version', 'instance'] as const;
/** Files that are offered by name. */
const MAX_FILES = 50;

/** The page at work. */
class Viewer {
  private readonly controls: Controls;
  private readonly table: Table;
  private readonly naming: Naming;
  private readonly graphs: Graphs;
  private readonly timeline: Timeline;
  private readonly tip: Tip;
  private readonly search = element<HTMLInputElement>('search');
  private readonly direction = element<HTMLSelectElement>('direction');
  private answer: Answer;
  private chosen = -1;
  private request = '';
  private range: [number, number] | null = null;
  /** The time that the timeline shows. */
  private window: [number, number] | null = null;
  private tab: Tab = 'functions';
  /** What is compared, as questions. */
  private sides: [string, string] = ['', ''];
  /** Counts questions, so that an answer that comes too late is seen. */
  private asked = 0;
  private answered = 0;
  /** The same for the timeline. */
  private askedLanes = 0;

  constructor(private readonly header: Header) {
    const { functions } = header;
    this.naming = {
      name: (of) => header.functions.names[of],
      origin: (of) => header.functions.origins[of],
    };
    const count = functions.names.length;
    const totals = { self: new Float64Array(count), total: new Float64Array(count) };
    const ids = new Int32Array();
    this.answer = { tree: EMPTY, ids, isCut: false, zoom: 0, totals, whole: 0, known: count };
    this.tip = new Tip(header);
    const states = header.states.map((name, at): [string, number] => [name, at + 1]);
    this.controls = new Controls({
      values: header.values,
      value: header.values[0] ?? 'cpu',
      threads: header.threads,
      endpoints: header.endpoints,
      states: states.filter(([, number]) => header.present.includes(number)),
      labels: labelsOf(header.labels),
    }, () => this.changed());
    this.table = new Table(header, (of) => this.choose(of));
    this.graphs = new Graphs(this.naming, this.tip, () => this.answer.whole, {
      zoomed: (node) => this.zoomed(node),
      chosen: (of) => this.choose(of),
    });
    this.timeline = new Timeline(element('lanes'), header.states, header.from,
      () => colours(false), {
        chosen: (range) => this.during(range),
        thread: (thread) => {
          this.controls.choose({ thread });
          this.changed();
        },
        pointed: (text, x, y) => (text === '' ? this.tip.hide() : this.tip.show(text, x, y)),
      });
    this.sources();
    this.legends();
    this.about();
    this.listen();
    this.restore();
  }

  /** The question for what is chosen. */
  private query(): string {
    const { value, thread, endpoint, state, label, fold } = this.controls.chosen();
    const parts = new URLSearchParams({ value, fold: fold ? '1' : '0' });
    if (thread >= 0) parts.set('thread', String(thread));
    if (endpoint >= 0) parts.set('endpoint', String(endpoint));
    if (state >= 0) parts.set('state', String(state));
    if (label !== null) parts.set('label', label);
    if (this.request !== '') parts.set('request', this.request);
    if (this.range) {
      parts.set('from', String(this.range[0]));
      parts.set('to', String(this.range[1]));
    }
    for (const [name, text] of this.sourceParts()) parts.set(name, text);
    return parts.toString();
  }

  private sourceParts(): [string, string][] {
    const fields = [...GROUPS, 'source'];
    const parts = fields.map((name): [string, string] => [
      name, element<HTMLSelectElement>(name).value]);
    return parts.filter(([, text]) => text !== '');
  }

  /** Something else is chosen: asks for it. */
  private changed(): void {
    this.remember();
    const { thread } = this.controls.chosen();
    this.timeline.mark(this.range, thread);
    void this.guarded(() => this.show(0));
  }

  /** Asks for all that is shown. */
  private async show(zoom: number): Promise<void> {
    const asked = ++this.asked;
    const query = this.query();
    const parts = zoom > 0 ? `${query}&zoom=${zoom}` : query;
    const answer = await flame(parts);
    if (answer.known > this.header.functions.names.length) {
      // Profiles have come in the meantime.
      const { functions, modules } = await told<Header>('header');
      Object.assign(this.header, { functions, modules });
    }
    if (asked !== this.asked) return;
    this.answer = answer;
    this.graphs.show(answer.tree, answer.zoom);
    this.path(answer.zoom);
    this.sayWhyEmpty();
    document.documentElement.dataset['whole'] = String(answer.whole);
    await Promise.all([this.find(), this.beside(query, asked)]);
    if (asked === this.asked) this.done();
  }

  /** Where there is nothing to be seen, says so, and what may be the reason. */
  private sayWhyEmpty(): void {
    const { value, state } = this.controls.chosen();
    const name = state > 0 ? this.header.states[state - 1] : 'unknown';
    const isOfWall = value !== 'wall' && state >= 0 && this.header.values.includes('wall');
    const why = isOfWall ? `Only wall time has the state ${name}: choose the value wall.`
      : 'Nothing of the profiles is all that is chosen: choose less of it, or press Show all.';
    element('empty').hidden = this.answer.whole > 0;
    element('empty').textContent = this.answer.whole > 0 ? '' : why;
  }

  /** What stands beside the graph. */
  private async beside(query: string, asked: number): Promise<void> {
    if (this.tab === 'requests') {
      const requests = await told<Requests>('requests', query);
      if (asked !== this.asked) return;
      const { value, endpoint } = this.controls.chosen();
      showRequests(requests, value === 'cpu', { endpoint, request: this.request }, {
        endpoint: (endpoint) => {
          this.controls.choose({ endpoint });
          this.changed();
        },
        request: (request) => {
          this.request = request;
          this.changed();
        },
      });
    }
    if (this.chosen >= 0) await this.sandwich(query, asked);
  }

  /** For tests: what was asked for is there. */
  private done(): void {
    this.answered = this.asked;
    document.documentElement.dataset['answered'] = String(this.answered);
  }

  /** A node is zoomed to: of a tree that lacks small nodes, those above it are asked for. */
  private zoomed(node: number): void {
    this.path(node);
    const { isCut, ids, zoom } = this.answer;
    if (isCut && node !== zoom) void this.guarded(() => this.show(ids[node] ?? 0));
  }

  private path(node: number): void {
    const go = (step: number) => this.graphs.zoomTo(step);
    showPath(element('path'), this.answer.tree, node, (of) => this.naming.name(of), go);
  }

  /** Shows the callers and callees of a function; -1 is none. */
  private choose(of: number): void {
    this.chosen = of;
    element('sandwich').hidden = of < 0;
    this.table.markChosen(of);
    this.tip.hide();
    this.remember();
    if (of < 0) return;
    const asked = ++this.asked;
    void this.guarded(async () => {
      await this.sandwich(this.query(), asked);
      if (asked === this.asked) this.done();
    });
  }

  private async sandwich(query: string, asked: number): Promise<void> {
    const of = this.chosen;
    element('chosen').textContent = this.naming.name(of);
    const [[callers, callees], lines] = await Promise.all([
      sandwich(query, of),
      this.header.has_lines ? told<{ lines: Line[] }>('lines', `${query}&of=${of}`) : { lines: [] },
    ]);
    if (asked !== this.asked) return;
    this.graphs.showSides(callers, callees);
    showLines(lines.lines, this.answer.whole);
  }

  /** Marks what the search finds, and says what part of all time that is. */
  private async find(): Promise<void> {
    const word = this.search.value.trim();
    const marks = marksOf(word, this.header.functions.names);
    this.graphs.mark(marks);
    this.table.show(this.answer.totals, this.answer.whole, marks);
    const asked = this.asked;
    const query = `${this.query()}&word=${encodeURIComponent(word)}`;
    const { ns } = marks ? await told<{ ns: number }>('search', query) : { ns: -1 };
    if (asked !== this.asked || word !== this.search.value.trim()) return;
    showMatched(ns, this.answer.whole);
  }

  /** Chooses a part of the time; none is all of it. */
  private during(range: [number, number] | null): void {
    this.range = range;
    const seconds = (time: number) => ((time - this.header.from) / 1e6).toFixed(3);
    element<HTMLInputElement>('from').value = range ? seconds(range[0]) : '';
    element<HTMLInputElement>('to').value = range ? seconds(range[1]) : '';
    element<HTMLButtonElement>('closer').disabled = range === null;
    element('time-problem').textContent = '';
    this.changed();
  }

  /** Draws the time that the timeline is to show. */
  private async lanes(): Promise<void> {
    const asked = ++this.askedLanes;
    const parts = new URLSearchParams(this.sourceParts());
    parts.set('slots', String(this.timeline.slots()));
    if (this.window) {
      parts.set('from', String(this.window[0]));
      parts.set('to', String(this.window[1]));
    }
    const lanes = await told<Lanes>('timeline', parts.toString());
    if (asked !== this.askedLanes) return;
    this.timeline.show(lanes);
    const more = lanes.threads - lanes.lanes.length;
    const sources = this.header.sources;
    const note = sources.some((source) => source.has_moments) ? ''
      : 'The files do not say when samples were taken (--timeline): each shows its sums.';
    element('lanes-note').textContent = more > 0 ? `and ${more} more threads. ${note}` : note;
    document.documentElement.dataset['lanes'] = String(lanes.lanes.length);
  }

  private look(window: [number, number] | null): void {
    this.window = window;
    this.remember();
    void this.guarded(() => this.lanes());
  }

  private showTab(tab: Tab): void {
    this.tab = tab;
    for (const name of TABS) {
      element(name).hidden = name !== tab;
      element(`tab-${name}`).setAttribute('aria-selected', String(name === tab));
    }
  }

  /** Takes what is chosen for one of the sides that are compared. */
  private compare(side: 0 | 1): void {
    this.sides[side] = this.query();
    this.remember();
    void this.guarded(() => this.diff());
  }

  private async diff(): Promise<void> {
    const [base, young] = this.sides;
    element('base-is').textContent = base === '' ? '–' : this.side(base);
    element('new-is').textContent = young === '' ? '–' : this.side(young);
    if (base === '' || young === '') return;
    const parts = new URLSearchParams();
    for (const [name, text] of new URLSearchParams(base)) parts.set(`base.${name}`, text);
    for (const [name, text] of new URLSearchParams(young)) parts.set(`new.${name}`, text);
    const diff = await told<Diff>('diff', parts.toString());
    const { functions, modules } = this.header;
    showDiff(diff, (name, module) => {
      const is = (at: number) => functions.names[at] === name
        && modules[functions.modules[at]] === module;
      this.choose(functions.names.findIndex((_, at) => is(at)));
    });
    document.documentElement.dataset['compared'] = JSON.stringify(this.sides);
  }

  /** What a side is, for a person. */
  private side(query: string): string {
    const parts = new URLSearchParams(query);
    const seconds = (name: string) => (
      ((Number(parts.get(name)) - this.header.from) / 1e6).toFixed(3));
    const words = [parts.get('value') ?? ''];
    if (parts.has('from')) words.push(`${seconds('from')} to ${seconds('to')} s`);
    const source = parts.get('source');
    if (source !== null) words.push(sourceNames(this.header.sources)[Number(source)]);
    for (const name of GROUPS) if (parts.has(name)) words.push(`${name} ${parts.get(name)}`);
    const named = (name: string, list: readonly string[]) => {
      const number = parts.get(name);
      if (number !== null) words.push(list[Number(number)]);
    };
    named('thread', this.header.threads);
    named('endpoint', this.header.endpoints);
    return words.join(', ');
  }

  /** Puts what is shown into the address. */
  private remember(): void {
    const { value, thread, endpoint, state, label, fold } = this.controls.chosen();
    const { header } = this;
    const named = (at: number, list: readonly string[]) => (at >= 0 ? list[at] : '');
    link.write(new Map<string, string>([
      ['value', value === header.values[0] ? '' : value],
      ['thread', named(thread, header.threads)],
      ['endpoint', named(endpoint, header.endpoints)],
      ['state', state > 0 ? header.states[state - 1] : ''],
      ['label', label ?? ''],
      ['request', this.request],
      ['fold', fold ? '' : '0'],
      ['from', this.range ? String(this.range[0]) : ''],
      ['to', this.range ? String(this.range[1]) : ''],
      ['window', this.window ? this.window.join('-') : ''],
      ['search', this.search.value.trim()],
      ['function', this.chosen >= 0 ? this.naming.name(this.chosen) : ''],
      ['direction', this.direction.value === 'icicle' ? '' : this.direction.value],
      ['tab', this.tab === 'functions' ? '' : this.tab],
      ['before', this.sides[0]],
      ['after', this.sides[1]],
      ...this.sourceParts(),
    ]));
  }

  /** Shows what the address says. */
  private restore(): void {
    const shown = link.read();
    const { header } = this;
    const text = (name: string) => shown.get(name) ?? '';
    this.controls.choose({
      value: (text('value') || header.values[0]) as Value,
      thread: header.threads.indexOf(text('thread')),
      endpoint: header.endpoints.indexOf(text('endpoint')),
      state: text('state') === '' ? -1 : header.states.indexOf(text('state')) + 1,
      label: shown.get('label') ?? null,
      fold: text('fold') !== '0',
    });
    for (const name of [...GROUPS, 'source']) {
      this.narrow();
      const field = element<HTMLSelectElement>(name);
      field.value = text(name);
      if (field.selectedIndex < 0) field.selectedIndex = 0;
    }
    this.narrow();
    // Its thread may only be offered now.
    this.controls.choose({ thread: header.threads.indexOf(text('thread')) });
    this.request = text('request');
    this.search.value = text('search');
    this.direction.value = text('direction') || 'icicle';
    this.graphs.turn(this.direction.value as Direction);
    this.sides = [text('before'), text('after')];
    const window = text('window').split('-').map(Number);
    this.window = window.length === 2 && window[0] < window[1] ? [window[0], window[1]] : null;
    this.showTab(TABS.find((tab) => tab === text('tab')) ?? 'functions');
    const [from, to] = [Number(text('from')), Number(text('to'))];
    void this.guarded(() => this.lanes());
    void this.guarded(() => this.diff());
    this.chosen = header.functions.names.indexOf(text('function'));
    element('sandwich').hidden = this.chosen < 0;
    this.table.markChosen(this.chosen);
    this.during(from < to ? [from, to] : null);
  }

  /** The fields by which files are chosen, where there are several. */
  private sources(): void {
    this.narrow();
    for (const id of [...GROUPS, 'source']) {
      const field = element<HTMLSelectElement>(id);
      element(`${id}-field`).hidden = field.options.length < 3;
      field.addEventListener('change', () => {
        this.narrow();
        this.changed();
        void this.guarded(() => this.lanes());
      });
    }
  }

  /** Offers in each field what there is of that which is chosen in those before it. */
  private narrow(): void {
    const { sources, threads } = this.header;
    let of = sources.map((source, at): [Source, number] => [source, at]);
    for (const group of GROUPS) {
      const names = new Set(of.map(([source]) => source[group]).filter((name) => name !== ''));
      const field = element<HTMLSelectElement>(group);
      refill(field, 'all', '', [...names].sort().map((name) => [name, name]));
      if (field.value !== '') of = of.filter(([source]) => source[group] === field.value);
    }
    // Of hundreds of files one chooses the time.
    const names = sources.length <= MAX_FILES ? sourceNames(sources) : [];
    const files = names.length > 0 ? of : [];
    const field = element<HTMLSelectElement>('source');
    refill(field, 'all', '', files.map(([, at]) => [names[at], at]));
    if (field.value !== '') of = of.filter(([, at]) => at === Number(field.value));
    const isAll = of.length === sources.length;
    const has = new Set(isAll ? [] : of.flatMap(([source]) => source.threads));
    const offered = threads.map((name, at): [string, number] => [name, at]);
    this.controls.offerThreads(offered.filter(([, at]) => isAll || has.has(at)));
  }

  private legends(): void {
    const { origins, states, present } = this.header;
    showLegend(element('legend'), origins, colours(false).origins);
    const shown = states.map((_, at) => at).filter((at) => present.includes(at + 1));
    showLegend(element('states'), shown.map((at) => states[at]),
      shown.map((at) => colours(false).states[at]));
  }

  private about(): void {
    const { name, from, to, files } = this.header;
    showAbout(name, from / 1e3, (to - from) / 1e6, files);
  }

  private listen(): void {
    const on = (id: string, done: () => void) => element(id).addEventListener('click', done);
    this.search.addEventListener('input', () => this.searched());
    on('back', () => this.choose(-1));
    on('all', () => {
      history.replaceState(null, '', `${location.pathname}${location.search}`);
      this.restore();
    });
    on('copy', () => void this.guarded(() => navigator.clipboard.writeText(location.href)));
    on('closer', () => this.look(this.range));
    on('whole', () => this.look(null));
    on('no-request', () => {
      this.request = '';
      this.changed();
    });
    on('as-base', () => this.compare(0));
    on('as-new', () => this.compare(1));
    for (const tab of TABS) {
      on(`tab-${tab}`, () => {
        this.showTab(tab);
        this.changed();
      });
    }
    for (const id of ['from', 'to']) element(id).addEventListener('change', () => this.typed());
    this.direction.addEventListener('change', () => {
      this.graphs.turn(this.direction.value as Direction);
      this.remember();
    });
    onKeys(this.search, {
      searched: () => this.searched(),
      back: () => {
        const isShown = this.chosen >= 0;
        if (isShown) this.choose(-1);
        return isShown;
      },
      all: () => this.graphs.zoomTo(0),
    });
    window.addEventListener('hashchange', () => this.restore());
    onThemeChange(() => {
      this.legends();
      this.timeline.redraw();
      this.graphs.redraw();
    });
    window.addEventListener('beforeprint', () => this.graphs.print(true));
    window.addEventListener('afterprint', () => this.graphs.print(false));
  }

  private searched(): void {
    this.remember();
    const asked = ++this.asked;
    void this.guarded(async () => {
      await this.find();
      if (asked === this.asked) this.done();
    });
  }

  /** A time was typed, in seconds since the beginning. */
  private typed(): void {
    const { from, to } = this.header;
    const time = (id: string, otherwise: number) => {
      const { value } = element<HTMLInputElement>(id);
      return value === '' ? otherwise : Math.round(from + Number(value) * 1e6);
    };
    const fields = ['from', 'to'].map((id) => element<HTMLInputElement>(id));
    if (fields.every(({ value, validity }) => value === '' && !validity.badInput)) {
      this.during(null);
      return;
    }
    const range: [number, number] = [time('from', from), time('to', to)];
    const isNumber = fields.every(({ validity }) => !validity.badInput);
    const isIn = range[0] < to && range[1] > from;
    const problem = !isNumber ? 'seconds are needed'
      : range[0] >= range[1] ? 'that ends before it begins'
      : isIn ? '' : 'the profiles are of another time';
    // What was typed stays, and so does what is shown, until both fit.
    if (problem === '') this.during(range);
    else element('time-problem').textContent = problem;
  }

  /** Does something, and says so if it can't be done. */
  private async guarded(action: () => Promise<void>): Promise<void> {
    const problem = element('problem');
    try {
      await action();
      problem.hidden = true;
    } catch (error) {
      problem.hidden = false;
      problem.textContent = error instanceof Trouble ? error.message : String(error);
    }
  }

  /** Where things are in the page; for tests. */
  whereIs(name: string): { x: number; y: number } | null {
    return this.graphs.whereIs(this.header.functions.names.indexOf(name));
  }
}

async function start(): Promise<void> {
  const loading = element('loading');
  try {
    const known = await header((done, files) => {
      loading.textContent = `Reading file ${Math.min(done + 1, files)} of ${files} …`;
    }, storeControls);
    loading.hidden = true;
    Object.assign(window, { corprof: new Viewer(known) });
    document.documentElement.dataset['ready'] = 'true';
  } catch (error) {
    loading.hidden = true;
    const problem = element('problem');
    problem.hidden = false;
    problem.textContent = error instanceof Trouble ? error.message : String(error);
  }
}

void start();
