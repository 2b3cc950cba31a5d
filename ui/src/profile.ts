/** The profile in the page, as `crates/cli/src/flamegraph/pack.rs` wrote it. */

export type Value = 'cpu' | 'wall' | 'gc';
export const VALUES: readonly Value[] = ['cpu', 'wall', 'gc'];

const VERSION = 1;

/** Of what the page has only a part: in words, and by the fields that there are. */
export interface Filter {
  /** Empty if it has everything. */
  text: string;
  endpoint: string | null;
  state: string | null;
  label: string | null;
}

/** What the numbers in the columns mean. */
export interface Header {
  version: number;
  corprof: string;
  name: string;
  files: number;
  start_unix_ms: number;
  duration_ns: number;
  value: Value;
  filter: Filter;
  functions: { names: string[]; modules: number[]; origins: number[] };
  modules: string[];
  origins: string[];
  threads: string[];
  states: string[];
  endpoints: string[];
  labels: [string, string][][];
  nodes: number;
  rows: number;
  columns: string[];
}

/** What samples of the same stacks, thread, state, endpoint and labels add up to; by columns. */
export interface Rows {
  length: number;
  /** The node of the whole stack. */
  full: Int32Array;
  /** The node of the stack without plumbing. */
  folded: Int32Array;
  /** 1 if the thread waited for work, whose wall time folding leaves out. */
  idle: Int32Array;
  thread: Int32Array;
  /** 0 if unknown, else one more than the position in the header. */
  state: Int32Array;
  endpoint: Int32Array;
  labels: Int32Array;
  /** Nanoseconds. */
  values: Record<Value, Float64Array>;
}

/** A profile. Node 0 is the root of all stacks, and parents come before their children. */
export interface Profile {
  header: Header;
  parents: Int32Array;
  /** The function of each node; -1 of the root. */
  functions: Int32Array;
  rows: Rows;
}

/** Reads numbers, one after the other. */
export class Numbers {
  private at: number;

  constructor(private readonly bytes: Uint8Array, begin: number) {
    this.at = begin;
  }

  next(): number {
    let number = 0;
    let factor = 1;
    for (;;) {
      if (this.at >= this.bytes.length) throw new Error('it ends too early');
      const byte = this.bytes[this.at++];
      // No shifts: they would cut what is over 32 bits.
      number += (byte & 0x7f) * factor;
      if (byte < 0x80) return number;
      factor *= 128;
    }
  }

  integers(length: number): Int32Array {
    const column = new Int32Array(length);
    for (let row = 0; row < length; row++) column[row] = this.next();
    return column;
  }

  times(length: number): Float64Array {
    const column = new Float64Array(length);
    for (let row = 0; row < length; row++) column[row] = this.next();
    return column;
  }

  /** Each told as the difference to the one before. */
  nodes(length: number): Int32Array {
    const column = new Int32Array(length);
    let before = 0;
    for (let row = 0; row < length; row++) {
      const number = this.next();
      before += number % 2 === 0 ? number / 2 : -(number - 1) / 2;
      column[row] = before;
    }
    return column;
  }
}

/** The profile out of the text in the page. */
export async function read(text: string): Promise<Profile> {
  const packed = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const inflated = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  return decode(new Uint8Array(await new Response(inflated).arrayBuffer()));
}

function decode(bytes: Uint8Array): Profile {
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const text = new TextDecoder().decode(bytes.subarray(4, 4 + length));
  const header = JSON.parse(text) as Header;
  if (header.version !== VERSION) throw new Error('it is of another version of corprof');
  const numbers = new Numbers(bytes, 4 + length);
  const parents = new Int32Array(header.nodes + 1);
  const functions = new Int32Array(header.nodes + 1);
  parents[0] = -1;
  functions[0] = -1;
  for (let node = 1; node <= header.nodes; node++) parents[node] = node - numbers.next();
  for (let node = 1; node <= header.nodes; node++) functions[node] = numbers.next();
  return { header, parents, functions, rows: rows(numbers, header.rows) };
}

function rows(numbers: Numbers, length: number): Rows {
  return {
    length,
    full: numbers.nodes(length),
    folded: numbers.nodes(length),
    idle: numbers.integers(length),
    thread: numbers.integers(length),
    state: numbers.integers(length),
    endpoint: numbers.integers(length),
    labels: numbers.integers(length),
    values: {
      cpu: numbers.times(length),
      wall: numbers.times(length),
      gc: numbers.times(length),
    },
  };
}
