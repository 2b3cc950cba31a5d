/** What `corprof view` answers, as `crates/cli/src/view/api.rs` writes it. */

import type { Names } from './names';
import { Numbers, type Value } from './profile';
import type { Totals } from './selection';
import { stamp } from './text';
import { Tree } from './tree';

const VERSION = 1;

/** A file, or what an agent pushed at once. */
export interface Source {
  name: string;
  service: string;
  version: string;
  instance: string;
  /** Microseconds since 1970. */
  from: number;
  to: number;
  has_moments: boolean;
  /** Numbers of its threads. */
  threads: number[];
}

/** What each source is called: with its instance and when it begins, where others have its name. */
export function sourceNames(sources: readonly Source[]): string[] {
  const count = new Map<string, number>();
  for (const { name } of sources) count.set(name, (count.get(name) ?? 0) + 1);
  return sources.map(({ name, instance, from }) => {
    if (count.get(name) === 1) return name;
    const parts = [name, name.includes(instance) ? '' : instance, stamp(from / 1e3)];
    return parts.filter((part) => part !== '').join(', ');
  });
}

/** What is known once and for all. */
export interface Header extends Names {
  version: number;
  /** Told with each question: numbers of other columns mean something else. */
  epoch: number;
  name: string;
  files: number;
  from: number;
  to: number;
  values: Value[];
  threads: string[];
  states: string[];
  /** Numbers of states that there are; 0 is unknown. */
  present: number[];
  endpoints: string[];
  labels: [string, string][][];
  has_lines: boolean;
  /** From the first to the last profile of a server's store, in microseconds since 1970. */
  store: [number, number] | null;
  samples: number;
  moments: number;
  sources: Source[];
}

/** What a selection adds up to. */
export interface Flame {
  tree: Tree;
  /** The numbers by which nodes can be asked for. */
  ids: Int32Array;
  /** Whether there are more nodes, too small to be sent. */
  isCut: boolean;
  /** The node that is zoomed to. */
  zoom: number;
  totals: Totals;
  whole: number;
  /** Functions that there are by now. */
  known: number;
}

export interface Endpoint {
  endpoint: number;
  name: string;
  /** `null` where samples don't say which request they are of. */
  cpu_ns: number | null;
  wall_ns: number | null;
  requests: number;
  elapsed_ns: number;
}

export interface Request {
  request: string;
  trace: string;
  endpoint: number;
  name: string;
  cpu_ns: number;
  wall_ns: number;
}

export interface Requests {
  endpoints: Endpoint[];
  requests: Request[];
}

/** A thread's lane: runs of slots, as `[slots, state, …]`. */
export interface Lane {
  thread: number;
  /** Of a server there may be threads that were not there when the header was asked for. */
  name: string;
  runs: number[];
}

/** The timeline. */
export interface Lanes {
  from: number;
  to: number;
  slots: number;
  threads: number;
  lanes: Lane[];
}

export interface Change {
  base: number;
  new: number;
  change: number;
  half_width: number;
}

export interface DiffRow {
  name: string;
  module: string;
  share: Change | null;
  ns_per_request: Change | null;
  is_significant: boolean;
}

export interface Diff {
  measure: 'share' | 'ns_per_request';
  confidence: number;
  base: { files: number; ns: number; requests: number };
  new: { files: number; ns: number; requests: number };
  rows: DiffRow[];
  /** Whether nothing can be told of one run a side. */
  needs_runs: boolean;
}

export interface Line {
  line: string | null;
  ns: number;
}

/** Something went wrong; the text is for a person. */
export class Trouble extends Error {}

/** What stands in each question: of which time the columns are, and which of them. */
let common = new URLSearchParams(location.search).has('span')
  ? `span=${encodeURIComponent(new URLSearchParams(location.search).get('span') ?? '')}` : '';

async function ask(question: string, query: string): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(`api/${question}?${[common, query].filter((part) => part).join('&')}`);
  } catch {
    throw new Trouble('corprof does not answer any more: it was ended, or the network is gone');
  }
  // The names in the address mean the same after it.
  if (response.status === 409) location.reload();
  if (!response.ok) throw new Trouble((await response.text()).trim());
  return response;
}

/** An answer in JSON. */
export async function told<T>(question: string, query = ''): Promise<T> {
  return (await ask(question, query)).json() as Promise<T>;
}

interface Progress {
  files: number;
  done: number;
  is_ready: boolean;
  store?: [number, number];
}

/**
 * The header, once all is read; calls back with how far that is, and with a server's time before
 * anything can go wrong that depends on which of it is asked for.
 */
export async function header(
  progress: (done: number, files: number) => void,
  stored: (store: [number, number] | null) => void,
): Promise<Header> {
  let store: [number, number] | null = null;
  for (;;) {
    const now = await told<Progress>('progress');
    store = now.store ?? null;
    if (now.is_ready) break;
    progress(now.done, now.files);
    await new Promise((wake) => setTimeout(wake, 150));
  }
  stored(store);
  const header = await told<Header>('header');
  if (header.version !== VERSION) throw new Trouble('the page is of another version: load it anew');
  common = [common, `epoch=${header.epoch}`].filter((part) => part).join('&');
  return { ...header, store };
}

interface Packed<T> {
  header: T;
  numbers: Numbers;
}

async function packed<T>(question: string, query: string): Promise<Packed<T>> {
  const bytes = new Uint8Array(await (await ask(question, query)).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length))) as T;
  return { header, numbers: new Numbers(bytes, 4 + length) };
}

/** A tree, and the numbers of its nodes, if they have some. */
function branch(numbers: Numbers, nodes: number, count: number): { tree: Tree; ids: Int32Array } {
  const parents = new Int32Array(nodes + 1);
  const functions = new Int32Array(nodes + 1);
  const self = new Float64Array(nodes + 1);
  const total = new Float64Array(nodes + 1);
  const ids = new Int32Array(count + 1);
  parents[0] = -1;
  functions[0] = -1;
  for (let node = 1; node <= nodes; node++) parents[node] = node - numbers.next();
  for (let node = 1; node <= nodes; node++) functions[node] = numbers.next();
  for (let node = 1; node <= nodes; node++) self[node] = numbers.next();
  for (let node = 1; node <= nodes; node++) total[node] = numbers.next();
  for (let node = 1; node <= count; node++) ids[node] = numbers.next();
  self[0] = numbers.next();
  total[0] = numbers.next();
  return { tree: new Tree(parents, functions, self, total), ids };
}

interface FlameHeader {
  nodes: number;
  ids: number;
  is_cut: boolean;
  zoom: number;
  functions: number;
  known: number;
  whole: number;
}

/** The tree of a selection, and what each function has. */
export async function flame(query: string): Promise<Flame> {
  const { header, numbers } = await packed<FlameHeader>('flame', query);
  const { tree, ids } = branch(numbers, header.nodes, header.ids);
  const of = numbers.integers(header.functions);
  const own = numbers.times(header.functions);
  const all = numbers.times(header.functions);
  const { known } = header;
  const totals = { self: new Float64Array(known), total: new Float64Array(known) };
  of.forEach((function_, at) => {
    totals.self[function_] = own[at];
    totals.total[function_] = all[at];
  });
  const zoom = header.zoom > 0 ? Math.max(ids.indexOf(header.zoom), 0) : 0;
  return { tree, ids, isCut: header.is_cut, zoom, totals, whole: header.whole, known };
}

/** Callers and callees of a function. */
export async function sandwich(query: string, of: number): Promise<[Tree, Tree]> {
  const { header, numbers } = await packed<{ nodes: number[] }>('sandwich', `${query}&of=${of}`);
  const callers = branch(numbers, header.nodes[0], 0).tree;
  return [callers, branch(numbers, header.nodes[1], 0).tree];
}
