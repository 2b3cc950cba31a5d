/** A tree of stacks with what each node counts. */

/** Node 0 is the root, and parents come before their children. */
export class Tree {
  /** Nanoseconds of each node with all above it. */
  readonly total: Float64Array;
  private readonly firsts: Int32Array;
  private readonly children: Int32Array;
  private readonly sorted = new Map<number, number[]>();

  /**
   * `self` is the nanoseconds of each node itself; `total`, those with all above it, is given for a
   * tree that lacks some of its nodes.
   */
  constructor(
    readonly parents: Int32Array,
    readonly functions: Int32Array,
    readonly self: Float64Array,
    total?: Float64Array,
  ) {
    const length = parents.length;
    this.total = total ?? self.slice();
    for (let node = length - 1; node > 0 && !total; node--) {
      this.total[parents[node]] += this.total[node];
    }
    this.firsts = new Int32Array(length + 1);
    for (let node = 1; node < length; node++) this.firsts[parents[node] + 1]++;
    for (let node = 0; node < length; node++) this.firsts[node + 1] += this.firsts[node];
    this.children = new Int32Array(Math.max(length - 1, 0));
    const next = this.firsts.slice();
    for (let node = 1; node < length; node++) this.children[next[parents[node]]++] = node;
  }

  get length(): number {
    return this.parents.length;
  }

  /** The children that count anything, the largest first. */
  childrenOf(node: number): readonly number[] {
    const known = this.sorted.get(node);
    if (known) return known;
    const all = this.children.subarray(this.firsts[node], this.firsts[node + 1]);
    const list = Array.from(all).filter((child) => this.total[child] > 0);
    list.sort((a, b) => this.total[b] - this.total[a] || a - b);
    this.sorted.set(node, list);
    return list;
  }

  /** The nodes from the root to that one, both included. */
  path(node: number): number[] {
    const nodes = [];
    for (let next = node; next >= 0; next = this.parents[next]) nodes.push(next);
    return nodes.reverse();
  }

  /** Nanoseconds under functions that are marked, each counted once. */
  marked(marks: Uint8Array): number {
    const covered = new Uint8Array(this.length);
    let sum = 0;
    for (let node = 1; node < this.length; node++) {
      const above = covered[this.parents[node]];
      const own = marks[this.functions[node]];
      covered[node] = above | own;
      if (own && !above) sum += this.total[node];
    }
    return sum;
  }
}

/** Which nodes have no caller of the same function: recursion counts once in a function's total. */
export function outermost(parents: Int32Array, functions: Int32Array, count: number): Uint8Array {
  const marks = new Uint8Array(parents.length);
  // In each function's slot the node that is open at this moment, as one goes through the stacks.
  const open = new Int32Array(count).fill(-1);
  const path: number[] = [];
  const order = depthFirst(parents);
  for (const node of order) {
    while (path.length > 0 && path[path.length - 1] !== parents[node]) close(path.pop() as number);
    const of = functions[node];
    if (of >= 0 && open[of] < 0) {
      open[of] = node;
      marks[node] = 1;
    }
    path.push(node);
  }
  return marks;

  function close(node: number): void {
    const of = functions[node];
    if (of >= 0 && open[of] === node) open[of] = -1;
  }
}

/** All nodes, each right before the nodes above it. */
function depthFirst(parents: Int32Array): Int32Array {
  const length = parents.length;
  // How many nodes each has above it, itself included.
  const sizes = new Int32Array(length).fill(1);
  for (let node = length - 1; node > 0; node--) sizes[parents[node]] += sizes[node];
  const next = new Int32Array(length);
  const order = new Int32Array(length);
  next[0] = 1;
  for (let node = 1; node < length; node++) {
    const place = next[parents[node]];
    next[parents[node]] += sizes[node];
    order[place] = node;
    next[node] = place + 1;
  }
  return order;
}
