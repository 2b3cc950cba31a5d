/** Who calls a function, and whom it calls: the stacks around it, laid on top of each other. */

import { Tree } from './tree';

/** A tree that grows. Its root stands for nothing, and the function lies on it. */
class Growing {
  private readonly parents: number[] = [-1];
  private readonly functions: number[] = [-1];
  private readonly self: number[] = [0];
  private readonly places = new Map<number, number>();

  constructor(private readonly count: number) {}

  /** The child of that function, made if there is none. */
  child(parent: number, of: number): number {
    const key = parent * this.count + of;
    const known = this.places.get(key);
    if (known !== undefined) return known;
    const node = this.parents.length;
    this.parents.push(parent);
    this.functions.push(of);
    this.self.push(0);
    this.places.set(key, node);
    return node;
  }

  add(node: number, ns: number): void {
    this.self[node] += ns;
  }

  tree(): Tree {
    const { parents, functions, self } = this;
    return new Tree(Int32Array.from(parents), Int32Array.from(functions), Float64Array.from(self));
  }
}

/** The callers of the function whose outermost nodes these are; `count` is that of functions. */
export function callers(tree: Tree, nodes: readonly number[], count: number): Tree {
  const growing = new Growing(count);
  for (const node of nodes) {
    let place = growing.child(0, tree.functions[node]);
    for (let next = tree.parents[node]; next > 0; next = tree.parents[next]) {
      place = growing.child(place, tree.functions[next]);
    }
    growing.add(place, tree.total[node]);
  }
  return growing.tree();
}

/** What it calls. */
export function callees(tree: Tree, nodes: readonly number[], count: number): Tree {
  const growing = new Growing(count);
  const places = new Int32Array(tree.length).fill(-1);
  for (const node of nodes) places[node] = growing.child(0, tree.functions[node]);
  for (let node = 1; node < tree.length; node++) {
    if (tree.total[node] <= 0) continue;
    const below = places[tree.parents[node]];
    if (below >= 0) places[node] = growing.child(below, tree.functions[node]);
    if (places[node] >= 0) growing.add(places[node], tree.self[node]);
  }
  return growing.tree();
}
