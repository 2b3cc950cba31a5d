/** What of a profile is shown, and what that adds up to. */

import type { Profile, Value } from './profile';
import { outermost, Tree } from './tree';

/** What is chosen; -1 is everything. */
export interface Selection {
  value: Value;
  thread: number;
  endpoint: number;
  /** As in the rows: 0 is an unknown state. */
  state: number;
  /** Which sets of labels; all if there is none. */
  labels: ReadonlySet<number> | null;
  fold: boolean;
}

/** Nanoseconds by function. */
export interface Totals {
  self: Float64Array;
  total: Float64Array;
}

/** Adds a profile up, again and again. */
export class Adder {
  private readonly outermost: Uint8Array;

  constructor(private readonly profile: Profile) {
    const { parents, functions, header } = profile;
    this.outermost = outermost(parents, functions, header.functions.names.length);
  }

  /** The tree of what is selected. */
  tree(selection: Selection): Tree {
    const { parents, functions, rows } = this.profile;
    const self = new Float64Array(parents.length);
    const values = rows.values[selection.value];
    const nodes = selection.fold ? rows.folded : rows.full;
    const leavesOut = selection.fold && selection.value === 'wall';
    const { thread, endpoint, state, labels } = selection;
    for (let row = 0; row < rows.length; row++) {
      if (leavesOut && rows.idle[row]) continue;
      if (thread >= 0 && rows.thread[row] !== thread) continue;
      if (endpoint >= 0 && rows.endpoint[row] !== endpoint) continue;
      if (state >= 0 && rows.state[row] !== state) continue;
      if (labels && !labels.has(rows.labels[row])) continue;
      self[nodes[row]] += values[row];
    }
    return new Tree(parents, functions, self);
  }

  /** What each function has in a tree of this profile. */
  totals(tree: Tree): Totals {
    const count = this.profile.header.functions.names.length;
    const totals = { self: new Float64Array(count), total: new Float64Array(count) };
    for (let node = 1; node < tree.length; node++) {
      const of = tree.functions[node];
      totals.self[of] += tree.self[node];
      if (this.outermost[node]) totals.total[of] += tree.total[node];
    }
    return totals;
  }

  /** The outermost nodes of a function. */
  nodesOf(tree: Tree, of: number): number[] {
    const nodes = [];
    for (let node = 1; node < tree.length; node++) {
      if (tree.functions[node] === of && this.outermost[node] && tree.total[node] > 0) {
        nodes.push(node);
      }
    }
    return nodes;
  }
}
